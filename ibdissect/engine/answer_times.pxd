# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64
from ibdissect.engine.waiting_packets cimport Room

cdef class Gaps:
    cdef public i64 count, long_count, long_sum
    cdef i64[::1] table
    cdef Py_ssize_t place(self, i64 what) except? -1
    cdef int grow(self) except? -1
    cdef int add(self, Room room, i64 gap, i64 trip) except? -1
    cpdef object classes(self)
