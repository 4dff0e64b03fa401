# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u64
from ibdissect.engine.halves cimport Half
from ibdissect.engine.order cimport Order
from ibdissect.engine.packets cimport Packet, Reader
from ibdissect.engine.waits cimport Room

cdef class Host:
    cdef public u64 hi, lo
    cdef public i64 number, heard, first_time, last_time, last_frame, checked, wrong

cdef class Lane:
    cdef public u64 key
    cdef public i64 qpn, packets, network
    cdef public Host src, dst
    cdef public Lane peer
    cdef public Half requests, answers
    cdef public Order stream
    cdef public i64 last_frame, last_time, pkey, versions, checked
    cdef public i64 first_frame, first_time, side, pkeys, service, order
    cdef public i64 cnps, cnp_time, cnp_frame, cnp_last, wrong, wrong_first, wrong_last, version_frame
    cdef public u64 pair, cnp_ident
    cdef public int first_asked, newest, first_answer, newest_answer, crowd, claim, rival
    cdef public Lane claimant
    cdef public bint settled, reads
    cdef public object setup, backlog, hits

cdef class Lanes:
    cdef public dict lanes, hosts, paths, expected, waiting, older, fronts, near_psns
    cdef public list near, near_hosts
    cdef public object told, setups, finished, queue, data, mads, recent, end
    cdef public Room room
    cdef public i64 hosts_dropped, remembered, halves, held, dropped, order, collisions, last_time, first_time, frames
    cdef Packet packet
    cpdef Order facing(self, Order one)
    cdef int follow(self, Lane lane, Packet p) except? -1
    cdef int deliver(self, Lane lane, Packet p) except? -1
    cdef int unpaired(self, Lane lane, Packet p) except? -1
    cdef Lane new_lane(self, Packet p)
    cdef int left_out(self, Packet p) except? -1
    cdef Host host(self, u64 hi, u64 lo)
    cdef Half half(self, Lane requests, Lane answers)
    cdef int congestion(self, Lane lane, Packet p) except? -1
    cdef int noted(self, Lane lane, Packet p) except? -1
    cdef int datagram(self, Packet p, Py_ssize_t i) except? -1
