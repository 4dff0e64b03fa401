"""RMPP transfers are put together whatever order, repetition or loss their segments suffered."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ibdissect.decode.addresses import End
from ibdissect.decode.reassembled import FrameSpan
from ibdissect.mad import rmpp, rmpp_reassembly
from ibdissect.mad.rmpp import RmppMessage
from ibdissect.mad.rmpp_reassembly import Reassembled, Reassembler
from tests.standard import ABORT, ACK, DATA, STOP
from tests.standard import LAST_SEGMENT as LAST

SIZE, STEP = 200, 112
FIRST = 2
TABLE = bytes(i * 7 % 251 for i in range(5 * STEP))


def segments(table: bytes = TABLE, *, tid: int = 1, frame: int = 1, step: int = STEP) -> list[RmppMessage]:
    """The DATA messages of a table, cut as the standard cuts them."""
    parts = [table[i : i + SIZE] for i in range(0, len(table), SIZE)] or [b""]
    made = []
    for i, part in enumerate(parts):
        flags = 1 | (FIRST if i == 0 else 0) | (LAST if i == len(parts) - 1 else 0)
        made.append(RmppMessage(frame + i, 0, End(b"\0\1"), End(b"\0\2"), 3, tid, 0x92, 0x11, DATA, flags, 0, i + 1, 0, step, 84, part))
    return made


def answer(kind: int, number: int = 0, *, tid: int = 1, frame: int = 90, status: int = 0) -> RmppMessage:
    """What the receiver sends."""
    return RmppMessage(frame, 0, End(b"\0\2"), End(b"\0\1"), 3, tid, 0x12, 0x11, kind, 1, status, number, 0, 0, 84, b"")


def fed(messages: list[RmppMessage], reassembler: Reassembler | None = None) -> list[Reassembled]:
    """Everything that ended."""
    reassembler = reassembler or Reassembler()
    return [transfer for message in messages for transfer in reassembler.put(message)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_any_order_gives_the_same_records(order: tuple[int, ...]) -> None:
    sent = segments()
    (transfer,) = fed([sent[i] for i in order])
    assert transfer.ended == "complete"
    assert transfer.frames == [1, 2, 3]
    assert [data for _, data, _ in transfer.records()] == [TABLE[i : i + STEP] for i in range(0, len(TABLE), STEP)]


def test_a_record_names_the_bytes_of_both_frames_it_was_cut_into() -> None:
    (transfer,) = fed(segments())
    spans = [spans for _, _, spans in transfer.records()]
    assert spans[0] == (FrameSpan(1, 84, 112),)
    assert spans[1] == (FrameSpan(1, 84 + 112, 88), FrameSpan(2, 84, 24))
    for spans_of_one, (_, data, _) in zip(spans, transfer.records(), strict=True):
        by_frame = {message.frame: message.data for message in segments()}
        assert b"".join(by_frame[s.frame][s.offset - 84 : s.offset - 84 + s.length] for s in spans_of_one) == data


def test_a_last_record_that_is_shorter_than_the_step_is_kept() -> None:
    (transfer,) = fed(segments(TABLE[:-4]))
    assert [len(data) for _, data, _ in transfer.records()] == [112, 112, 112, 112, 108]


def test_a_repeated_segment_is_counted_once() -> None:
    sent = segments()
    (transfer,) = fed([sent[0], sent[1], replace(sent[1], frame=50), sent[2], replace(sent[2], frame=51)])
    assert transfer.repeated == [50, 51]
    assert transfer.contradicting == []
    assert transfer.segments[2].frame == 2


def test_a_repetition_with_other_bytes_is_reported_and_ignored() -> None:
    sent = segments()
    (transfer,) = fed([sent[0], sent[1], replace(sent[1], frame=50, data=bytes(SIZE)), sent[2]])
    assert transfer.contradicting == [50]
    assert transfer.segments[2].data == TABLE[SIZE : 2 * SIZE]


def test_records_behind_a_gap_keep_their_numbers() -> None:
    reassembler = Reassembler()
    sent = segments()
    assert fed([sent[0], sent[2]], reassembler) == []
    (transfer,) = reassembler.unfinished()
    assert list(transfer.gaps()) == [(2, 2)]
    assert [number for number, _, _ in transfer.records()] == [0, 4]
    assert [data for _, data, _ in transfer.records()] == [TABLE[:STEP], TABLE[4 * STEP :]]


def test_the_last_segment_alone_gives_no_record() -> None:
    reassembler = Reassembler()
    fed([segments()[2]], reassembler)
    (transfer,) = reassembler.unfinished()
    assert list(transfer.gaps()) == [(1, 2)]
    assert list(transfer.records()) == []


def test_the_same_transaction_id_starts_anew_once_the_receiver_has_it_all() -> None:
    first, copy = segments(), segments(frame=20)
    second = [replace(one, time_ns=1_000_000_000) for one in copy]
    assert [t.frames for t in fed([*first, answer(ACK, 3), *second])] == [[1, 2, 3], [20, 21, 22]]
    for again in ([*first, answer(ACK, 2), *second], [*first, answer(ACK, 3), *copy]):  # a second mirror is as fast as that
        (only,) = fed(again)
        assert only.repeated == [20, 21, 22]


def test_another_first_segment_replaces_a_transfer_that_never_ended() -> None:
    other = segments(bytes(5 * STEP), frame=20)
    ended = fed([*segments()[:2], *other])
    assert [(t.ended, t.end_frame) for t in ended] == [("replaced", 20), ("complete", 22)]


@pytest.mark.parametrize(("kind", "word"), [(STOP, "stopped"), (ABORT, "aborted")])
def test_either_end_may_give_up(kind: int, word: str) -> None:
    sent = segments()
    by_sender = replace(sent[0], kind=kind, status=126, frame=9)
    for giving_up in (answer(kind, status=126, frame=9), by_sender):
        (transfer,) = fed([sent[0], giving_up])
        assert (transfer.ended, transfer.status, transfer.end_frame) == (word, 126, 9)


def test_acknowledgements_tell_how_far_the_receiver_is() -> None:
    reassembler = Reassembler()
    fed([*segments()[:2], answer(ACK, 2), answer(ACK, 1), answer(ACK, 9, tid=7)], reassembler)
    assert reassembler.unfinished()[0].acknowledged == 2


def test_transfers_of_other_transactions_and_directions_do_not_mix() -> None:
    one, two = segments(), segments(bytes(5 * STEP), tid=2, frame=10)
    ended = fed([message for pair in zip(one, two, strict=True) for message in pair])
    assert [t.frames for t in ended] == [[1, 2, 3], [10, 11, 12]]


def test_a_last_segment_with_number_0_ends_its_transfer_once() -> None:
    """The standard counts from 1: such a number is nobody's, and must not be taken for a transfer that goes on."""
    transfers = rmpp.OpenTransfers(rmpp.Transfer)
    wrong = replace(segments()[-1], number=0)
    for _ in range(3):
        list(transfers.take(wrong))
    assert (len(transfers.open), len(transfers.sent)) == (0, 1)


