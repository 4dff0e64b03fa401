"""What happens to fabrics while they are captured: faultless traffic while switches restart, managers take over, LIDs and ports move."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from ibdissect.wire.notice import Notice
from ibdissect.wire.sm import SMInfo
from tests.craft import build, rc, smp, ud
from tests.rules.made.conversations import MGID, gid_of, member
from tests.subnet.made import ANSWER, GET, GUID, REPRESS, SET, node, p_keys, port_info, switch, switch_info

from .manipulations import ERF, SECOND, Pcap, Record, at_time

NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEYS, SM_INFO, LINEAR, NOTICE, TRAP = 0x11, 0x12, 0x15, 0x16, 0x20, 0x19, 0x02, 0x05
DOWN, INIT, ARMED, ACTIVE = 1, 2, 3, 4
CLASS, METHOD = 16 + 28 + 1, 16 + 28 + 3
"""Behind the headers of ERF, LRH, BTH and DETH."""
KEEP = {"port_state": 0, "port_physical_state": 0}
"""A Set of PortInfo leaves these as they are."""
DELETE, DELETED = 0x15, 0x95
MASTER, FULL, LIMITED, DEFAULT = 3, 0x8123, 0x0123, 0xFFFF
LIDS = {1: 1, 3: 3, 5: 5}
"""LIDs of the hosts, which are numbered as the switch ports that they hang at; the switch has LID 2."""
KEYS = {1: (DEFAULT, FULL), 3: (DEFAULT, FULL), 5: (DEFAULT,)}


class Fabric:
    """Records what a capture would hold."""

    def __init__(self) -> None:
        self.now, self.transaction = 1_700_000_000 * SECOND, 100
        self.records: list[Record] = []
        self.psn: dict[tuple[int, int], int] = {}

    def sent(self, frame: bytes, then_us: int = 50) -> None:
        """A packet, and the time until the next."""
        time = struct.pack("<Q", (self.now // SECOND << 32) | ((self.now % SECOND << 32) // SECOND))
        head = time + struct.pack(">BBHHH", 21, 4, 16 + len(frame), 0, len(frame))
        self.records.append(Record(len(self.records) + 1, self.now, head + frame, 16 + len(frame)))
        self.now += then_us * 1000

    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND

    def ask(self, attribute: int, body: bytes, *, agent: int = 1, method: int = GET, request: bytes = b"", **way: Any) -> None:
        """A request and its answer, along a `path` or between LIDs."""
        self.transaction += 1
        head = {"transaction_id": agent << 32 | self.transaction}
        back = {**way, "slid": way["dlid"], "dlid": way["slid"]} if "slid" in way else way
        self.sent(smp(method, attribute, (request or body) if method == SET else b"", header=head, **way))
        self.sent(smp(ANSWER, attribute, body, header=head, **back), 300)

    def port(
        self, lid: int, path: list[int], state: int = ACTIVE, *, manager: int = 1, method: int = GET, agent: int = 1, to: int = 0
    ) -> None:
        """PortInfo of an adapter; a Set leads to state `to`."""
        known = {"operational_vls": 1, "master_sm_lid": manager}
        request = port_info(lid, port_state=to, port_physical_state=0, **known)
        self.ask(PORT_INFO, port_info(lid, port_state=state, **known), path=path, method=method, request=request, agent=agent)

    def outside(self, number: int, state: int, origin: int = 1, **way: Any) -> None:
        """PortInfo of a switch port."""
        physical = 2 if state == DOWN else 5
        body = port_info(0, operational_vls=1, port_state=state, port_physical_state=physical, local_port_num=origin)
        self.ask(PORT_INFO, body, modifier=number, **way)

    def routes(self, ports: Mapping[int, int], **way: Any) -> None:
        """Set the forwarding table: LID -> port."""
        block = bytearray(b"\xff" * 64)
        for lid, port in {2: 0, **ports}.items():
            block[lid] = port
        self.ask(LINEAR, bytes(block), method=SET, **way)

    def sweep(
        self, *, lids: Mapping[int, int] = LIDS, origin: int = 1, agent: int = 1, ports: int = 8, capacity: int = 1024, state: int = ACTIVE
    ) -> None:
        """The manager at a host reads and writes everything."""
        manager, paths = lids[origin], {host: [] if host == origin else [1, host] for host in lids}
        self.ask(NODE_INFO, node(origin), path=[], agent=agent)
        self.port(manager, [], manager=manager, agent=agent)
        self.ask(NODE_INFO, switch(2, ports, local_port_num=origin), path=[1], agent=agent)
        self.ask(SWITCH_INFO, switch_info(linear_fdb_cap=capacity, linear_fdb_top=10), path=[1], agent=agent)
        self.port(2, [1], manager=manager, agent=agent)
        for number in range(1, ports + 1):
            self.outside(number, ACTIVE if number in lids else DOWN, origin, path=[1], agent=agent)
        for host in lids.keys() - {origin}:
            self.ask(NODE_INFO, node(host), path=paths[host], agent=agent)
            self.port(lids[host], paths[host], state, manager=manager, agent=agent)
        for host, lid in lids.items():
            self.ask(P_KEYS, p_keys(*KEYS[host]), path=paths[host], agent=agent)
            self.ask(P_KEYS, p_keys(*KEYS[host]), path=paths[host], method=SET, agent=agent)
            self.port(lid, paths[host], manager=manager, method=SET, agent=agent)
        self.routes({lid: host for host, lid in lids.items()}, path=[1], agent=agent)

    def trap(self, manager: int = 1) -> None:
        """The switch tells of a change, and the manager hears."""
        self.transaction += 1
        head = {"transaction_id": 9 << 32 | self.transaction}
        details = bytes([0, 2]).ljust(54, b"\0")
        body = build(Notice, 64, is_generic=1, type=1, producer_type=2, trap_number=128, issuer_lid=2, data_details=details)
        self.sent(smp(TRAP, NOTICE, body, slid=2, dlid=manager, header=head))
        self.sent(smp(REPRESS, NOTICE, body, slid=manager, dlid=2, header=head))

    def talk(self, one: int, other: int, p_key: int, *, reply: int = 0, qp: int = 0x100, times: int = 3) -> None:
        """Messages and their acknowledgements; `reply` if those carry the other form of the P_Key."""
        for _ in range(times):
            psn = self.psn[one, qp] = self.psn.get((one, qp), 0xFFFFFE) + 1 & 0xFFFFFF
            self.sent(rc(4, b"12345678", lrh={"slid": one, "dlid": other}, bth={"destqp": qp + 1, "psn": psn, "p_key": p_key, "a": 1}), 20)
            ack = {"destqp": qp, "psn": psn, "p_key": reply or p_key}
            self.sent(rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": psn}}, lrh={"slid": other, "dlid": one}, bth=ack), 20)

    def setting(self, lid: int, **known: int) -> None:
        """The manager writes settings of a host's port, and of the switch port that faces it."""
        path = [] if lid == 1 else [1, lid]
        self.ask(PORT_INFO, port_info(lid, **known), path=path, method=SET, request=port_info(lid, **known, **KEEP))
        self.ask(PORT_INFO, port_info(0, **known), path=[1], modifier=lid, method=SET, request=port_info(0, **known, **KEEP))

    def send(self, one: int, other: int, size: int, vl: int, *, qp: int) -> None:
        """Messages of one size on one VL."""
        for _ in range(3):
            psn = self.psn[one, qp] = self.psn.get((one, qp), 10) + 1
            bth = {"destqp": qp + 1, "psn": psn, "p_key": FULL, "a": 1}
            self.sent(rc(4, bytes(size), lrh={"slid": one, "dlid": other, "vl": vl, "sl": vl}, bth=bth), 20)

    def member(self, method: int, status: int = 0) -> None:
        """Host 5 joins or leaves the IPoIB broadcast group."""
        self.transaction += 1
        self.sent(member(method, transaction=self.transaction))
        self.sent(member({SET: ANSWER, DELETE: DELETED}[method], status=status, transaction=self.transaction), 300)

    def cast(self) -> None:
        """Host 5 sends to the IPoIB broadcast group."""
        self.sent(ud(b"ARP?", dest_qp=0xFFFFFF, src_qp=0x48, q_key=0xB1B, slid=5, dlid=0xC001, grh={"sgid": gid_of(5), "dgid": MGID}))

    def overlap(self) -> None:
        """The manager does not wait for an answer before it sends the next request."""
        found = self.records
        methods = [one.data[METHOD] if len(one.data) > 256 and one.data[CLASS] in (0x01, 0x81) else 0 for one in found]
        for i in range(len(found) - 1):
            if methods[i] == ANSWER and methods[i + 1] in (GET, SET):
                times = found[i].time_ns, found[i + 1].time_ns
                found[i], found[i + 1] = at_time(found[i + 1], times[0], ERF), at_time(found[i], times[1], ERF)
                methods[i], methods[i + 1] = methods[i + 1], methods[i]

    def pcap(self) -> Pcap:
        """The capture, going on for five more seconds."""
        self.wait(5)
        self.outside(6, DOWN, path=[1])
        return Pcap(ERF, tuple(self.records))


