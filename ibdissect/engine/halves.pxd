# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64
from ibdissect.engine.packets cimport Packet
from ibdissect.engine.waits cimport Path, Waits

cdef class Half:
    cdef public Path path
    cdef public i64 una, front, recover, rnr, round_next, mtu, agreed_mtu, timer, since
    cdef public int state
    cdef public bint started, half_sent, asked, in_round, reliable
    cdef public i64 requests, answers, messages, payload, again, naks, rnr_naks, unread, marks, mark_groups, mark_time, copies, missed
    cdef public i64 transferring, rnr_wait, loss_recovery, timeout, idle, pauses, paused, pause_frame
    cdef public i64 open_pos, open_dma, msg_frame, last_frame, first_frame, last_request, last_answer, last_request_time, last_answer_time
    cdef public i64 tries, last_try, last_try_end, last_try_time, first_try_time, longest_wait
    cdef public i64 rnr_time, rnr_frame, rnr_first, rnr_count, rnr_code, hurried, hurried_frame
    cdef public i64 rounds, answered, nak_code, fatal_frame, fatal_request, fatal_size, fatal_reads, reorder_proof, loss_proof
    cdef public bint unasked
    cdef public i64 last_ack, last_msn, same_acks, same_frame, same_first, reused, reused_first, reused_frame
    cdef public i64 wrong_frame, wrong_request, wrong_size, wrong_wanted, largest, mark_frame, mark_last
    cdef public i64 losses, timeouts, rnrs, loss_first, loss_last, forgotten, held, timeout_first, timeout_last, rnr_begin, rnr_last, dropped
    cdef public object gaps, holes, reads, episodes, late, nakked, unanswered
    cdef i64[::1] sent, heard, quiet
    cdef public i64 long_gaps, long_sum
    cdef public Waits open
    cdef i64 unwrap(self, int psn) except? -9223372036854775807
    cdef int spend(self, i64 now, bint request) except? -1
    cdef int judge(self) except? -1
    cdef bint repeated_copy(self, Packet p, i64 pos) except? -1
    cdef int resent(self, Packet p, i64 pos, i64 end) except? -1
    cdef i64 psns(self, Packet p) except? -1
    cdef int acknowledge(self, i64 pos, Packet p) except? -1
    cdef int response(self, Packet p, i64 pos) except? -1
    cdef int negative(self, Packet p, i64 pos) except? -1
    cdef int account(self) except? -1
    cdef int mark(self, Packet p) except? -1
    cpdef object idle_times(self)
    cpdef int request(self, Packet p) except? -1
    cpdef int answer(self, Packet p) except? -1
