"""P_Keys that OpenSM makes of partitions.conf: the rules of osm_prtn_config.c, one by one."""

from __future__ import annotations

from ibdissect.subnet.file_lines import is_doubtful
from tests.cases import every
from tests.subnet.files.made_files import subnet_of

A, B, SWITCH = 0x11, 0x22, 0x33


def info(lid: int, kind: str, guid: int) -> str:
    values = {"NodeType": kind, "NumPorts": 1, "SystemGuid": hex(guid), "Guid": hex(guid), "PortGuid": hex(guid), "PartCap": 32, "DevId": 1,
              "LocalPort": 1, "VendorId": 1}  # fmt: skip
    return f"# Node info: Lid {lid}\n" + "".join(f"{name}:...{value}\n" for name, value in values.items())


NODES = info(1, "Channel Adapter", A) + info(2, "Channel Adapter", B) + info(3, "Switch", SWITCH)


def keys(text: str, *, both: bool | None = False, own: int = A) -> dict[int, set[int]]:
    """The P_Keys that OpenSM on a port gives to each one."""
    files = [("smpquery", NODES), ("sminfo", f"sminfo: sm lid 1 sm guid {own:#x}, activity count 6 priority 12 state 3 SMINFO_MASTER\n")]
    if both is not None:
        files.append(("opensm.conf", f"# options\nallow_both_pkeys {'TRUE' if both else 'FALSE'}\n"))
    found = subnet_of(*files, ("partitions.conf", text))
    return {port.guid: set(port.p_keys.intended.keys) for port in found.ports() if port.p_keys is not None and port.p_keys.intended}


@every(
    ("text", "both", "expected"),
    [
        ("X=0x8010 : 0x11, 34=full ;", False, {A: {0xFFFF, 0x10}, B: {0x7FFF, 0x8010}, SWITCH: {0x7FFF}}),
        ("X=0x10,defmember=full : 0x11, 0x22=f ;\nX=020 : 0x33=lim;", False,
         {A: {0xFFFF, 0x8010}, B: {0x7FFF, 0x8010}, SWITCH: {0x7FFF, 0x10}}),
        ("Default=0x7fff : ALL, ALL_SWITCHES=full, SELF=full ;", False, {A: {0xFFFF}, B: {0x7FFF}, SWITCH: {0xFFFF}}),
        ("X=0x10 : 0x11=full, 0x11=limited ;", False, {A: {0xFFFF, 0x8010}, B: {0x7FFF}, SWITCH: {0x7FFF}}),
        ("X=0x10 : 0x11=full, 0x11=limited ;", True, {A: {0xFFFF, 0x10}, B: {0x7FFF}, SWITCH: {0x7FFF}}),
        ("X=0x10 : 0x11=Full, 34=FULL ;", False, {A: {0xFFFF, 0x10}, B: {0x7FFF, 0x10}, SWITCH: {0x7FFF}}),  # case matters
        ("X=0x10 : 0x11=both ;", False, {A: {0xFFFF, 0x8010}, B: {0x7FFF}, SWITCH: {0x7FFF}}),
        ("X=0x10 : 0x11=both ;", True, {A: {0xFFFF, 0x10, 0x8010}, B: {0x7FFF}, SWITCH: {0x7FFF}}),
        ("X=0x10 :\n mgid=ff12:401b::0707,Q_Key=0x1\n ALL_CAS=full,\n NONE ;", False,
         {A: {0xFFFF, 0x8010}, B: {0x7FFF, 0x8010}, SWITCH: {0x7FFF}}),
    ],
)  # fmt: skip
def test_members(text: str, both: bool, expected: dict[int, set[int]]) -> None:
    assert keys(text, both=both) == expected


def test_numbers_that_opensm_makes_up() -> None:
    """The first that no definition before it has; the same for the same name."""
    parts = "A : 0x11=full; =0x10 : 0x11=full; 0x2 : 0x11=full; B : 0x11=full; A : 0x22=full; Default : 0x11;"
    found = keys("Default=0x7fff : NONE ;" + parts)
    assert {key & 0x7FFF for key in found[A]} - {0x7FFF} == {1, 0x10, 2, 3} and {key & 0x7FFF for key in found[B]} - {0x7FFF} == {1}


def test_keys_of_unknown_ports_are_doubtful() -> None:
    subnet = subnet_of(("guid2lid", "0x11 0x1 0x1"), ("partitions.conf", "Default=0x7fff : SELF=full ; X=0x10 : ALL_SWITCHES=full, 0x11 ;"))
    table = subnet.without_node[A].p_keys
    assert table is not None
    assert table.intended is not None
    assert {key for key, line in table.intended.keys.items() if not is_doubtful(line)} == {0x7FFF, 0x10}
    assert {key for key, line in table.intended.keys.items() if is_doubtful(line)} == {0xFFFF, 0x8010}
