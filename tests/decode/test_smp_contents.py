"""Subnet management packets with equal contents, and conditions that ask nothing else of a packet."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ibdissect.decode import ChunkTable
from ibdissect.decode.smp_contents import contents, rests_on_content
from ibdissect.lint.rule import REGISTRY
from ibdissect.rules import load
from ibdissect.wire.encapsulation import ERF
from ibdissect.wire.expr import Expr, Where
from ibdissect.wire.headers import BTH, ICRC, LRH, VCRC
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.sm_port import PortInfo
from ibdissect.words import present, previous
from tests.cases import every
from tests.craft import LINK_INFINIBAND, ethernet_pcap, roce2, sa_mad, smp, ud
from tests.decode.made import Row, chunk_of, native_table, table_of
from tests.engine.plain import plain
from tests.subnet.made import answer, port_info

PORT_INFO = 0x15
ONE = answer(5, PORT_INFO, port_info(5))
BTH_AT, MAD_AT, MAD_END = 8, 28, 284


def held(frames: Iterable[bytes]) -> list[int]:
    return contents(native_table(frames)).tolist()


def test_psn_transaction_id_and_crcs_are_left_out() -> None:
    apart = {*range(BTH_AT + 9, BTH_AT + 12), *range(MAD_AT + 8, MAD_AT + 16), *range(MAD_END, len(ONE))}
    for at in apart:
        one, other = held([ONE, ONE[:at] + bytes([ONE[at] ^ 0x55]) + ONE[at + 1 :]])
        assert one == other > 0, at


def test_all_other_bytes_count() -> None:
    """Bytes of lengths and types make another kind of packet of it."""
    one, *others = held([ONE, *(ONE[:at] + bytes([ONE[at] ^ 1]) + ONE[at + 1 :] for at in (2, 7, 16, 30, 35, 44, 60, 100, MAD_END - 1))])
    assert one not in others and len({*others}) == len(others) and min(others) > 0


def test_interpreted_hashes_are_the_same() -> None:
    table = native_table([ONE, answer(6, PORT_INFO, port_info(6))])
    found = np.zeros(2, np.int64)
    where = (table.located.at(name) for name in ("lrh", "bth", "mad"))
    plain("seen_before").Marks(table.chunk.data).packets(np.arange(2), *where, found)
    assert found.tolist() == contents(table).tolist()


def test_packets_without_contents() -> None:
    """Other classes, other networks, and packets that are cut, are always new."""
    frames = [ud(sa_mad(0x81, 0x12)), smp(0x01, PORT_INFO)[:200], smp(0x01, PORT_INFO)]
    assert [one > 0 for one in held(frames)] == [False, False, True]
    assert not contents(table_of(ethernet_pcap([roce2()]))).any()


@every("cut", range(9))
def test_a_packet_without_all_of_its_icrc_is_always_new(cut: int) -> None:
    """Two bytes of VCRC follow it."""
    table = ChunkTable(chunk_of([Row(ONE[: len(ONE) - cut], LINK_INFINIBAND, len(ONE))]))
    assert (contents(table) > 0).tolist() == [cut <= 2]


def test_lengths_that_do_not_fit_make_a_packet_new() -> None:
    words = len(ONE) // 4
    frames = [smp(0x01, PORT_INFO, lrh={"pktlen": words + more}) for more in (-1, 0, 1)] + [smp(0x01, PORT_INFO, bth={"padcnt": 1})]
    assert [one > 0 for one in held(frames)] == [False, True, False, False]


@every(
    ("condition", "rests"),
    [
        (PortInfo.lid == 0, True),
        ((PortInfo.lid + 1 > PortInfo.master_sm_lid) & ~PortInfo.lmc.isin({1, 2}) | present(SMPDirected), True),
        (MAD.method == 1, True),
        (LRH.slid == 1, True),
        (BTH.destqp == 1, True),
        (BTH.psn == 1, False),
        (MAD.transaction_id == 0, False),
        (~(PortInfo.lid == MAD.transaction_id), False),
        (present(ICRC), False),
        (present(VCRC), False),
        (PortInfo.lid == ERF.wire_length, False),
        (PortInfo.lid == previous(PortInfo.lid), False),
        ((PortInfo.lid == 1) & Where(PortInfo, lambda table: np.ones(1, np.bool_)), False),
    ],
)
def test_what_conditions_rest_on(condition: Expr, rests: bool) -> None:
    assert rests_on_content(PortInfo, condition) == rests
    assert not rests_on_content(None, condition), "a condition on frames"


def test_conditions_of_rules() -> None:
    load()
    some = {code: rests_on_content(rule.on, rule.when) for code, rule in REGISTRY.items() if rule.when is not None}
    assert not any(some[code] for code in ("ROC004", "ROC007", "CAP004", "MAD012"))
    assert sum(some.values()) > len(some) / 2
