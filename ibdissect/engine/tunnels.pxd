# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.offsets cimport Offsets

cdef class Tunnels(Offsets):
    cdef int ip4(self, Py_ssize_t at) except? -1
    cdef int ip6(self, Py_ssize_t at) except? -1
    cdef int frame(self, Py_ssize_t at) except? -1
    cdef int behind_udp(self, Py_ssize_t at, int port) except? -1
    cdef int behind_ip(self, Py_ssize_t at, int protocol) except? -1
    cdef int gre(self, Py_ssize_t at) except? -1
    cdef int mpls(self, Py_ssize_t at) except? -1
    cdef int labelled(self, Py_ssize_t at) except? -1
    cdef int inside(self, Py_ssize_t at, int what) except? -1
