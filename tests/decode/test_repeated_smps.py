"""Subnet management packets with equal contents, and rules that ask more of a packet."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
import pytest

import ibdissect
from ibdissect.capture import records
from ibdissect.decode import ChunkTable
from ibdissect.decode.repeated_smps import contents
from tests.cases import every
from tests.craft import LINK_INFINIBAND, erf_pcap, ethernet_pcap, roce2, sa_mad, smp, ud
from tests.decode import repeated
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


def repetition(number: int) -> bytes:
    """A packet with a PSN and a transaction id of its own, and checksums that nobody looks at here."""
    made = bytearray(ONE if number in (1, 1039) else OTHER if number > 1038 else MOST)
    made[BTH_AT + 9 : BTH_AT + 12], made[MAD_AT + 8 : MAD_AT + 16] = number.to_bytes(3, "big"), number.to_bytes(8, "big")
    made[-6:] = (7).to_bytes(4, "big" if number == 1036 else "little") + (7).to_bytes(2, "big" if number == 1037 else "little")
    return bytes(made)


MOST, OTHER = (answer(5, PORT_INFO, port_info(6, master_sm_lid=lid)) for lid in (1, 7))


def test_repetitions_are_judged_by_what_else_a_rule_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of packets that hold what those of an earlier window held, in which no rule found anything, those whose PSN, transaction id, checksum
    or place is asked for; and those with something new."""
    monkeypatch.setattr(records, "ROWS", 520)
    frames = [repetition(number) for number in range(1, 1041)]
    with ibdissect.open(io.BytesIO(erf_pcap(frames)), plugins=[repeated.__name__]) as opened:
        found = [(one.name.removeprefix("asked-").upper(), one.frame) for one in opened.lint(select="REP")]
    wanted = {name: list(range(repeated.LATE + 1, 1041)) for name in ("AGAIN", "PSN", "TID", "SUM", "BUT", "FUN", "CAL")}
    wanted |= {"ONC": [1040]}  # it says of itself that what it holds is enough
    wanted |= {"ICR": [1036], "VCR": [1037], "SML": [1040], "BEF": [1039]}
    assert {name: [frame for each, frame in found if each == name] for name in wanted} == wanted
    assert {name for name, _ in found} == wanted.keys()
