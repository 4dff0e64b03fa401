# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8, u64

cdef class Packet:
    cdef public i64 time, frame, size, dma, length
    cdef public u64 src_hi, src_lo, dst_hi, dst_lo, content, lane, gids, facing, va
    cdef public int kind, opcode, op, psn, qpn, pkey, marked, again, version, syndrome, msn, network
    cdef public int bad_icrc, parts
    cdef public bint first, last, has_reth, whole
    cpdef Packet copy(self)

cdef class PacketReader:
    cdef const u8[::1] data
    cdef const i64[::1] times, end, bth, lrh, grh, ip4, ip6, udp, networks, limit, payload, payload_end, sizes, mad
    cdef const u8[::1] bad, snapped, complete, again
    cdef public i64 first_frame
    cdef public Py_ssize_t rows
    cdef const i64[::1] reth, aeth, extended
    cdef const u8[::1] kinds, parts
    cdef int touch(self, size_t i) except? -1
    cdef bytes message(self, Py_ssize_t i)
    cdef int read(self, size_t i, Packet p) except? -1
    cdef int addresses(self, size_t i, Packet p) except? -1
