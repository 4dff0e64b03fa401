"""Later words of a node leave earlier requests as they are: neither wrong by them, nor cleared by them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest

from ibdissect.capture import records
from ibdissect.lint.finding import Finding
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from ibdissect.subnet.files import SubnetFile
from ibdissect.subnet.files.kinds_of_files import SubnetFiles
from tests.cases import few
from tests.commands import run
from tests.craft import erf_pcap, native, smp
from tests.rules.LNK.cases import LISTED, port_sweep
from tests.rules.made.subnets import back, data, sweep
from tests.subnet.made import SET, answer, ask, node, p_keys, port_info, switch, switch_info

NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE, SL_TO_VL, VL_ARB, LINEAR, LED_INFO = 0x11, 0x12, 0x15, 0x16, 0x17, 0x18, 0x19, 0x31
CA, SWITCH = answer(5, NODE_INFO, node(5)), answer(5, NODE_INFO, switch(5))
TABLES, PORT = answer(5, SWITCH_INFO, switch_info(linear_fdb_cap=2048)), answer(5, PORT_INFO, port_info(5))
COUNTED = answer(5, PORT_INFO, port_info(5, p_key_violations=1))
RULES = load()


def lint(frames: list[bytes], rows: int | None = None, files: Sequence[SubnetFile] = ()) -> list[Finding]:
    before, records.ROWS = records.ROWS, rows or records.ROWS
    try:
        subnet = SubnetFiles([*files], []) if files else None
        return check(io.BytesIO(erf_pcap(frames)), CheckOptions(rules=RULES, subnet=subnet)).findings
    finally:
        records.ROWS = before


def of(code: str, found: list[Finding]) -> list[tuple[int, int]]:
    return [(finding.frame, finding.count) for finding in found if finding.code == code]


@pytest.mark.parametrize("rows", [None, 1])
@few(
    ("code", "before", "request_", "after"),
    [
        ("AM007", [SWITCH], ask(5, PORT_INFO, modifier=8), answer(5, NODE_INFO, switch(5, num_ports=4))),
        ("AM015", [CA, PORT], ask(5, VL_ARB, modifier=0x30000), answer(5, PORT_INFO, port_info(5, vl_arbitration_high_cap=0))),
        ("AM017", [SWITCH, TABLES], ask(5, LINEAR, modifier=31), answer(5, SWITCH_INFO, switch_info(linear_fdb_cap=1024))),
    ],
    fast=(0, 1),
)
def test_smaller_later(code: str, before: list[bytes], request_: bytes, after: bytes, rows: int | None) -> None:
    """A request that was right stays right; the same one behind the change is wrong."""
    assert of(code, lint([*before, request_, after, request_], rows)) == [(len(before) + 3, 1)]


@pytest.mark.parametrize("rows", [None, 1])
@few(
    ("code", "body", "attribute", "fields"),
    [
        ("SEM055", b"\x80", LED_INFO, {"modifier": 0}),
        ("SEM024", bytes(40) + b"\0\1", VL_ARB, {"modifier": 0x10000}),
        ("SEM025", bytes(64), VL_ARB, {"modifier": 0x10000}),
        ("SEM026", b"\x01\x19", SL_TO_VL, {}),
    ],
    fast=(2, 3),
)
def test_counted_later(code: str, body: bytes, attribute: int, fields: dict[str, Any], rows: int | None) -> None:
    """A counter that rises later does not clear a finding."""
    port = {"operational_vls": 2}
    shown, counted = (answer(5, PORT_INFO, port_info(5, **port, **more)) for more in ({}, {"p_key_violations": 1}))
    request = ask(5, attribute, method=SET, body=body.ljust(64, b"\0"), **fields)
    assert of(code, lint([CA, shown, request, counted], rows)) == [(3, 1)]


@few("rows", [None, 1], fast=(0,))
def test_counted_later_in_a_swept_subnet(rows: int | None) -> None:
    later = port_info(2, operational_vls=1, p_key_violations=9)
    frames = [*sweep(), data(dlid=7), answer(2, PORT_INFO, later, modifier=1), data(dlid=7)]
    assert of("LNK020", lint(frames, rows)) == [(10, 2)]


@pytest.mark.slow
def test_selected_frames_have_findings_of_their_own() -> None:
    """Findings of a flow that begins in front of the chosen frames are those of the chosen ones."""
    frames = [*sweep(), data(dlid=7), data(dlid=7, psn=2), data(dlid=7, psn=3)]
    assert of("LNK020", lint(frames)) == [(10, 3)]
    for chosen, told in (("11-12", [(11, 2)]), ("10,12", [(10, 2)]), ("12", [(12, 1)])):
        said = run("lint", "-", "--frames", chosen, "--select", "LNK020", "--format", "jsonl", stdin=erf_pcap(frames), text=True).stdout
        assert [(one["frame"], one["count"]) for one in map(json.loads, said.splitlines())] == told


def test_ports_that_differ_are_findings_of_their_own() -> None:
    blocks = [bytes([255, 3, 99]), bytes([255, 25]), bytes([1, 255, 99])]
    wanted = [ask(5, LINEAR, method=SET, body=body.ljust(64, b"\xff"), modifier=number) for number, body in enumerate(blocks)]
    high = answer(5, SWITCH_INFO, switch_info(linear_fdb_top=1000))
    found = [finding for finding in lint([SWITCH, high, *wanted]) if finding.code == "SEM027"]
    assert [(finding.frame, finding.count) for finding in found] == [(3, 2), (4, 1)]
    assert "leaves by port 99" in found[0].message and "leaves by port 25" in found[1].message


@few("rows", [None, 1], fast=(0,))
def test_a_table_that_was_rewritten_unseen_proves_little(rows: int | None) -> None:
    """The next reading shows other keys: somebody wrote them where the capture does not see it, perhaps before the packet was sent."""
    packet = native(0x04, bytes(8), slid=3, dlid=5, bth={"p_key": 0x9999, "destqp": 0x12})
    shown, other = (answer(5, 0x16, p_keys(0xFFFF, key)) for key in (0x1234, 0x9999))
    write = ask(5, 0x16, method=SET, body=p_keys(0xFFFF, 0x9999))
    for later, severity in (([shown], "error"), ([other], "info"), ([write, other], "error")):
        assert [str(one.severity) for one in lint([CA, shown, packet, *later], rows) if one.code == "PKY003"] == [severity]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 1])
def test_a_lid_that_sends_was_assigned_to_somebody(rows: int | None) -> None:
    packet = data(dlid=7)
    back, foreign = native(0x04, bytes(8), slid=7, dlid=1), native(0x04, bytes(8), slid=9, dlid=7)
    for more, severity in (([packet], "warning"), ([packet, back], "info"), ([foreign], "info")):
        assert [str(one.severity) for one in lint([*sweep(), *more], rows) if one.code == "LNK020"] == [severity]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 1])
def test_a_lid_that_a_port_shows_later_may_have_been_there_though_no_file_lists_it(rows: int | None) -> None:
    packet = native(0x04, bytes(8), slid=3, dlid=6)
    for lid, reported in ((7, True), (6, False)):
        found = lint([packet, answer(3, NODE_INFO, node(5)), answer(3, PORT_INFO, port_info(lid))], rows, files=[LISTED])
        assert ((1, 1) in of("LNK020", found)) is reported


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 1])
def test_virtual_ports_that_are_shown_later_may_have_a_lid_that_no_file_lists(rows: int | None) -> None:
    packet = native(0x04, bytes(8), slid=3, dlid=6)
    for mask, reported in ((0, True), (4, False)):
        shown = answer(3, PORT_INFO, port_info(7, capability_mask2=mask))
        found = lint([packet, answer(3, NODE_INFO, node(5)), shown], rows, files=[LISTED])
        assert ((1, 1) in of("LNK020", found)) is reported


def exchanged(*, written: bool) -> list[bytes]:
    """The port on route 1, 5 gives LID 5 to that on route 1, 4; the manager's Sets are in the capture, or only later readings."""
    told = [back(PORT_INFO, port_info(lid), path) for lid, path in ((6, [1, 4]), (5, [1, 5]))]
    writes = [smp(SET, PORT_INFO, port_info(lid, port_state=0), path=path) for lid, path in ((6, [1, 4]), (5, [1, 5]))]
    return [writes[0], told[0], writes[1], told[1]] if written else told


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 1])
def test_lids_that_change_unseen(rows: int | None) -> None:
    """A later reading shows another LID of the port, so the packet may have gone to another port."""
    packet = native(0x04, bytes(8), slid=1, dlid=5, bth={"p_key": 0x8123, "destqp": 0x12})
    known = [*port_sweep(6), back(P_KEY_TABLE, p_keys(0xFFFF), [1, 4])]
    for later, severity in (([], "error"), (exchanged(written=True), "error"), (exchanged(written=False), "info")):
        assert [str(one.severity) for one in lint([*known, packet, *later], rows) if one.code == "PKY003"] == [severity]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 1])
def test_lids_that_a_manager_exchanges_are_no_conflict(rows: int | None) -> None:
    assert [str(one.severity) for one in lint(port_sweep(5), rows) if one.code == "LNK024"] == ["error"]
    found = lint([*port_sweep(5), back(PORT_INFO, port_info(7), [1, 4])], rows)
    assert [str(one.severity) for one in found if one.code == "LNK024"] == ["info"]
