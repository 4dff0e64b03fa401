"""Forwarding tables, groups, records and their sizes agree with known subnets."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from ibdissect.subnet import FabricFollower
from tests.decode.made import tables_of

from .taught import Taught
from .test_follower import mads


@pytest.mark.parametrize(("name", "switches", "adapters", "cables"), [("03-sweep-ft36", 36, 324, 648), ("04-sweep-ft1024", 64, 1024, 2048)])
def test_forwarding(shared: Path, name: str, switches: int, adapters: int, cables: int) -> None:
    """Every LID is reachable from every switch, as the answers say byte by byte; following the tables ends at its owner."""
    path = shared / f"captures/opensm/{name}.pcap"
    found = Taught().read(path)
    follower, subnet = found.follower, found.subnet
    assert len(found.cables) == cables and len(subnet.lids) == switches + adapters
    blocks: dict[tuple[bytes, int], bytes] = {}
    for mad in mads(path):
        if mad[1] == 0x81 and mad[3] == 0x81 and mad[16:18] == b"\0\x19":
            blocks[mad[8:12] + mad[129 : 129 + mad[7]], int.from_bytes(mad[20:24], "big")] = mad[64:128]
    compared = 0
    for (way, block), entries in blocks.items():
        hop = follower.routes.end_of(int.from_bytes(way[:4], "big"), way[4:])
        assert hop is not None and hop.node.forwarding is not None
        assert hop.node.forwarding.linear.ports[block * 64 : block * 64 + 64] == entries
        compared += 1
    assert compared >= switches
    tables = [node for node in subnet.slots.values() if node.forwarding is not None]
    assert len(tables) == switches
    for node in tables:
        assert node.forwarding is not None and len(node.forwarding.linear) == switches + adapters
        for lid in list(subnet.lids)[::50]:
            here, hops = node, 0
            owner = subnet.by_lid(lid)
            assert owner is not None
            while here is not owner.node:
                assert here.forwarding is not None
                out = here.ports[here.forwarding.linear.port(lid)[0]]
                assert out.peer is not None and hops < 6
                here, hops = out.peer.node, hops + 1


def test_state_per_port(shared: Path) -> None:
    """Below 1.4 KB a port in a fat tree of 5184 ports that comes up: routes, forwarding tables and earlier states included.

    What the compiled steps keep counts as that of the module that calls them.
    """

    tables = [table for table in tables_of(shared / "captures/opensm/04-sweep-ft1024.pcap")]
    for table in tables:
        table.attributes()
    gc.collect()
    tracemalloc.start()
    try:
        follower = FabricFollower()
        for table in tables:
            for _ in follower.feed(table):
                pass
        del table, _
        tables.clear()
        follower.steps.exchanged.clear()  # which has a bound of its own
        gc.collect()
        used = sum(stat.size for stat in tracemalloc.take_snapshot().statistics("filename") if "/subnet/" in stat.traceback[0].filename)
    finally:
        tracemalloc.stop()
    assert used / follower.subnet.port_count < 1400


def test_groups_and_records(shared: Path) -> None:
    subnet = Taught().read(shared / "captures/opensm/10-partitions.pcap").subnet
    groups = subnet.groups.by_mgid
    assert groups and all(group.facts.now is not None and group.facts.now.mlid >= 0xC000 and group.since for group in groups.values())
    saquery = Taught().read(shared / "captures/opensm/14-saquery.pcap").subnet
    assert saquery.sms and saquery.groups.by_mgid
