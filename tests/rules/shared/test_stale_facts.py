"""Packets that go both ways in a partition refute P_Key tables that were read before them."""

from __future__ import annotations

import pytest

from tests.cases import every
from tests.craft import gmp, ud
from tests.rules.findings import lint
from tests.rules.PKY.cases import NODE_INFO, P_KEY_TABLE, SUBNET_LIMITED, TABLE, connected, path, talk
from tests.subnet.made import answer, node, p_keys


def severities(code: str, *frames: bytes) -> list[str]:
    return [str(one.severity) for one in lint(frames, code)]


def between_1_and_5(p_key: int, back: int) -> list[bytes]:
    """A datagram from LID 1 to LID 5, and one back between the same queue pairs."""
    ways = (1, 5, 0x50, 0x60, p_key), (5, 1, 0x60, 0x50, back)
    return [ud(bytes(8), slid=slid, dlid=dlid, dest_qp=qp, src_qp=own, bth={"p_key": key}) for slid, dlid, qp, own, key in ways]


@every(("code", "packets", "severity"), [
    ("PKY003", talk(0x9999, 0x9999), "info"), ("PKY003", talk(0x9999, 0x9999, qp=0x61), "error"),
    ("PKY001", talk(0x1234, 0x9234), "info"), ("PKY001", talk(0x1234, 0x1234), "error"), ("PKY004", talk(0x1234, 0x9234), "info"),
    ("PKY001", connected(0x1234, 0x9234), "info"), ("PKY001", connected(0x1234, 0x9234, opcode=0x24), "error"),
])  # fmt: skip
def test_packets_both_ways(code: str, packets: list[bytes], severity: str) -> None:
    """Datagrams between two queue pairs, or answers; of two limited members in the full form."""
    assert severities(code, *TABLE, *packets) == [severity]


def test_datagrams_between_two_qp1_are_no_talk() -> None:
    """Who asks an agent by itself does not know that it was asked."""
    ways = [gmp(4, 1, 0x12, slid=slid, dlid=dlid, bth={"p_key": 0x9999}) for slid, dlid in ((3, 5), (5, 3))]
    assert severities("PKY003", *TABLE, *ways) == ["error"]


@pytest.mark.parametrize(("flows", "severity"), [(1, "info"), (2, "error")])
def test_where_some_flows_were_forgotten_nobody_knows(flows: int, severity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.rules.shared.stale_facts.MAX_FLOWS", flows)
    assert severities("PKY003", *TABLE, *talk(0x9999, 0x9999, qp=0x61)) == [severity]


@every(("said", "severity"), [
    ([], "warning"), (between_1_and_5(0x8123, 0x0123), "info"), (between_1_and_5(0x0123, 0x8123), "info"),
    (between_1_and_5(0x0123, 0x0123), "warning"), (between_1_and_5(0x8123, 0x8123)[:1], "warning"),
])  # fmt: skip
def test_a_path_of_ends_that_talk(said: list[bytes], severity: str) -> None:
    """Both are limited members as far as the tables say; one answers the other in the full form."""
    assert severities("PKY018", *SUBNET_LIMITED, path(0x0123), *said) == [severity]


def test_a_path_in_a_partition_that_one_end_lacks() -> None:
    lacks = [*SUBNET_LIMITED[:2], answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF))]
    assert severities("PKY018", *lacks, path(0x0123)) == ["warning"]
    assert severities("PKY018", *lacks, path(0x0123), *between_1_and_5(0x0123, 0x0123)) == ["info"]
