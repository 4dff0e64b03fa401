"""A structure that is found at several places is known in the order of packets, and in a packet in the order of its bytes."""

from __future__ import annotations

import struct
from types import ModuleType

from ibdissect.decode import ChunkTable
from ibdissect.wire.catalog import Catalog, builtin_modules
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import NodeInfo
from ibdissect.words import Inside, Struct, UdpPort, raw, uint
from tests.craft import build, gmp, native, smp
from tests.decode.made import ethernet_table, native_table
from tests.test_plugin_places import udp


def own(number: int) -> bytes:
    """A port tells its NodeInfo."""
    return smp(0x81, 0x11, build(NodeInfo, port_guid=number), slid=5)


def records(*numbers: int) -> bytes:
    """Subnet administration tells the NodeInfo of some ports."""
    table = b"".join(build(NodeRecord, 112, node_info=build(NodeInfo, port_guid=number)) for number in numbers)
    head = struct.pack(">BBBxIIQHHQ", 1, 1, 7, 1, 20 + len(table), 0, 14, 0, 0)
    return gmp(0x03, 0x92, 0x11, head + table, at=24)


def told(*frames: bytes) -> list[tuple[int, int]]:
    """Row and GUID of each."""
    table = native_table(frames)
    return list(zip(table.occurrences(NodeInfo).rows.tolist(), table.values(NodeInfo.port_guid).tolist(), strict=True))


def test_places_of_several_kinds_are_in_the_order_of_packets() -> None:
    assert told(records(5), own(4), native(), own(3), records(2), own(1)) == [(0, 5), (1, 4), (3, 3), (4, 2), (5, 1)]
    assert told(own(1)) == [(0, 1)] and told(native(), records(7)) == [(1, 7)] and told(native()) == []


class Both(Struct):
    """What a datagram holds twice."""

    prefix, key, size, carried_by = "acme", "both", 4, UdpPort(5557)
    first = raw(2, "First")
    second = raw(2, "Second")


class Twice(Struct):
    """The place of the second one is declared first."""

    prefix, key, size, carried_by = "acme", "twice", 2, (Inside(Both.second), Inside(Both.first))
    number = uint(16, "Number")


def test_several_in_one_packet_are_in_the_order_of_their_bytes() -> None:
    acme = ModuleType("acme")
    for one in (Both, Twice):
        one.__module__ = "acme"
        setattr(acme, one.__name__, one)
    chunk = ethernet_table([udp(1000, 5557, bytes([0, i, 0, i + 1])) for i in (1, 5)]).chunk
    assert ChunkTable(chunk, Catalog([*builtin_modules(), acme])).values(Twice.number).tolist() == [1, 2, 5, 6]
