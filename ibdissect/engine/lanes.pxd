# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u64
from ibdissect.engine.requester_responder cimport Half
from ibdissect.engine.hosts cimport Host, Lane
from ibdissect.engine.message_places cimport Places
from ibdissect.engine.psn_order cimport Order
from ibdissect.engine.packet_fields cimport Packet, PacketReader
from ibdissect.engine.pairing cimport Pairing
from ibdissect.engine.waiting_packets cimport Room

cdef class Lanes:
    cdef public dict lanes, hosts, paths, expected
    cdef public Pairing pairing
    cdef public list near, near_hosts
    cdef public Places places
    cdef public object told, setups, finished, queue
    cdef public Room room
    cdef public i64 hosts_dropped, halves, held, dropped, order, first_time, frames
    cdef Packet packet
    cpdef Order facing(self, Order one)
    cdef int follow(self, Lane lane, Packet p) except? -1
    cdef Order stream_of(self, Lane lane, Packet p)
    cdef int place(self, Lane lane, Packet p) except? -1
    cdef int marked(self, Packet p) except? -1
    cdef int deliver(self, Lane lane, Packet p) except? -1
    cdef int unpaired(self, Lane lane, Packet p) except? -1
    cdef Lane new_lane(self, Packet p)
    cdef Lane asks(self, Lane lane, Packet p)
    cdef i64 last_active(self, Lane lane) except? -1
    cdef int left_out(self, Packet p) except? -1
    cdef Host host(self, u64 hi, u64 lo, i64 network)
    cdef Half half(self, Lane requests, Lane answers)
    cdef int noted(self, Lane lane, Packet p) except? -1
    cdef int datagram(self, PacketReader reader, Packet p, Py_ssize_t i) except? -1
