# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False

cdef class Fact:
    cdef public object now, since, past

cdef int put(Fact fact, object value, object frame) except? -1
