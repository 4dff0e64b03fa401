# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.tunnels cimport Tunnels

cdef class LinkHeaders(Tunnels):
    cdef int roce1(self, Py_ssize_t at) except? -1
    cdef int ip(self, Py_ssize_t at) except? -1
    cdef int cooked(self, Py_ssize_t name, Py_ssize_t at, Py_ssize_t type_at, Py_ssize_t size) except? -1
    cdef int network(self, Py_ssize_t at, int ethertype) except? -1
    cdef int pause(self, Py_ssize_t at) except? -1
    cdef int linked(self, int form, Py_ssize_t at) except? -1
