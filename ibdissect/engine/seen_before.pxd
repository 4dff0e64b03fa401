# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8

cdef class Marks:
    cdef const u8[::1] data
    cdef const i64[::1] places, lrh, bth, mads
    cdef i64[::1] found

cdef class Judged:
    cdef const i64[::1] contents
    cdef u8[::1] found
    cdef i64[::1] table, earlier
    cdef i64 most, count, mask
    cdef int make_room(self, Py_ssize_t new) except? -1
    cdef int remember(self, i64 content) except? -1
    cdef Py_ssize_t place(self, i64 content) except? -1

cdef class IPv4Senders:
    cdef const u8[::1] data
    cdef const i64[::1] bth, ip4, limit
    cdef const unsigned short[::1] taps
    cdef i64[::1] found

cdef class NewNumbers:
    cdef const i64[::1] numbers
    cdef i64[::1] table
    cdef i64 most, count, mask
    cdef bint is_new(self, i64 number) except? -1
