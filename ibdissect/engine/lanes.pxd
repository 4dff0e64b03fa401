# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u64
from ibdissect.engine.halves cimport Half
from ibdissect.engine.packets cimport Packet, Reader
from ibdissect.engine.waits cimport Room

cdef class Host:
    cdef public u64 hi, lo
    cdef public i64 number, sent, heard, first_time, last_time, last_frame, checked, wrong

cdef class Lane:
    cdef public u64 key, pair
    cdef public Host src, dst
    cdef public i64 qpn, network, first_frame, last_frame, first_time, last_time, packets, side, requests_bad, pkey, pkeys, service
    cdef public i64 cnps, cnp_time, cnp_frame, cnp_last, checked, wrong, wrong_first, wrong_last, versions, version_frame, order
    cdef public u64 cnp_ident
    cdef public bint settled
    cdef public Lane peer
    cdef public Half requests, answers
    cdef public object setup, backlog, hits

cdef class Lanes:
    cdef public dict lanes, hosts, paths, expected, waiting, older
    cdef public object setups, finished, queue, data, mads, recent, end
    cdef public Room room
    cdef public i64 hosts_dropped, halves, held, dropped, order, collisions, last_time, first_time, frames
    cdef Packet packet
    cdef int deliver(self, Lane lane, Packet p) except? -1
    cdef int unpaired(self, Lane lane, Packet p) except? -1
    cdef Lane new_lane(self, Packet p)
    cdef int left_out(self, Packet p) except? -1
    cdef Host host(self, u64 hi, u64 lo)
    cdef Half half(self, Lane requests, Lane answers)
    cdef int congestion(self, Lane lane, Packet p) except? -1
    cdef int noted(self, Lane lane, Packet p) except? -1
    cdef int datagram(self, Packet p, Py_ssize_t i) except? -1
