"""Values of one packet are paired with each other alone, and fields of one name are merged in the order of packets."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import cache
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pytest

import ibdissect
from ibdissect.wire.expr import Arith, Compare
from tests import tunnels
from tests.cases import every
from tests.craft import ethernet_pcap, roce2
from tests.decode.typed import Packets, Typed, packet

ORDER: dict[str, tuple[Callable[[Any, Any], bool], bool]] = {
    "==": (eq, False), "!=": (ne, True), "===": (eq, True), "!==": (ne, False), "<": (lt, False), "<=": (le, False), ">": (gt, False),
    ">=": (ge, False),
}  # fmt: skip
"""Each operator, and whether it must hold for every pair."""


@cache
def lists() -> list[tuple[bytes, bytes]]:
    """Two lists of a packet, which may be empty, for each of many packets."""
    chance = random.Random(11)
    return [
        (bytes(chance.choices(range(5), k=chance.randrange(5))), bytes(chance.choices(range(5), k=chance.randrange(4)))) for _ in range(150)
    ]


@cache
def packets() -> Packets:
    return Packets(*(packet(u8=i, some=some, others=others) for i, (some, others) in enumerate(lists())))


def holds(op: str, left: list[int], right: list[int], every: bool | None = None) -> bool:
    """A comparison of all values of one packet, none of which makes it false."""
    compare, all_of_them = ORDER[op]
    found = [compare(a, b) for a, b in product(left, right)]
    return bool(found) and (all(found) if (all_of_them if every is None else every) else any(found))


@pytest.mark.slow
@every("op", ORDER)
def test_all_values_of_a_packet_are_paired(op: str) -> None:
    def wanted(every: bool | None = None) -> list[int]:
        return [i for i, (some, others) in enumerate(lists()) if holds(op, list(some), list(others), every)]

    assert packets().filter(f"typed.all.some {op} typed.all.others") == packets().where(Compare(op, Typed.some, Typed.others)) == wanted()
    for quantifier in ("any", "all"):
        assert packets().filter(f"{quantifier} typed.all.some {op} typed.all.others") == wanted(quantifier == "all"), quantifier


@every("op", ORDER)
def test_arithmetic_takes_all_pairs(op: str) -> None:
    sums = [[a + b for a, b in product(some, others)] for some, others in lists()]
    for number in (0, 3, 8):
        wanted = [i for i, found in enumerate(sums) if holds(op, found, [number])]
        assert packets().where(Compare(op, Arith("+", Typed.some, Typed.others), number)) == wanted, number
        twice = [[a + b for a, b in product(some, some)] for some, _ in lists()]
        wanted = [i for i, found in enumerate(twice) if holds(op, found, [number])]
        assert packets().where(Compare(op, Arith("+", Typed.some, Typed.some), number)) == wanted, number
    wanted = [i for i, found in enumerate(sums) if holds(op, found, [i])]
    assert packets().where(Compare(op, Arith("+", Typed.some, Typed.others), Typed.u8)) == wanted


@pytest.mark.slow
@every("number", [0, 1, 64, 65])
def test_many_values_beside_none(number: int) -> None:
    """In packets with other numbers of values around them; fields of bytes, too."""
    found = Packets(packet(), packet(some=bytes(range(number)), left=b"ab" * number), packet(some=b"\7"))
    assert found.filter("typed.all.some == 7") == [1] * (number > 7) + [2]
    assert found.filter("typed.all.some") == [1] * (number > 0) + [2] and found.filter("typed.all.some != 7") == [1] * (0 < number < 8)
    assert found.filter("typed.all.left contains 62") == [1] * (number > 0)
    assert found.column("typed.all.some") == [*((1, n) for n in range(number)), (2, 7)]


def test_fields_of_one_name_are_merged_in_the_order_of_packets() -> None:
    """Numbers and addresses: of both sides, of each header; a packet without any between."""
    one, other = (roce2(ip={"source": bytes([10, 0, 0, i])}, udp={"source_port": i}) for i in (5, 3))
    with ibdissect.open(io.BytesIO(ethernet_pcap([one, bytes(60), tunnels.wrapped("IP in IP", other)[0]]))) as opened:
        table = opened.table()
        there, outer = "192.168.0.2", opened.dissect(3)["ip.src"]
        assert [(column.frame.tolist(), column.value.tolist()) for column in (table["udp.port"], table["udp.srcport"])] == [
            ([1, 1, 3, 3], [5, 4791, 3, 4791]), ([1, 3], [5, 3]),
        ]  # fmt: skip
        for text, frames in (
            ("udp.port == 3", [3]), ("udp.port < 5", [3]), ("udp.port != 4791", []), ("all udp.port > 3", [1]),
            ("ip.addr == 10.0.0.5", [1]), ("ip.addr == 10.0.0.3", [3]), (f"ip.addr == {there}", [1, 3]), (f"ip.src == {outer}", [3]),
            (f"all ip.dst == {there}", [1]), ("ip.addr[0:3] == 0a:00:00", [1, 3]), ("ip.addr[2:2] == 00:05", [1]),
            ("count(ip.addr) == 4", [3]), ("udp.dstport == udp.port", [1, 3]), ("udp.srcport == udp.port", [1, 3]),
        ):  # fmt: skip
            assert table.filter(text).frames().tolist() == frames, text
