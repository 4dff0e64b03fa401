# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u64
from ibdissect.engine.datagram_copies cimport Recent, Window

cdef class PassingPackets(Window):
    cdef const i64[::1] mads, end, taps
    cdef i64[::1] seen
    cdef Recent recent, lanes, asked
    cdef public bint over
    cdef int take(self, Py_ssize_t row, i64 first_frame, object found) except? -1
    cdef bint usual(self, i64 rank) except? -1
    cdef bint overtaken(self, u64 lane, i64 rank, i64 origin) except? -1
    cdef bint called(self, Py_ssize_t row, i64 origin) except? -1
