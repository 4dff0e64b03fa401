# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64
from ibdissect.engine.hosts cimport Lane
from ibdissect.engine.packet_fields cimport Packet

cdef class Pairing:
    cdef public dict lanes, ways, waiting, older, fronts, near_psns
    cdef public i64 remembered
    cpdef int name(self, Lane lane) except? -1
    cpdef Lane match(self, Lane lane, Packet p)
    cdef int ask(self, Lane lane, Packet p) except? -1
    cdef Lane answered(self, Lane lane, Packet p)
    cdef int weigh(self, Lane lane, Packet p, i64 here, list sent, bint alone, i64 number) except? -1
    cpdef Lane best(self, Lane lane, i64 number, bint last)
    cpdef int remember(self, Lane lane, i64 psn) except? -1
    cdef int move(self, Lane lane, int role, i64 old, i64 new) except? -1
    cdef int count(self, i64 way, int role, i64 psn, int bits, i64 step) except? -1
    cpdef i64 crowd(self, i64 to, i64 fro, i64 psn, int bits) except? -1
    cdef bint begins_alone(self, Lane lane, Lane other) except? -1
    cpdef int forget(self, Lane lane) except? -1
    cpdef int over(self, Lane lane) except? -1

cdef bint is_among(list sent, Lane lane) except? -1
cdef int claim(Lane other, Lane lane, i64 score) except? -1
cdef i64 near(i64 way, i64 bucket, int bits, int role) except? -1
