"""Early packets are counted exactly, also when flows are forgotten."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from ibdissect.decode.equal_rows import slot
from ibdissect.subnet import early_packets
from ibdissect.wire.headers import BTH
from tests.cases import every, few
from tests.craft import native, smp
from tests.rules.findings import lint
from tests.rules.PKY.cases import shown
from tests.subnet.made import ANSWER, GET, node, p_keys, port_info

AFTER_ALL, SLOTS, RECEIVER, SENDER = 1 << 40, 1 << 16, 16, 32

Flow = tuple[int, int]
"""Sender and P_Key."""
OTHERS = [(100, 0x9999), (101, 0x9999)]


def crowd() -> list[Flow]:
    """Flows to LID 5 that share one slot."""
    lids, keys = (axis.ravel() for axis in np.meshgrid(np.arange(6, 0xBFFF, dtype=np.int64), np.arange(0x9990, 0x99A0, dtype=np.int64)))
    places = slot(lids << SENDER | 5 << RECEIVER | keys)
    index = np.flatnonzero(places == np.bincount(places).argmax())[:4]
    assert len(index) == 4
    return list(zip(lids[index].tolist(), keys[index].tolist(), strict=True))


def send(flow: Flow) -> bytes:
    return native(0x04, bytes(8), slid=flow[0], dlid=5, bth={"p_key": flow[1], "destqp": 2})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_flows_of_one_slot(seed: int) -> None:
    rnd = random.Random(seed)
    flows = [*crowd(), *OTHERS]
    sent = [rnd.choice(flows) for _ in range(60)]
    lesson = shown(5, 0xFFFF)
    wanted = sorted((sent.index(flow) + 1, count) for flow, count in Counter(sent).items())
    for chunks in ((), (1,) * 40, (7,) * 8, (rnd.randrange(60),)):
        found = lint([*map(send, sent), *lesson], "PKY003", chunks=chunks)
        assert sorted((one.frame, one.count) for one in found) == wanted


@pytest.mark.slow
def test_forgotten_flows_leave_no_state_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest flow makes room for the next; one that comes again counts from there on, whether or not it shares its slot."""
    monkeypatch.setattr(early_packets, "MAX_FLOWS", 2)
    a, b, c, d = crowd()
    for sent in (
        [a, a, b, c, c, a, a, a, d, d, a, OTHERS[0]],
        [*OTHERS, a, b, a, a, *OTHERS, OTHERS[0]],
        [a, OTHERS[0], b, b, a, OTHERS[0]],
    ):
        kept: dict[Flow, list[int]] = {}
        forgotten = []
        for frame, flow in enumerate(sent, 1):
            if flow not in kept and len(kept) == 2:
                del kept[next(iter(kept))]
                forgotten.append(frame)
            kept.setdefault(flow, []).append(frame)
        found = lint([*map(send, sent), *shown(5, 0xFFFF)], "PKY003", "CAP016", chunks=(1,) * len(sent))
        wanted = [*((frames[0], "PKY003", len(frames)) for frames in kept.values()), (forgotten[0], "CAP016", len(forgotten))]
        assert sorted((one.frame, one.code, one.count) for one in found) == sorted(wanted)