def switch_restarts(fabric: Fabric) -> None:
    """A switch restarts with fewer ports and a smaller forwarding table."""
    fabric.sweep()
    fabric.talk(1, 3, FULL)
    fabric.wait(5)
    fabric.outside(8, DOWN, path=[1])
    fabric.talk(1, 5, DEFAULT, qp=0x200)
    fabric.wait(20)
    fabric.trap()
    fabric.sweep(ports=6, capacity=512, state=INIT)
    fabric.talk(1, 3, FULL)


def manager_fails(fabric: Fabric) -> None:
    """The standby polls the master until it is gone, and takes over."""
    fabric.sweep()
    known = build(SMInfo, 64, guid=GUID + (1 << 4) + 1, priority=5, sm_state=MASTER, act_count=5)
    for _ in range(5):
        fabric.ask(SM_INFO, known, agent=2, slid=3, dlid=1)
        fabric.talk(1, 3, FULL, times=2)
        fabric.wait(3)
    for _ in range(3):
        fabric.transaction += 1
        fabric.sent(smp(GET, SM_INFO, slid=3, dlid=1, header={"transaction_id": 2 << 32 | fabric.transaction}))
        fabric.wait(1)
    fabric.sweep(origin=3, agent=2)
    fabric.talk(1, 3, FULL)
    fabric.trap(1)
    fabric.wait(1)
    fabric.trap(3)


