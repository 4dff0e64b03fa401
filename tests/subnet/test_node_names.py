"""Names that tell nodes apart throughout a capture. (tests/subnet/files/test_given_names.py: how they are put into sentences and
filters)"""

from __future__ import annotations

from ibdissect.decode.history import History
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.node_names import NodeNames, sure_names
from ibdissect.subnet.nodes import CA


def test_names_that_tell_nothing_apart_are_left_out() -> None:
    def subnet(*nodes: tuple[int, bytes]) -> Subnet:
        made = Subnet()
        for guid, name in nodes:
            node, _ = made.node(guid, 1)
            node.kind, node.name = CA, name
            port = made.port(node, 1, 1)
            port.guid, port.lids = guid + 1, History()
            port.lids.learn((guid, 0), 1)
            made.lids[guid] = History()
            made.lids[guid].learn(port, 1)
        return made

    one = subnet((3, b"a"), (4, b"b"), (5, b"same"), (6, b"same"))
    one.lids[4].learn(one.lids[3].now, 9)
    names = sure_names([one])
    assert names.node_by_guid == {3: "a", 4: "b"} and names.port_by_guid == {4: "a port 1", 5: "b port 1"}
    assert names.port_by_lid == {3: "a port 1"} and names.node_by_address == {3: "a"}, "LID 4 was that of b, then of a"
    both = sure_names([subnet((3, b"a")), subnet((9, b"c"))])
    assert both.node_by_guid == {3: "a", 9: "c"} and not both.port_by_lid and not both.node_by_address, "whose LID is it?"
    assert sure_names([]) == NodeNames({}, {}, {}, {})
