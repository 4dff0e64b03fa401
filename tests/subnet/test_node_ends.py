"""The nodes at both ends of packets are found by LID, GID and directed route, as they were at that moment."""

from __future__ import annotations

import pytest

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.node_ends import Ends
from ibdissect.subnet.node_names import NodeNames, names_in
from tests import craft
from tests.decode.made import native_table
from tests.subnet.made import ANSWER, answer, node, port_info, switch


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
    names = NodeNames({7: "host"}, {3: "host port 1"}, {0xAB07: "host port 1"}, {3: "host"})
    by_gid = craft.native(0x04, bytes(8), slid=9, dlid=3, grh={"sgid": gid, "dgid": bytes(16)})
    table = native_table([craft.native(0x04, bytes(8), slid=3, dlid=9), by_gid])
    assert Ends(names).of(table) == ({0: ["host"], 1: ["host"]}, {1: ["host"]})
    both = ["host", "host port 1"]
    assert Ends(names).of(table, ports=True) == ({0: both, 1: both}, {1: both})


@pytest.mark.parametrize("ports", [False, True])
def test_a_lid_that_moved_is_whose_it_was(ports: bool) -> None:
    """LID 5 is that of one host until frame 5, then another's; LID 6 always another's."""
    follower = FabricFollower()
    shown = [
        frame
        for lid, name in ((5, b"one"), (6, b"other"))
        for frame in (answer(lid, 0x11, node(lid)), answer(lid, 0x10, name.ljust(64, b"\0")))
    ]
    moved = [answer(6, 0x15, port_info(6)), answer(6, 0x15, port_info(5), modifier=1)]
    list(follower.feed(native_table([*shown, *moved])))
    names = names_in(follower.subnet)
    ends = Ends(names, follower)
    assert [ends._moved(lid) for lid in (5, 6, 7)] == [True, True, False]
    for lid in (5, 6):
        found = [ends.port(lid, frame) for frame in (0, 1, 2, 4, 5, 6, 7, 99)]
        assert [one.node.name.decode() if one is not None else "" for one in found] == {
            5: ["", "one", "one", "one", "one", "other", "other", "other"], 6: ["", "", "", "other", "other", "", "", ""],
        }[lid]  # fmt: skip
    assert Ends(names).port(5, 4) is None and Ends(names, follower).port(7, 4) is None
    sources, targets = ends.of(native_table([craft.native(slid=5, dlid=6)] * 7), ports=ports)
    assert [sources[row][0] for row in range(7)] == ["one"] * 5 + ["other"] * 2
    assert [len(sources[row]) for row in range(7)] == [2 if ports else 1] * 7 and targets.get(3, [""])[0] == "other"


def test_the_names_of_addresses() -> None:
    """Those of RoCE, of 4 bytes or of 16; the second half of a GID may be a port's GUID."""
    five, four = bytes(15) + b"\5", bytes([10, 0, 0, 1])
    names = NodeNames({}, {}, {0xAB07: "p port 1"}, {bytes(10) + b"\xff\xff" + four: "host", five: "six"})
    of = Ends(names)._of_address
    assert (of(four), of(bytes(10) + b"\xff\xff" + four), of(bytes([10, 0, 0, 2])), of(five)) == (
        ("host", ""),
        ("host", ""),
        ("", ""),
        ("six", ""),
    )
    assert of(bytes(14) + b"\xab\x07") == (names.node_of("p port 1"), "p port 1") and of(bytes(14) + b"\xab\x08") == ("", "")
