"""Names that tell nodes apart throughout a capture. (tests/subnet/files/test_given_names.py: how they are put into sentences and
filters)"""

from __future__ import annotations

from ipaddress import ip_address

from ibdissect.decode.history import History
from ibdissect.subnet.files import learn
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.node_names import NodeNames, names_in, sure_names
from tests.cases import every
from tests.standard import CA, SWITCH
from tests.subnet.files.made_files import parsed


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


NAMES = NodeNames(
    {0x2C903: "host A", 0x2C905: "b port 2"}, {7: "host A port 1", 9: "b port 2"}, {0x2C904: "host A port 1", 0x2C906: "b port 2"},
    {7: "host A", ip_address("::ffff:10.0.0.1").packed: "node01", ip_address("fd00::1").packed: "node02"},
)  # fmt: skip


@every(
    ("text", "name"),
    [
        ("LID 7", "host A port 1"), ("LID 8", "LID 8"), ("LID x", "LID x"), ("LID ", "LID "), ("10.0.0.1", "node01"), ("fd00::1", "node02"),
        ("::ffff:10.0.0.1", "node01"), ("10.0.0.2", "10.0.0.2"), ("fe80::2:c904", "host A port 1"), ("fe80::2:c907", "fe80::2:c907"),
        ("a socket", "a socket"), ("", ""),
    ],
)  # fmt: skip
def test_the_name_of_an_address(text: str, name: str) -> None:
    """Of RoCE first, else the port whose GUID is the lower half of a GID."""
    assert NAMES.address(text) == name


@every(
    ("text", "named"),
    [
        ("0x000000000002c903 sends", "host A sends"),
        ("0x000000000002c903 port 1 (LID 7) and LID 9", "host A port 1 (LID 7) and LID 9 (b port 2)"),
        ("0x000000000002c909 port 1 (LID 7)", "0x000000000002c909 port 1 (LID 7)"), ("LID 7, LID 8", "LID 7 (host A port 1), LID 8"),
        ("from 10.0.0.1 to 10.0.0.3", "from 10.0.0.1 (node01) to 10.0.0.3"), ("PSN 7, 0x2c903", "PSN 7, 0x2c903"), ("SLID 7", "SLID 7"),
        ("SM 0x000000000002c904 and 0x000000000002c906 port 1", "SM host A port 1 and 0x000000000002c906 port 1"),
        ("PortGUID 0x000000000002c904 of node 0x000000000002c903", "PortGUID 0x000000000002c904 of node host A"),
        ("its PortGUID is 0x000000000002c904", "its PortGUID is 0x000000000002c904"),
    ],
)  # fmt: skip
def test_names_in_a_sentence(text: str, named: str) -> None:
    """GUIDs give way to names, unless the text calls them GUIDs; LIDs and addresses stay before them."""
    assert NAMES.sentence(text) == named


@every(("port", "name"), [("host A port 1", "host A"), ("host A", "host A"), ("b port 2", "b port 2"), ("", "")])
def test_the_node_of_a_port_by_its_name(port: str, name: str) -> None:
    """A node may be called as a port is."""
    assert NAMES.node_of(port) == name


def test_the_names_that_a_subnet_gives() -> None:
    """Nodes without a name give none; port 0 has the name of its switch, and only of that; hosts of RoCE are in no partition of GUIDs."""
    subnet = Subnet()
    for guid, kind, name, numbers in ((3, CA, b"a ", (0, 1)), (0x50, SWITCH, b"edge", (0, 2)), (7, CA, b"", (1,)), (0, CA, b"c", (1, 2))):
        node, _ = subnet.node(guid, 1)
        node.kind, node.name = kind, name
        for number in numbers:
            port = subnet.port(node, number, 1)
            port.guid = guid * 16 + number if guid or number == 1 else 0
            subnet.assign(port, guid * 16 + number + 1, 0, 1)
    learn(subnet, [parsed("roce", "[[roce.host]]\nname = 'node09'\naddresses = ['::9']")[0]])
    names = names_in(subnet)
    assert names.node_by_guid == {3: "a ", 0x50: "edge"}
    assert names.port_by_lid == {0x31: "a", 0x32: "a port 1", 0x501: "edge", 0x503: "edge port 2", 2: "c port 1", 3: "c port 2"}
    assert names.port_by_guid == {0x31: "a port 1", 0x500: "edge", 0x502: "edge port 2", 1: "c port 1"}
    assert names.node_by_address == {0x31: "a ", 0x32: "a ", 0x501: "edge", 0x503: "edge", 2: "c", 3: "c", bytes(15) + b"\x09": "node09"}
