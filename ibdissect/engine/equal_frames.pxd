# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8

cdef class Frames:
    cdef const u8[::1] data
    cdef const i64[::1] times, starts, sizes, begins, wire, numbers
    cdef Py_ssize_t rows
    cdef bint rising
    cdef Py_ssize_t copied(self, Py_ssize_t row) except? -1
    cdef Py_ssize_t alike(self, Py_ssize_t one, Py_ssize_t other) except? -1
    cdef Py_ssize_t alike_so_far(self, Py_ssize_t one, Py_ssize_t other, Py_ssize_t size) except? -1