def lids_are_exchanged(fabric: Fabric) -> None:
    """Two hosts exchange their LIDs while packets are under way."""
    fabric.sweep()
    fabric.talk(1, 3, FULL)
    fabric.wait(3)
    fabric.port(5, [1, 3], method=SET)
    fabric.talk(1, 5, FULL, qp=0x300, times=1)
    fabric.sent(rc(4, b"late", lrh={"slid": 1, "dlid": 3}, bth={"destqp": 0x101, "psn": fabric.psn[1, 0x100] + 1, "p_key": FULL}))
    fabric.port(3, [1, 5], method=SET)
    fabric.routes({1: 1, 5: 3, 3: 5}, path=[1])
    fabric.talk(1, 5, FULL, qp=0x400)
    fabric.talk(1, 3, DEFAULT, qp=0x500)
    fabric.sweep(lids={1: 1, 3: 5, 5: 3})
    fabric.talk(1, 5, FULL, qp=0x400)


def port_moves(fabric: Fabric) -> None:
    """A cable is plugged into another switch port, and the host gets another partition."""
    fabric.sweep()
    fabric.talk(1, 5, DEFAULT)
    fabric.trap()
    fabric.outside(5, DOWN, path=[1])
    fabric.wait(10)
    fabric.trap()
    fabric.ask(SWITCH_INFO, switch_info(linear_fdb_cap=1024, linear_fdb_top=10, port_state_change=1), path=[1])
    fabric.outside(7, INIT, path=[1])
    fabric.ask(NODE_INFO, node(5), path=[1, 7])
    fabric.port(0, [1, 7], INIT, manager=0)
    fabric.ask(P_KEYS, p_keys(DEFAULT), path=[1, 7])
    fabric.ask(P_KEYS, p_keys(DEFAULT, FULL), path=[1, 7], method=SET)
    fabric.port(5, [1, 7], INIT, method=SET)
    fabric.routes({1: 1, 3: 3, 5: 7}, path=[1])
    fabric.port(5, [1, 7], ARMED, method=SET, to=ARMED)
    fabric.port(5, [1, 7], ACTIVE, method=SET, to=ACTIVE)
    fabric.talk(1, 5, FULL, qp=0x600)


