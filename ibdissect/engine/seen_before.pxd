# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8

cdef class Marks:
    cdef const u8[::1] data
    cdef const i64[::1] places
    cdef i64[::1] found

cdef class Senders:
    cdef const u8[::1] data
    cdef const i64[::1] bth, ip4, limit
    cdef const unsigned short[::1] taps
    cdef i64[::1] found

cdef class NewNumbers:
    cdef const i64[::1] numbers
    cdef i64[::1] table
    cdef i64 most, count, mask
    cdef bint is_new(self, i64 number) except? -1
