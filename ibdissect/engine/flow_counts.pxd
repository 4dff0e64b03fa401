# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64

cdef class FlowCounts:
    cdef const i64[::1] bth, offset, times, rows, slid, dlid, p_key, dest_qp, senders, receivers
    cdef i64[::1] kept, table
    cdef public object block
    cdef public i64 most, begun
    cdef i64 taken, mask
    cdef Py_ssize_t find(self, i64 flow) except? -1
    cdef i64 begin(self, i64 flow) except? -1
    cdef int resize(self, Py_ssize_t flows) except? -1
    cdef int make_table(self) except? -1