def partitions_change(fabric: Fabric) -> None:
    """Hosts get another partition; one is a limited member."""
    fabric.sweep()
    fabric.talk(1, 3, FULL)
    fabric.wait(5)
    for path, keys in (([], (DEFAULT, FULL, 0x8456)), ([1, 5], (DEFAULT, 0x0456))):
        fabric.ask(P_KEYS, p_keys(*keys), path=path, method=SET)
    fabric.talk(1, 5, 0x8456, reply=0x0456, qp=0x700)
    fabric.talk(5, 1, 0x0456, reply=0x8456, qp=0x800)
    for path, keys in (([], (DEFAULT, FULL, 0x8456)), ([1, 5], (DEFAULT, 0x0456))):
        fabric.ask(P_KEYS, p_keys(*keys), path=path)


def hosts_reboot(fabric: Fabric) -> None:
    """A host reboots: its port loses what was written to it, and its queue pairs begin anew with the same numbers."""
    fabric.sweep()
    fabric.talk(3, 1, FULL, qp=0x900)
    fabric.trap()
    fabric.outside(3, DOWN, path=[1])
    fabric.wait(60)
    fabric.trap()
    fabric.psn.clear()
    fabric.outside(3, INIT, path=[1])
    fabric.port(0, [1, 3], INIT, manager=0)
    fabric.ask(P_KEYS, p_keys(DEFAULT), path=[1, 3])
    fabric.sweep(state=INIT)
    fabric.talk(3, 1, FULL, qp=0x900)


def settings_change(fabric: Fabric) -> None:
    """A manager changes what it wrote: MTU, VLs, LIDs, tables, keys. A host joins and leaves a group, two others talk all the time."""
    fabric.sweep()
    fabric.talk(1, 3, FULL)
    fabric.member(SET, 0x0200)
    fabric.wait(2)
    fabric.talk(1, 3, FULL, times=1)
    for _ in range(2):  # a join is refused, two are not
        fabric.member(SET)
        fabric.cast()
        fabric.wait(2)
        fabric.talk(1, 3, FULL, times=1)
        fabric.cast()
        fabric.member(DELETE)
        fabric.wait(2)
        fabric.talk(1, 3, FULL, times=1)
    for lid in (3, 1):  # more VLs and a larger MTU on both ends
        fabric.setting(lid, neighbor_mtu=2, operational_vls=1)
    fabric.send(1, 3, 256, 0, qp=0xA00)
    fabric.wait(2)
    fabric.talk(1, 3, FULL, times=1)
    for lid in (3, 1):
        fabric.setting(lid, neighbor_mtu=5, operational_vls=3)
    fabric.send(1, 3, 4096, 2, qp=0xA00)
    fabric.ask(SWITCH_INFO, switch_info(linear_fdb_top=40), path=[1], method=SET)  # a host gets a higher LID
    fabric.ask(LINEAR, bytes([255] * 2 + [0] + [255] * 33 + [5] + [255] * 27), path=[1], method=SET)
    fabric.port(36, [1, 5], method=SET)
    fabric.talk(1, 3, FULL, times=1)
    fabric.talk(1, 36, DEFAULT, qp=0xB00)
    fabric.wait(2)
    fabric.talk(1, 3, FULL, times=1)
    fabric.ask(P_KEYS, p_keys(DEFAULT, 0x8777), path=[1, 5])
    fabric.ask(P_KEYS, p_keys(DEFAULT, 0x8777), path=[1, 5], method=SET)
    fabric.ask(P_KEYS, p_keys(DEFAULT, FULL, 0x8777), path=[], method=SET)
    fabric.talk(36, 1, 0x8777, qp=0xC00)
    fabric.talk(1, 3, FULL, times=1)
    for old, new in ((0, 0xA1), (0xA1, 0xA2)):  # the manager writes an M_Key, then another
        for lid, path in ((1, []), (3, [1, 3]), (36, [1, 5])):
            known = {"m_key_protect_bits": 1, "m_key_lease_period": 60, "operational_vls": 3}
            body = port_info(lid, m_key=new, **known)
            fabric.ask(PORT_INFO, body, path=path, method=SET, request=port_info(lid, m_key=new, **known, **KEEP), m_key=old)
        fabric.wait(3)
        for lid, path in ((1, []), (3, [1, 3]), (36, [1, 5])):
            fabric.ask(PORT_INFO, port_info(lid, m_key=new, **known), path=path, m_key=new)
    fabric.overlap()


def made(happen: Callable[[Fabric], None]) -> Pcap:
    """The capture of what happens."""
    fabric = Fabric()
    happen(fabric)
    return fabric.pcap()


SCENARIOS = (switch_restarts, manager_fails, lids_are_exchanged, port_moves, partitions_change, hosts_reboot, settings_change)