def test_memory_is_bounded_by_transfers_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rmpp, "MAX_TRANSFERS", 2)
    few = Reassembler()
    ended = fed([segments(tid=tid, frame=tid * 10)[0] for tid in range(5)], few)
    assert [(t.first.tid, t.ended) for t in ended] == [(0, "evicted"), (1, "evicted"), (2, "evicted")]
    assert [t.first.tid for t in few.unfinished()] == [3, 4]
    monkeypatch.setattr(rmpp, "MAX_TRANSFERS", 9)
    monkeypatch.setattr(rmpp_reassembly, "MAX_BYTES", 3 * (SIZE + rmpp_reassembly.SEGMENT))
    small = Reassembler()
    ended = fed([message for tid in range(5) for message in segments(tid=tid)[:2]], small)
    assert [t.first.tid for t in ended] == [0, 1, 2, 3]
    # Segments without data, each before the other and each the last one, and their repetitions take memory, too.
    for numbers in (range(900, 0, -1), [9] * 900):
        empty = Reassembler()
        for frame, number in enumerate(numbers):
            empty.put(RmppMessage(frame, 0, End(), End(), 3, 1, 0x92, 0x11, DATA, LAST, 0, number, 0, 0, 84, b""))
        kept = [(len(t.segments), len(t.repeated)) for t in empty.unfinished()]
        assert sum(rmpp_reassembly.SEGMENT * many + rmpp_reassembly.REPEAT * again for many, again in kept) <= rmpp_reassembly.MAX_BYTES


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 7), st.integers(0, 2**32 - 1), st.binary(max_size=220), st.integers(0, 65535))))
def test_no_messages_make_it_fail(hostile: list[tuple[int, int, int, bytes, int]]) -> None:
    reassembler = Reassembler()
    for frame, (kind, flags, number, data, step) in enumerate(hostile):
        message = RmppMessage(frame, 0, End(), End(), 3, 1, 0x92, 0x11, kind, flags, 0, number, 0, step, 84, data)
        for transfer in [*reassembler.put(message), *reassembler.unfinished()]:
            held = sum(len(s.data) for s in transfer.segments.values())
            assert sum(len(data) for _, data, _ in transfer.records()) <= held
            for _, data, spans in transfer.records():
                assert sum(span.length for span in spans) == len(data)
            assert all(a <= b for a, b in transfer.gaps())
