# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64
from ibdissect.engine.answer_times cimport Gaps
from ibdissect.engine.packet_fields cimport Packet
from ibdissect.engine.waiting_packets cimport Path, Waits

cdef class Direction:
    # what nearly every packet needs first: it lies together in memory
    cdef public Path path
    cdef public Waits open, reads
    cdef public Gaps gaps
    cdef public i64 una, front, recover, rnr, open_pos, since, requests, answers, messages, payload, mtu, timer, held, mark_groups
    cdef public int state
    cdef public bint started, half_sent, asked, in_round, reliable, unasked, listed
    cdef public i64 transferring, idle, rounds, tries, first_try_time, rnr_count, largest, msg_frame, last_ack, last_msn, same_acks, same_first
    cdef public i64 answered, last_frame, last_request, last_answer, last_request_time, last_answer_time
    cdef i64[::1] sent, quiet
    cdef public i64 round_next, agreed_mtu, again, naks, rnr_naks, unread, marks, mark_time, missed
    cdef public i64 rnr_wait, loss_recovery, timeout, pauses, paused, pause_frame
    cdef public i64 open_dma, first_frame, last_try, last_try_end, last_try_time, longest_wait
    cdef public i64 rnr_time, rnr_frame, rnr_first, rnr_code, rnr_sent, hurried, hurried_first, hurried_frame, tried, tried_time
    cdef public i64 nak_code, fatal_frame, fatal_request, fatal_size, fatal_reads, fatal_nth, reorder_proof, loss_proof
    cdef public bint far_back, renewed, anew
    cdef public i64 begun, woken, fits, misfits, same_frame, reused, reused_first, reused_before, reused_frame, doubtful, doubtful_first, doubtful_before, anew_messages, wrong_frame, wrong_request, wrong_size, wrong_wanted, mark_frame, mark_last
    cdef public i64 losses, timeouts, rnrs, loss_first, loss_last, forgotten, timeout_first, timeout_last, rnr_begin, rnr_last, dropped
    cdef public list holes, unanswered, episodes
    cdef public object nakked, late
    cdef i64 unwrap(self, int psn) except? -9223372036854775807
    cdef int spend(self, i64 now, bint request) except? -1
    cdef int judge(self) except? -1
    cdef int account(self) except? -1
    cdef int mark(self, Packet p) except? -1
    cdef bint strange(self, Packet p, i64 pos) except? -1
    cpdef object idle_times(self)
