"""P_Keys that OpenSM makes of partitions.conf: the rules of osm_prtn_config.c, one by one."""

from __future__ import annotations

import pytest

from ibdissect.subnet.file_lines import is_doubtful
from ibdissect.subnet.files.file_facts import DefinitionFact
from ibdissect.subnet.files.partitions_conf import memberships, numbered
from tests.subnet.files.made_files import parsed, subnet_of

A, B, SWITCH = 0x11, 0x22, 0x33
PORTS = ((A, 1), (B, 1), (SWITCH, 2))


def definitions(text: str) -> list[DefinitionFact]:
    return [fact for fact in parsed("partitions.conf", text)[0].facts if isinstance(fact, DefinitionFact)]


def keys(text: str, *, both: bool | None = False, own: int = A) -> dict[int, set[int]]:
    found = memberships(definitions(text), PORTS, own, both=both, whole=-1)
    return {guid: set(membership.keys) for guid, membership in found.items()}


@pytest.mark.parametrize(
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
    text = "A : 0x11; =0x10 : 0x11; 0x2 : 0x11; B : 0x11; A : 0x22; Default : 0x11;"
    assert [number for number, _ in numbered(definitions(text))] == [1, 0x10, 2, 3, 1, 0x7FFF]


def test_keys_of_unknown_ports_are_doubtful() -> None:
    subnet = subnet_of(("guid2lid", "0x11 0x1 0x1"), ("partitions.conf", "Default=0x7fff : SELF=full ; X=0x10 : ALL_SWITCHES=full, 0x11 ;"))
    table = subnet.without_node[A].p_keys
    assert table is not None
    assert table.intended is not None
    assert {key for key, line in table.intended.keys.items() if not is_doubtful(line)} == {0x7FFF, 0x10}
    assert {key for key, line in table.intended.keys.items() if is_doubtful(line)} == {0xFFFF, 0x8010}
