# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8

cdef class Marks:
    cdef const u8[::1] data
    cdef const i64[::1] places
    cdef i64[::1] found

cdef class NewPairs:
    cdef const u8[::1] data
    cdef const i64[::1] bth, mads, lrh, grh, ip4, ip6
    cdef i64[::1] table
    cdef i64 most, count, mask
    cdef bint is_new(self, i64 key) except? -1
    cdef i64 pair(self, Py_ssize_t row) except? -1
    cdef i64 hash(self, Py_ssize_t source, Py_ssize_t destination, Py_ssize_t size) except? -1