@every(
    ("back", "found_at"),
    [
        (None, [1]),
        ((5, 100, 0x9999), []),
        ((5, 100, 0x1999), []),
        ((5, 101, 0x9999), [1]),
        ((100, 5, 0x9998), [1, 2]),
        ((5, 100, 0x9998), [1]),
    ],
)
def test_a_port_that_answers_in_a_partition_holds_it(back: tuple[int, int, int] | None, found_at: list[int]) -> None:
    """To the same port and in the same partition, whatever its table shows later."""
    frames = [send((100, 0x9999))]
    if back is not None:
        slid, dlid, p_key = back
        frames.append(native(0x04, bytes(8), slid=slid, dlid=dlid, bth={"p_key": p_key, "destqp": 2}))
    found = lint([*frames, *shown(5, 0xFFFF)], "PKY003")
    assert [one.frame for one in found] == found_at
    assert [(span.frame, span.offset) for one in found for span in one.spans] == [(at, 8 + BTH.p_key.bit // 8) for at in found_at]


@few("size", [SLOTS // 16 - 1, SLOTS // 16], fast=(1,))
@pytest.mark.parametrize("chunks", [(), (9,)])
def test_many_packets_are_counted_as_few_are(size: int, chunks: tuple[int, ...]) -> None:
    """From some number on, over all slots at once: flows that are judged at one end, at the other, at both, and those of one slot."""
    flows = [*crowd()[:3], OTHERS[0]]
    frames = [*map(send, flows)]
    sent = [flows[n % 3 if n % 8 else 3] for n in range(size)]
    counts = Counter(sent)
    found = lint([frames[flows.index(flow)] for flow in sent] + shown(5, 0xFFFF), "PKY003", chunks=chunks)
    assert sorted((one.frame, one.count) for one in found) == sorted((sent.index(flow) + 1, counts[flow]) for flow in flows)


@few("size", [20, SLOTS // 16], fast=(1,))
def test_both_ends_of_a_packet_are_judged_by_what_each_showed(size: int) -> None:
    """The receiver showed its table before the last packets, the sender after all of them."""
    packets = [native(0x04, bytes(8), slid=9, dlid=5, bth={"p_key": 0x9999, "destqp": 2})] * size
    frames = [*packets, *shown(5, 0xFFFF), *packets[:7], *shown(9, 0xFFFF)]
    for chunks in ((), (size,), (size + 6, 3)):
        found = {
            one.code: (one.frame, one.count, one.evidence) for one in lint(frames, "PKY003", "PKY004", chunks=chunks) if one.frame == 1
        }
        assert found["PKY004"][:2] == (1, size + 7) and found["PKY003"][0] == 1 and found["PKY003"][1] >= size


@pytest.mark.parametrize(
    ("opcode", "qp", "dlid", "routed", "found"),
    [
        (0x04, 2, 5, False, True), (0x04, 1, 5, False, False), (0x04, 0, 5, False, False), (0x04, 0xFFFFFF, 5, False, True),
        (0x04, 2, 5, True, False), (0x81, 2, 5, False, False), (0xC4, 2, 5, False, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [False, True])
def test_which_packets_are_judged_by_a_table(opcode: int, qp: int, dlid: int, routed: bool, found: bool, more: bool) -> None:
    """Those of queue pairs that take their P_Key from it; with a GRH they may be a virtual port's."""
    grh = {"sgid": bytes(15) + b"\1", "dgid": bytes(15) + b"\2"}
    packet = native(opcode, bytes(64), slid=100, dlid=dlid, bth={"p_key": 0x9999, "destqp": qp}, grh=grh if routed else None)
    others = [native(0x04, bytes(64), slid=100, dlid=9, bth={"p_key": 0x9999, "destqp": 2}, grh=grh)] * more
    assert [one.frame for one in lint([packet, *others, *shown(5, 0xFFFF)], "PKY003")] == [1] * found


@pytest.mark.parametrize("last", [(), (4,)])
def test_flows_that_are_forgotten_within_one_chunk(last: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The third and fourth flow leave no room for the first two."""
    monkeypatch.setattr(early_packets, "MAX_FLOWS", 2)
    flows = [(100 + n, 0x9999) for n in range(4)]
    others = [native(0x04, bytes(8), slid=7, dlid=8, bth={"destqp": 1})] * 3
    frames = [*others, *map(send, flows), *shown(5, 0xFFFF)]
    found = lint(frames, "PKY003", "CAP016", chunks=(3, *last))
    dropped = [one for one in found if one.code == "CAP016"]
    assert [one.frame for one in found if one.code == "PKY003"] == [6, 7] and [(one.frame, one.count) for one in dropped] == [(6, 2)]


@pytest.mark.parametrize("known", [5, 9])
def test_each_end_counts_only_what_came_before_its_table(known: int) -> None:
    """The table of one end was known from the beginning: the other end's alone is judged late."""
    packets = [native(0x04, bytes(8), slid=9, dlid=5, bth={"p_key": 0x9999, "destqp": 2})] * 3
    frames = [*shown(known, 0xFFFF), *packets, *shown(14 - known, 0xFFFF)]
    start = len(shown(known, 0xFFFF)) + 1
    for chunks in ((), (start - 1, 2)):
        found = sorted((one.code, one.frame, one.count) for one in lint(frames, "PKY003", "PKY004", chunks=chunks))
        assert found == [("PKY003", start, 3), ("PKY004", start, 3)]


def asked(attribute: int, body: bytes) -> list[bytes]:
    """A question and its answer along a directed route, which needs no LID."""
    return [smp(method, attribute, body if method == ANSWER else b"", path=[1]) for method in (GET, ANSWER)]


KNOWN, LID, TABLE, GONE = asked(0x11, node(5)), asked(0x15, port_info(5)), asked(0x16, p_keys(0xFFFF)), asked(0x15, port_info(0))
PACKET = [send((100, 0x9999))]


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([KNOWN, TABLE, PACKET, LID], [(5, 1, "inferred")]), ([KNOWN, LID, PACKET, TABLE], [(5, 1, "inferred")]),
        ([KNOWN, TABLE, LID, PACKET, GONE, LID, PACKET], [(7, 2, "learnt")]),
    ],
    ids=["the table first", "the LID first", "a LID that comes back"],
)  # fmt: skip
@pytest.mark.parametrize("apart", [False, True])
def test_from_which_frame_a_table_is_known(parts: list[list[bytes]], found: list[tuple[int, int, str]], apart: bool) -> None:
    """From the first sight of the LID and of the table on: what was sent before is judged at the end, and nothing twice."""
    frames = [frame for part in parts for frame in part]
    told = lint(frames, "PKY003", chunks=(1,) * (len(frames) - 1) if apart else ())
    assert [(one.frame, one.count, str(one.evidence)) for one in told] == found
