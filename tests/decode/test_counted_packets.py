"""Packets that count: each once, without what is no RoCE; the given table stays as it is."""

from __future__ import annotations

from ibdissect.decode.counted_packets import Distinct
from ibdissect.wire.headers import BTH
from tests.craft import ethernet_pcap, roce2
from tests.decode.made import tables_of
from tests.decode.test_not_roce import TEXT, datagram

ONE, TWO = (roce2(payload=b"%08d" % i, bth={"psn": i}) for i in range(2))


def counted(frames: list[bytes], step_ns: int) -> tuple[list[int], int]:
    """The frames with a packet that counts, and the copies."""
    state, found = Distinct(), list[int]()
    for table in tables_of(ethernet_pcap(frames, step_ns=step_ns)):
        before = table.occurrences(BTH).rows.tolist()
        packets = state.of(table)
        found += (packets.occurrences(BTH).rows + table.chunk.first).tolist()
        assert table.occurrences(BTH).rows.tolist() == before
        assert packets.networks is table.networks
    return found, state.copies


def test_copies_count_once() -> None:
    assert counted([ONE, ONE, TWO], 1000) == ([1, 3], 1)
    assert counted([ONE, ONE, TWO], 1001 * 3) == ([1, 2, 3], 0)


def test_what_is_no_roce_does_not_count() -> None:
    assert counted([ONE, datagram(TEXT + bytes(2)), TWO], 10_000) == ([1, 3], 0)


def test_where_all_count_the_table_itself_is_used() -> None:
    (table,) = tables_of(ethernet_pcap([ONE, TWO]))
    assert Distinct().of(table) is table
