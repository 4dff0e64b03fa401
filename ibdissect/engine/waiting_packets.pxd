# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64

cdef class Room:
    cdef public i64 episodes, entries, waiting, pauses

cdef class Path:
    cdef public i64 trip, largest, began, passed, mtu
    cdef public Room room
    cdef public list pauses

cdef class Waits:
    cdef public i64 count, start
    cdef i64[::1] ring
    cdef Py_ssize_t place(self, i64 n) except? -1
    cdef i64 value(self, i64 n, Py_ssize_t what) except? -9223372036854775807
    cdef int put(self, i64 n, Py_ssize_t what, i64 value) except? -1
    cdef int add(self, Room room, i64 zeroth, i64 first, i64 second, i64 third, i64 fourth, i64 fifth) except? -1
    cdef int drop(self) except? -1
    cdef int ends(self, i64 pos, i64 end) except? -1
    cpdef object first(self)

cdef long long[::1] wider(long long[::1] ring, i64 first, Py_ssize_t size)
