# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64
from ibdissect.engine.direction cimport Direction
from ibdissect.engine.packet_fields cimport Packet

cdef class Half(Direction):
    cdef bint overtaken(self, Packet p, i64 pos, i64 end) except? -1
    cdef bint hurries(self, Packet p) except? -1
    cdef int resent(self, Packet p, i64 pos, i64 end) except? -1
    cdef i64 psns(self, Packet p) except? -1
    cdef int acknowledge(self, i64 pos, Packet p) except? -1
    cdef int response(self, Packet p, i64 pos) except? -1
    cdef int resized(self, i64 mtu) except? -1
    cdef int unheard(self, i64 start, i64 end) except? -1
    cdef int wrong_read(self, Packet p, i64 size) except? -1
    cdef int took(self, i64 size, i64 time) except? -1
    cdef int negative(self, Packet p, i64 pos) except? -1
    cpdef int request(self, Packet p) except? -1
    cpdef int answer(self, Packet p) except? -1
