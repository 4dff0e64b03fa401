# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u64
from ibdissect.engine.requester_responder cimport Half
from ibdissect.engine.psn_order cimport Order

cdef class Host:
    cdef public u64 hi, lo
    cdef public i64 network, number, heard, first_time, last_time, last_frame, checked, wrong

cdef class Lane:
    cdef public u64 key
    cdef public i64 qpn, packets, network
    cdef public Host src, dst
    cdef public Lane peer
    cdef public Half requests, answers
    cdef public Order stream
    cdef public i64 last_frame, last_time, checked
    cdef public int pkey, versions, side, service
    cdef public i64 first_frame, first_time, order
    cdef public i64 cnps, cnp_frame, cnp_last, wrong, wrong_first, wrong_last
    cdef public int first_asked, newest, first_answer, newest_answer, crowd, claim, rival
    cdef public Lane claimant
    cdef public bint settled, reads, long_reads, over
    cdef public i64 begun, front, active, way, back
    cdef public u64 begun_content
    cdef public object setup, backlog, hits

cdef int join(dict index, i64 key, Lane lane) except? -1
cdef object living(dict known)
cdef int leave(dict index, i64 key, Lane lane) except? -1
