"""Rules know what counted at each SMP: before a fact was shown, after it changed, of whom, and since when."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ibdissect.errors import PluginError
from ibdissect.subnet.files.kinds_of_files import SubnetFiles
from tests.cases import few
from tests.lint.test_compared_with_answers import loaded, told
from tests.lint.test_seen_again import apart
from tests.standard import LINEAR, NODE_INFO, PORT_INFO, SL_TO_VL, SWITCH_INFO
from tests.subnet.files.made_files import parsed

from .made import GET, answer, ask, node, port_info, switch, switch_info

SWITCH, HOST = answer(5, NODE_INFO, switch(5)), answer(6, NODE_INFO, node(6))
ABOUT = {LINEAR: "LinearForwardingTable.port", SL_TO_VL: "SLtoVLMappingTable.sl_to_vl"}
CAPACITY, PORTS, KIND, LANES = "SwitchInfo.linear_fdb_cap", "NodeInfo.num_ports", "NodeInfo.node_type", "PortInfo.operational_vls"


def counted(path: Path, frames: list[bytes], field: str, about: int = LINEAR, **options: Any) -> dict[int, tuple[int, int]]:
    """What a field of another attribute was at each request about an attribute, and since which frame, by the frame of the request."""
    path.mkdir(exist_ok=True)
    found = told(path, apart(frames), f"at = {ABOUT[about]}", f"says = {{'was': previous({field})}}", 'message = "{was} of {port}"',
                 f"when = (MAD.method == {GET}) & (previous({field}) >= 0)", **options)  # fmt: skip
    return {frame: (int(message.split()[0]), proof[0][0]) for frame, message, proof in found}


def capable(entries: int) -> bytes:
    return answer(5, SWITCH_INFO, switch_info(linear_fdb_cap=entries))


@pytest.mark.parametrize("window", [256, 1 << 20])
def test_a_capability_counts_from_its_frame_on(tmp_path: Path, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.capture.opening.WINDOW", window)
    asked, of_host = ask(5, LINEAR), ask(6, LINEAR)
    frames = [SWITCH, HOST, asked, capable(1024), asked, capable(1024), asked, capable(512), asked, of_host]
    frames += [asked, ask(7, LINEAR), capable(2048), asked]
    expected = {5: (1024, 4), 7: (1024, 4), 9: (512, 8), 11: (512, 8), 14: (2048, 13)}
    assert counted(tmp_path / "a", frames, CAPACITY) == expected
    of_switch = (3, 5, 7, 9, 11, 14)
    assert counted(tmp_path / "b", frames, PORTS) == {**{frame: (8, 1) for frame in of_switch}, 10: (1, 2)}
    assert counted(tmp_path / "c", frames, KIND) == {**{frame: (2, 1) for frame in of_switch}, 10: (1, 2)}


def test_the_port_that_is_meant(tmp_path: Path) -> None:
    """A table of lanes selects an output port of a switch; elsewhere the port through which the SMP arrived is meant."""
    ports = ((0, 5, 1), (3, 0, 2), (4, 0, 3))
    infos = [answer(5, PORT_INFO, port_info(lid, operational_vls=vls), modifier=port) for port, lid, vls in ports]
    infos.append(answer(6, PORT_INFO, port_info(6, operational_vls=4)))
    asked = [ask(lid, SL_TO_VL, modifier=modifier) for lid, modifier in ((5, 0x103), (5, 0x304), (5, 9), (6, 3))]
    frames = [SWITCH, HOST, *infos, *asked, ask(5, LINEAR, modifier=3)]
    assert counted(tmp_path / "a", frames, LANES, SL_TO_VL) == {7: (2, 4), 8: (3, 5), 10: (4, 6)}
    assert counted(tmp_path / "b", frames, LANES) == {11: (1, 3)}


def test_what_a_file_says_counts_from_the_first_frame_on(tmp_path: Path) -> None:
    """Of each node what is said of it; its line is the proof."""

    def info(lid: int, ports: int) -> str:
        values = {"NodeType": "Switch", "NumPorts": ports, "SystemGuid": hex(lid), "Guid": hex(lid), "PortGuid": hex(lid), "PartCap": 32,
                  "DevId": 1, "LocalPort": 1, "VendorId": 1}  # fmt: skip
        return f"# Node info: Lid {lid}\n" + "".join(f"{name}:...{value}\n" for name, value in values.items())

    text = "".join(info(lid, ports) for lid, ports in ((5, 10), (6, 20), (7, 30)))
    files = SubnetFiles([parsed("smpquery", text)[0]], [])
    found = counted(tmp_path, [ask(lid, LINEAR) for lid in (7, 5, 6)], PORTS, subnet=files)
    assert found == {1: (30, 0), 2: (10, 0), 3: (20, 0)}


@few("seed", range(6), fast=(0,))
def test_what_counted_agrees_with_a_plain_walk(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two switches say what they can, in any order and in chunks of any size; each request is compared with what each said last."""
    rnd = random.Random(seed)
    monkeypatch.setattr("ibdissect.capture.opening.WINDOW", rnd.choice((256, 1500, 4000)))
    said = dict[tuple[str, int], tuple[int, int]]()
    frames, wanted = list[bytes](), dict[str, dict[int, tuple[int, int]]]()
    for frame in range(1, 40):
        lid, number, what = rnd.choice((5, 6)), rnd.randrange(1, 4), rnd.randrange(5)
        if (KIND, lid) not in said:
            what, said[KIND, lid] = 0, (2, frame)
        if what < 3:
            body = switch(lid, number), switch_info(linear_fdb_cap=number), port_info(lid, operational_vls=number)
            frames.append(answer(lid, (NODE_INFO, SWITCH_INFO, PORT_INFO)[what], body[what]))
            field = (PORTS, CAPACITY, LANES)[what]
            if said.get((field, lid), (0, 0))[0] != number:
                said[field, lid] = number, frame
            continue
        frames.append(ask(lid, LINEAR, modifier=number))
        for field in (CAPACITY, PORTS, LANES, KIND):
            if (field, lid) in said:
                wanted.setdefault(field, {})[frame] = said[field, lid]
    for field, expected in wanted.items():
        assert counted(tmp_path / field, frames, field) == expected, field


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("PortInfo.lid", True), ("PortInfo.m_key", True), (KIND, True), (PORTS, True), ("NodeInfo.node_guid", False),
        (CAPACITY, True), ("SwitchInfo.linear_fdb_top", False), ("LinearForwardingTable.port", False),
    ],
)  # fmt: skip
def test_what_is_kept_of_other_attributes(field: str, asked: bool, tmp_path: Path) -> None:
    """Numbers only, one a field; whatever the SMP is about."""
    lines = f"at = {ABOUT[SL_TO_VL]}", f"when = ANSWERED & (previous({field}) == 1)"
    if asked:
        assert len(loaded(tmp_path, *lines).rules) == 1
    else:
        with pytest.raises(PluginError, match="kept of NodeInfo"):
            loaded(tmp_path, *lines)
