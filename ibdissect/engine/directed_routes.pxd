# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64
from ibdissect.engine.ports cimport Hop, NodeState, OriginState

cdef class RouteEnds:
    cdef public object subnet, origins
    cdef public bint turned
    cdef public i64 last_cut
    cdef Hop end(self, OriginState origin, bytes path)
    cdef bint is_void(self, OriginState origin, bytes path, Hop hop) except? -1
    cdef bint is_cut(self, OriginState origin, bytes path, Hop hop) except? -1
    cdef Hop along_links(self, OriginState origin, bytes path)
    cdef Hop follow(self, NodeState node, i64 entered, bytes ports, i64 frame, bint from_origin)
