"""Are the nodes at both ends of packets found by LID, GID and directed route, as they were at that moment?"""

from __future__ import annotations

from ibdissect.fabric import FabricFollower
from ibdissect.fabric.ends import Ends
from ibdissect.fabric.names import Names, names_in
from tests import craft
from tests.fabric.made import ANSWER, node, switch
from tests.table.made import native_table


def test_ends_of_directed_routes() -> None:
    follower = FabricFollower()
    shown = [
        craft.smp(ANSWER, 0x11, node(1), path=[]), craft.smp(ANSWER, 0x10, b"manager".ljust(64, b"\0"), path=[]),
        craft.smp(ANSWER, 0x11, switch(2, 4, local_port_num=1), path=[1]), craft.smp(ANSWER, 0x10, b"leaf".ljust(64, b"\0"), path=[1]),
    ]  # fmt: skip
    list(follower.feed(native_table(shown)))
    later = native_table([craft.smp(1, 0x15, path=[1]), craft.smp(ANSWER, 0x15, path=[1]), craft.smp(1, 0x15, path=[1, 3])])
    ends = Ends(names_in(follower.subnet), follower)
    assert ends.routed(later) == {0: ("manager", "leaf"), 1: ("leaf", "manager"), 2: ("manager", "")}
    assert ends.of(later) == ({0: ["manager"], 1: ["leaf"], 2: ["manager"]}, {0: ["leaf"], 1: ["manager"]})
    assert Ends(names_in(follower.subnet)).of(later) == ({}, {}), "files know no routes"
    assert Ends().of(later) == ({}, {})


def test_ends_by_lid_and_gid() -> None:
    gid = bytes.fromhex("fe80000000000000000000000000ab07")
    names = Names({7: "host"}, {3: "host port 1"}, {0xAB07: "host port 1"}, {3: "host"})
    by_gid = craft.native(0x04, bytes(8), slid=9, dlid=3, grh={"sgid": gid, "dgid": bytes(16)})
    table = native_table([craft.native(0x04, bytes(8), slid=3, dlid=9), by_gid])
    assert Ends(names).of(table) == ({0: ["host"], 1: ["host"]}, {1: ["host"]})
    both = ["host", "host port 1"]
    assert Ends(names).of(table, ports=True) == ({0: both, 1: both}, {1: both})
