# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8
from ibdissect.engine.link_headers cimport LinkHeaders

cdef class Finder(LinkHeaders):
    cdef const u8[::1] before_payload
    cdef const unsigned short[::1] links
    cdef const u8[::1] forms
    cdef const i64[::1] pseudo
    cdef int roce_port
    cdef object roce_ports
    cdef int form(self, int form, Py_ssize_t pseudo) except? -1
    cdef inline int mark(self, Py_ssize_t name, Py_ssize_t at) except? -1
    cdef int native(self) except? -1
    cdef int grh(self, Py_ssize_t at, Py_ssize_t stop) except? -1
    cdef int udp(self, Py_ssize_t at, Py_ssize_t stop) except? -1
    cdef int transport(self, Py_ssize_t at, Py_ssize_t stop, bint whole) except? -1
