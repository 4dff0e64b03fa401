"""NodeRecords and PortInfoRecords show the whole subnet exactly if no host can be missing."""

from __future__ import annotations

from ibdissect.subnet.file_lines import is_doubtful
from ibdissect.subnet.model import Subnet
from tests.subnet.files.made_files import subnet_of

LAST_OF_PORT_INFO = "MaxCreditHint"

SWITCH_PORTS = 4


def node(kind: str, guid: int, lid: int, ports: int) -> str:
    words = {"lid": lid, "node_type": kind, "num_ports": ports, "sys_guid": hex(guid), "node_guid": hex(guid), "port_guid": hex(guid + 1)}
    words |= {"partition_cap": "0x40", "device_id": "0x1017", "port_num": 1 if kind != "Switch" else 0, "vendor_id": "0x2C9"}
    return "\n".join(["NodeRecord dump:", *(f"\t\t{name:.<24}{value}" for name, value in words.items())])


def info(lid: int, number: int, up: bool, lmc: int = 0, own: bool = True, waits: int = 0) -> str:
    words = {"GidPrefix": "0xfe80000000000000", "Lid": lid if own else 0, "LocalPort": number, "LinkState": "Active" if up else "Down"}
    words |= {"LMC": lmc, "HoqLife": waits, LAST_OF_PORT_INFO: 0}
    lines = [f"\t\t{name + ':':.<33}{value}" for name, value in words.items()]
    head = ["PortInfoRecord dump:", "\tRID", f"\t\tEndPortLid..............{lid}", f"\t\tPortNum.................{number}"]
    return "\n".join([*head, "\t\tOptions.................0x0", "\tPortInfo dump:", *lines])


def link(lid: int, number: int, other: int, port: int) -> str:
    words = {"FromLID": lid, "FromPort": number, "ToPort": port, "ToLID": other}
    return "\n".join(["LinkRecord dump:", *(f"\t\t{name:.<27}{value}" for name, value in words.items())])


def subnet(
    hosts: int, *ups: int, links: tuple[str, ...] = (), lmc: int = 0, left_out: str = "", waits: dict[tuple[int, int], int] | None = None
) -> Subnet:
    """Hosts with LIDs from 16, and a switch, with LIDs from 1, for each number of ports that are up; HOQLife 0, or as in `waits`."""
    records = [node("Channel Adapter", 0x100 * i, 16 + 2 * i, 1) for i in range(1, hosts + 1)]
    records += [info(16 + 2 * i, 1, True, lmc) for i in range(1, hosts + 1)]
    for i, up in enumerate(ups, 1):
        records += [node("Switch", 0x10000 * i, i, SWITCH_PORTS), info(i, 0, True)]
        records += [
            info(i, number, number <= up, own=False, waits=(waits or {}).get((i, number), 0)) for number in range(1, SWITCH_PORTS + 1)
        ]
    return subnet_of(("saquery", "\n".join(one for one in (*records, *links) if one != left_out) + "\n"))


def whole(subnet: Subnet) -> bool | None:
    """Whether the records list all ports; None: perhaps."""
    return None if is_doubtful(subnet.listed) else subnet.listed < 0


def test_links_are_counted() -> None:
    assert whole(subnet(3, 3)) is True
    assert whole(subnet(2, 3)) is False, "a host is hidden"
    assert whole(subnet(3, 2, 3)) is True, "one cable between the switches"
    assert whole(subnet(3, 3, 4)) is None, "two cables, or two hosts that are hidden"
    assert whole(subnet(4, 1, 2)) is False, "fewer than hosts: the records are of two times"
    assert whole(subnet(2)) is False and whole(subnet(0)) is False


def test_what_is_missing_is_missed() -> None:
    assert whole(subnet(3, 3, left_out=info(1, 4, False, own=False))) is False
    assert whole(subnet(3, 3, left_out=info(18, 1, True))) is False


def test_cables_tell_switches_from_hosts() -> None:
    between = (link(1, 2, 2, 2), link(1, 3, 2, 3))
    assert whole(subnet(3, 3, 4, links=between)) is True
    assert whole(subnet(2, 3, 4, links=between)) is False


def test_the_manager_tells_ports_to_switches_from_ports_to_hosts() -> None:
    """OpenSM gives them two values of HOQLife: two cables are left here, or a third and a fourth host."""
    to_hosts = {(1, 1): 16, (1, 2): 16, (2, 1): 16}
    to_switches = {(1, 3): 18, (1, 4): 18, (2, 2): 18, (2, 3): 18}
    assert whole(subnet(3, 4, 3)) is None, "one value tells nothing"
    assert whole(subnet(3, 4, 3, waits=to_hosts | to_switches)) is True
    assert whole(subnet(3, 4, 3, waits=to_hosts | to_switches | {(1, 3): 16, (2, 3): 16})) is None, "two hosts are hidden"
    assert whole(subnet(3, 4, 3, waits=to_hosts | to_switches | {(1, 3): 17})) is None, "a third value"
    alike = {(switch, port): 16 if port <= 2 else 18 for switch in (1, 2) for port in (1, 2, 3)}
    assert whole(subnet(2, 3, 3, waits=alike)) is None, "two hosts and two cables, or four hosts and one cable"
    halves = {(switch, port): 16 if port <= 2 else 18 for switch in (1, 2) for port in (1, 2, 3, 4)}
    assert whole(subnet(4, 4, 4, waits=halves)) is True, "four ports lead to hosts, whichever value they have"
    few = {(1, 1): 16, (1, 2): 16} | {(switch, port): 18 for switch, ports in ((1, (3, 4)), (2, (1, 2)), (3, (1, 2))) for port in ports}
    assert whole(subnet(2, 4, 2, 2, waits=few)) is True, "one cable does not connect three switches"


def test_a_port_has_all_lids_of_its_range() -> None:
    assert 19 in subnet(1, 1, lmc=1).lids and 19 not in subnet(1, 1).lids
