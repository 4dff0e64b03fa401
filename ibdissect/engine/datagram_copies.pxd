# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8, u64

cdef class Recent:
    cdef i64[::1] table
    cdef i64 most, count, young, old, mask, room
    cdef Py_ssize_t half
    cdef int grow(self) except? -1
    cdef Py_ssize_t find(self, i64 key) except? -2
    cdef int put(self, i64 key, i64 frame, i64 time, i64 more) except? -1
    cdef bint is_near(self, Py_ssize_t place) except? -1

cdef class Window:
    cdef const u8[::1] data
    cdef const i64[::1] times, bth, lrh, ip4, ip6, grh
    cdef Py_ssize_t rows
    cdef int begin(self, object data, dict columns) except? -1
    cdef i64 way(self, Py_ssize_t row, bint back) except? -1
    cdef int marks(self, Py_ssize_t row) except? -1
    cdef i64 pair(self, Py_ssize_t source, Py_ssize_t destination, Py_ssize_t size, bint back) except? -1

cdef class DatagramCopies(Window):
    cdef const i64[::1] mads, end
    cdef Recent recent
    cdef public i64 seen, repeated
    cdef i64 content(self, Py_ssize_t at, Py_ssize_t end, u64 h) except? -1

cdef class RoutedPackets(Window):
    cdef const i64[::1] icrc
    cdef Recent recent
    cdef public bint several
    cdef int usual
    cdef int hops(self, Py_ssize_t row) except? -1
    cdef i64 mark(self, Py_ssize_t row, u64 h) except? -1
    cdef Py_ssize_t start(self) except? -1
