# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8

cdef class Offsets:
    cdef public object block
    cdef public object marks
    cdef i64[::1] found, slots, wire, limit, stop, payload_end
    cdef u8[::1] malformed, opcode, complete, snapped
    cdef const u8[::1] data, pairs
    cdef const i64[::1] starts, sizes, lengths
    cdef public Py_ssize_t rows
    cdef Py_ssize_t row, start, end, depth
    cdef public Py_ssize_t taken
    cdef int begin(self, Py_ssize_t row) except? -1
    cdef int put(self, Py_ssize_t name, Py_ssize_t at) except? -1
    cdef Py_ssize_t at(self, Py_ssize_t name) except? -2
    cdef int outer(self, Py_ssize_t name, Py_ssize_t at) except? -1
    cdef int move(self, Py_ssize_t name) except? -1
    cdef int bad(self, int reason) except? -1
    cdef int missing(self, Py_ssize_t at, Py_ssize_t size, int reason) except? -1
    cdef int longer(self, Py_ssize_t stop, Py_ssize_t inner) except? -1
    cdef int skip(self, Py_ssize_t at) except? -1
    cdef int unread(self, Py_ssize_t at) except? -1
    cdef int payload(self, Py_ssize_t at, Py_ssize_t stop) except? -1
