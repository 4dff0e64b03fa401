# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64
from ibdissect.engine.packet_fields cimport Packet
from ibdissect.engine.psn_order cimport Order

cdef class Places:
    cdef i64[::1] values
    cdef public Py_ssize_t count
    cdef bint says_nothing(self, Order one, Packet p) except? -1
    cdef int ask(self, Order one, Packet p) except? -1
    cdef int answer(self, Order asked, Packet p) except? -1
    cdef int slow_down(self, Order asked, Packet p) except? -1
    cdef int add(self, i64 place, Packet p) except? -1
