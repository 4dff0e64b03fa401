# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u64
from ibdissect.engine.packet_fields cimport Packet

cdef class Order:
    # what each packet needs first: it lies together in memory
    cdef public Order next, back
    cdef public u64 gids, facing, open_va
    cdef public int service, last_opcode, last_open
    cdef public bint response, sealed, waited
    cdef public i64 high, cursor, last_frame, last_ns, sent, dma_length, mtu, msn, msn_psn, msn_frame
    cdef public i64 packets, bytes, largest, largest_frame, message_psn, message_size, message_frame
    cdef public int message_kind
    cdef public i64 read_psn, read_length, read_frame, read_ns, open_psn, open_length
    cdef public i64 retry_psn, tries, retry_frame, retry_ns, allowed, run_window, wrong_window
    cdef public i64 unsized, unread, number, dest_qp, first_frame, first_ns, first_psn, first_msn, first_opcode, lowest
    cdef public i64 gap_count, missing, repeated, restarts, middle_restarts, repeated_reads, filled, rnr, repeated_responses, missing_responses
    cdef public i64 latest, place, newest, earliest, reach
    cdef public list gaps
    cdef public object naks, not_ready, told, ends, lane, run, wrong
    cdef int take(self, Packet p, Order back) except? -1
    cdef int tally(self, Packet p) except? -1
    cdef int message_part(self, Packet p) except? -1
    cdef bint in_step(self, Packet p) except? -1
    cdef int begin(self, Packet p) except? -1
    cdef int settle_read(self, Packet p) except? -1
    cdef i64 after(self, Packet p, bint fresh) except? -1
    cdef int again(self, Packet p, i64 step, bint known) except? -1
    cdef bint overtaken(self, Packet p) except? -1
    cdef int try_again(self, Packet p, i64 step, bint known) except? -1
    cdef int message(self, Packet p, bint first) except? -1
    cdef int ask(self, Packet p, Order back) except? -1
    cdef int answer(self, Packet p, bint alone) except? -1
    cdef int count_msn(self, Packet p, bint alone) except? -1
    cdef int skip(self, i64 start, i64 count, Packet p) except? -1
    cdef bint fill(self, Packet p) except? -1
    cdef int requested(self, Packet p) except? -1
    cdef int tell(self, str kind, Packet p, object values) except? -1
    cdef bint faces(self, Order other) except? -1
