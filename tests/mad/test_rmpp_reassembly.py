"""RMPP transfers are put together whatever order, repetition or loss their segments suffered."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibdissect.mad import rmpp, rmpp_reassembly
from tests.cases import every
from tests.mad.transfers import AT, ROOM, STEP, reply, segment, segments, transfers
from tests.standard import ABORT, ACK, STOP
from tests.standard import LAST_SEGMENT as LAST

TABLE = bytes(i * 7 % 251 for i in range(5 * STEP))
SENT = segments(TABLE)
OTHER = segments(bytes(5 * STEP))
SECOND = 1_000_000_000


def pieces(spans: tuple[object, ...]) -> list[tuple[int, int, int]]:
    return [(span.frame, span.offset, span.length) for span in spans]  # type: ignore[attr-defined]


@every("order", list(permutations(range(3))))
def test_any_order_gives_the_same_records(order: tuple[int, ...]) -> None:
    (transfer,), others = transfers([SENT[i] for i in order])
    assert not others and transfer.ended == "complete"
    assert transfer.frames == [order.index(i) + 1 for i in range(3)]
    assert [data for _, data, _ in transfer.records()] == [TABLE[i : i + STEP] for i in range(0, len(TABLE), STEP)]


def test_a_record_names_the_bytes_of_both_frames_it_was_cut_into() -> None:
    (transfer,), _ = transfers(SENT)
    spans = [pieces(spans) for _, _, spans in transfer.records()]
    assert spans[0] == [(1, AT, 112)]
    assert spans[1] == [(1, AT + 112, 88), (2, AT, 24)]
    for spans_of_one, (_, data, _) in zip(spans, transfer.records(), strict=True):
        assert b"".join(SENT[frame - 1][at : at + size] for frame, at, size in spans_of_one) == data


def test_a_last_record_that_is_shorter_than_the_step_is_kept() -> None:
    (transfer,), _ = transfers(segments(TABLE[:-4]))
    assert [len(data) for _, data, _ in transfer.records()] == [112, 112, 112, 112, 108]


def test_a_repeated_segment_is_counted_once() -> None:
    (transfer,), _ = transfers([SENT[0], SENT[1], SENT[1], SENT[2], SENT[2]])
    assert transfer.repeated == [3, 5]
    assert transfer.contradicting == []
    assert transfer.frames == [1, 2, 4]


def test_a_repetition_with_other_bytes_is_reported_and_ignored() -> None:
    (transfer,), _ = transfers([SENT[0], SENT[1], OTHER[1], SENT[2]])
    assert (transfer.contradicting, transfer.repeated) == ([3], [])
    assert b"".join(data for _, data, _ in transfer.records()) == TABLE


def test_records_behind_a_gap_keep_their_numbers() -> None:
    ended, (transfer,) = transfers([SENT[0], SENT[2]])
    assert ended == [] and list(transfer.gaps()) == [(2, 2)]
    assert [number for number, _, _ in transfer.records()] == [0, 4]
    assert [data for _, data, _ in transfer.records()] == [TABLE[:STEP], TABLE[4 * STEP :]]


def test_the_last_segment_alone_gives_no_record() -> None:
    _, (transfer,) = transfers([SENT[2]])
    assert list(transfer.gaps()) == [(1, 2)]
    assert list(transfer.records()) == []


def test_the_same_transaction_id_starts_anew_once_the_receiver_has_it_all() -> None:
    later = [0, 0, 0, 0, SECOND, SECOND, SECOND]
    ended, _ = transfers([*SENT, reply(ACK, 3), *SENT], later)
    assert [t.frames for t in ended] == [[1, 2, 3], [5, 6, 7]]
    for number, times in ((2, later), (3, [0] * 7)):  # a second mirror is as fast as that
        (only,), _ = transfers([*SENT, reply(ACK, number), *SENT], times)
        assert only.repeated == [5, 6, 7]


def test_another_first_segment_replaces_a_transfer_that_never_ended() -> None:
    ended, _ = transfers([*SENT[:2], *OTHER])
    assert [(t.ended, t.end_frame) for t in ended] == [("replaced", 3), ("complete", 5)]


@pytest.mark.parametrize(("kind", "word"), [(STOP, "stopped"), (ABORT, "aborted")])
def test_either_end_may_give_up(kind: int, word: str) -> None:
    by_sender = segment(0, 1, 0, b"", kind=kind, status=126, header={"transaction_id": 1})
    for giving_up in (reply(kind, status=126), by_sender):
        (transfer,), _ = transfers([SENT[0], giving_up])
        assert (transfer.ended, transfer.status, transfer.end_frame) == (word, 126, 2)


def test_acknowledgements_tell_how_far_the_receiver_is() -> None:
    _, (transfer,) = transfers([*SENT[:2], reply(ACK, 2), reply(ACK, 1), reply(ACK, 9, tid=7)])
    assert transfer.acknowledged == 2


def test_transfers_of_other_transactions_and_directions_do_not_mix() -> None:
    others = segments(bytes(5 * STEP), tid=2)
    ended, _ = transfers([frame for pair in zip(SENT, others, strict=True) for frame in pair])
    assert [t.frames for t in ended] == [[1, 3, 5], [2, 4, 6]]


def test_a_last_segment_with_number_0_is_no_transfer_that_goes_on() -> None:
    """The standard counts from 1: such a number is nobody's."""
    wrong = segment(0, 1 | LAST, 20 + 5, b"12345", header={"transaction_id": 1})
    ended, others = transfers([wrong] * 3)
    assert ended == [] and len(others) <= 1 and not any(one.frames for one in others)


def test_memory_is_bounded_by_transfers_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rmpp, "MAX_TRANSFERS", 2)
    first = [segments(TABLE, tid=tid)[0] for tid in range(5)]
    assert [t.first.tid for t in transfers(first)[1]] == [3, 4]
    monkeypatch.setattr(rmpp, "MAX_TRANSFERS", 9)
    monkeypatch.setattr(rmpp_reassembly, "MAX_BYTES", 3 * (ROOM + rmpp_reassembly.SEGMENT))
    _, kept = transfers([frame for tid in range(5) for frame in segments(TABLE, tid=tid)[:2]])
    assert [t.first.tid for t in kept] == [4]
    # Segments without data, each before the other and each the last one, and their repetitions take memory, too.
    for numbers in (range(30, 0, -1), [9] * 90):
        _, others = transfers([segment(number, LAST, 20, b"") for number in numbers])
        held = [(len(t.segments), len(t.repeated)) for t in others]
        assert sum(rmpp_reassembly.SEGMENT * many + rmpp_reassembly.REPEAT * again for many, again in held) <= rmpp_reassembly.MAX_BYTES


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 7), st.integers(0, 2**32 - 1), st.binary(max_size=220), st.integers(0, 65535))))
def test_no_messages_make_it_fail(hostile: list[tuple[int, int, int, bytes, int]]) -> None:
    frames = [segment(number, flags, 20 + len(data), data, kind=kind, step=8 * step) for kind, flags, number, data, step in hostile]
    ended, others = transfers(frames)
    for transfer in [*ended, *others]:
        held = sum(len(s.data) for s in transfer.segments.values())
        assert sum(len(data) for _, data, _ in transfer.records()) <= held
        for _, data, spans in transfer.records():
            assert sum(size for _, _, size in pieces(spans)) == len(data)
        assert all(a <= b for a, b in transfer.gaps())
