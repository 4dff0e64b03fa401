"""What histories have forgotten by the end of a long capture makes no finding louder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ibdissect.capture.records import ROWS
from ibdissect.engine.facts import KEPT
from ibdissect.wire.notice import TrapPKey
from tests.cases import few
from tests.craft import native, smp
from tests.rules.findings import START_NS, lint
from tests.rules.LNK.cases import LOWERED
from tests.rules.made.subnets import NODE_INFO, PORT_INFO, back, data, sweep
from tests.rules.made.traps import CA, ENDS, PACKET, bad_key, details, repress, trap
from tests.rules.TXN.cases import DATA, FIRST, WAIT, segment
from tests.standard import SECOND_NS
from tests.subnet.made import SET, answer, ask, node, p_keys, port_info

Frames = Sequence[bytes]
P_KEY_TABLE, SL_TO_VL = 0x16, 0x17
STATES: dict[str, Any] = {"port_state": 0, "port_physical_state": 0}


def at_the_end(code: str, frames: Frames, *ports: tuple[Sequence[int], dict[str, Any]]) -> list[str]:
    """How loud a rule is about some frames, after which ports show so much more that what these showed is forgotten."""
    later = [
        back(PORT_INFO, port_info(5 if path else 1, **{**values, "q_key_violations": count}), list(path), header={"transaction_id": count})
        for count in range(1, KEPT + 3) for path, values in ports
    ]  # fmt: skip
    sizes = (len(frames), *[len(ports)] * (KEPT + 2))
    times = [START_NS + i * 1_000_000 + (i >= len(frames)) * 3600 * SECOND_NS for i in range(sum(sizes))]
    found = lint([*frames, *later], code, chunks=sizes, skipped=ROWS, times=times)
    return [str(one.severity) for one in found if one.frame <= len(frames)]


BOTH: Any = ([], {"operational_vls": 1}), ([1, 2], {"operational_vls": 1})
FOREIGN = {"PKY003": native(0x04, bytes(8), slid=1, dlid=5, bth={"p_key": 0x8123}), "PKY004": native(slid=5, dlid=1, bth={"p_key": 0x8123})}
TABLE = back(P_KEY_TABLE, p_keys(0xFFFF), [1, 2])
STARTS = back(PORT_INFO, port_info(5, operational_vls=1, port_state=2), [1, 2])


@few("code", FOREIGN, fast=(1,))
def test_a_port_that_nobody_is_seen_to_arm(code: str) -> None:
    assert at_the_end(code, [*sweep(), TABLE, FOREIGN[code]], *BOTH) == ["error"]
    assert at_the_end(code, [*sweep(), STARTS, TABLE, FOREIGN[code]], *BOTH) == ["info"]


@pytest.mark.parametrize(("hours", "severity"), [(0, "error"), (3, "info")])
def test_how_old_a_table_is_in_a_long_recording(hours: int, severity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More seconds have passed than are remembered, before the table was read and since."""
    monkeypatch.setattr("ibdissect.traffic.capture_loss.MAX_SECONDS", 16)
    before, since = ([data(slid=1, dlid=2)] * count for count in (100, 60 * hours))
    frames = [*before, *sweep(), TABLE, *since, FOREIGN["PKY003"]]
    quick = len(before), len(frames) - len(since) - 1
    times = [START_NS + (i if i < quick[0] else quick[0] + max(0, i - quick[1]) * 60) * SECOND_NS + i for i in range(len(frames))]
    assert [str(one.severity) for one in lint(frames, "PKY003", times=times)] == [severity]


@pytest.mark.parametrize("state", [4, 2])
def test_a_port_complains_whatever_state_it_showed(state: int) -> None:
    complaint = trap(257, details(TrapPKey, **ENDS, key_value=0x8123))
    found = lint([CA, answer(5, PORT_INFO, port_info(5, port_state=state)), PACKET, complaint], "PKY013")
    assert [str(one.severity) for one in found] == ["warning"]


def test_a_packet_that_was_under_way() -> None:
    assert at_the_end("LNK022", [*LOWERED, data(512)], *BOTH) == ["info"]
    assert at_the_end("LNK022", [*sweep(neighbor_mtu=1), data(512)], *BOTH) == ["error"]


def test_lanes_that_follow_their_table() -> None:
    table = smp(SET, SL_TO_VL, bytes([0x01, 0x23] * 4), path=[], modifier=0)
    known = [back(NODE_INFO, node(1), []), back(PORT_INFO, port_info(1, operational_vls=1), []), table]
    more = back(PORT_INFO, port_info(1, operational_vls=3), [])
    assert at_the_end("SEM026", [*known, more], ([], {"operational_vls": 3})) == ["info"]
    assert [str(one.severity) for one in lint(known, "SEM026")] == ["warning"]


def test_a_port_that_has_by_now_what_it_lacked() -> None:
    """The answer to the Set is lost, and what the port showed next is forgotten."""
    lacks, enabled, has = {"link_width_supported": 3}, {"link_width_enabled": 19}, {"link_width_supported": 19}
    written = ask(5, PORT_INFO, method=SET, body=port_info(5, **lacks, **enabled, **STATES))
    known = [CA, answer(5, PORT_INFO, port_info(5, **lacks)), written]
    shown = [ask(5, PORT_INFO, header={"transaction_id": 9}), answer(5, PORT_INFO, port_info(5, **has), header={"transaction_id": 9})]
    later = [answer(5, PORT_INFO, port_info(5, q_key_violations=count), header={"transaction_id": 9}) for count in range(1, KEPT + 3)]
    sizes = (len(known) + len(shown), *[1] * len(later))
    assert [str(one.severity) for one in lint([*known, *shown, *later], "SEM008", chunks=sizes, skipped=ROWS)] == ["info"]
    assert [str(one.severity) for one in lint(known, "SEM008")] == ["error"]


@pytest.mark.parametrize(("most", "found"), [(2, ["info"]), (8, [])])
def test_more_traps_that_are_repressed_late_than_are_remembered(monkeypatch: pytest.MonkeyPatch, most: int, found: list[str]) -> None:
    monkeypatch.setattr("ibdissect.rules.MKY.violation_reports.MAX_TRAPS", most)
    burst = [*(trap(256, bad_key(), tid=tid) for tid in (7, 8, 9, 10)), *(repress(256, bad_key(), tid=tid) for tid in (7, 8, 9, 10))]
    frames = [CA, answer(5, PORT_INFO, port_info(5)), *burst * 4]
    times = [i * SECOND_NS if i < 2 else (10 + i // 8 * 5) * SECOND_NS + i % 8 * 10**6 for i in range(len(frames))]
    assert [str(one.severity) for one in lint(frames, "MKY011", times=times, lost=())] == found


@pytest.mark.parametrize(("most", "found"), [(0, ["info"]), (8, [])])
def test_more_late_first_segments_than_are_remembered(monkeypatch: pytest.MonkeyPatch, most: int, found: list[str]) -> None:
    monkeypatch.setattr("ibdissect.rules.TXN.rmpp.MAX_WAITING", most)
    frames = [*WAIT, segment(DATA, 2, 0), segment(DATA, 1, 0, flags=FIRST)]
    assert [str(one.severity) for one in lint(frames, "TXN011", times=[i * 6 * SECOND_NS for i in range(len(frames))], lost=())] == found
