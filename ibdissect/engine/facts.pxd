# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64

cdef class Fact:
    cdef public object now, since, past

cdef int changed(Fact fact, i64 after, list found) except? -1
cdef int end(Fact fact, object frame) except? -1
cdef int put(Fact fact, object value, object frame) except? -1
