"""Facts from files added to the model of the subnet, before the first frame, each with its line.

Nodes first, then ports and their LIDs, then facts that name a port by its LID. A newer file replaces the facts of an older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from msgspec import Struct as Record

from ibdissect.heap import uncollected
from ibdissect.subnet import SWITCH, Node, Port, Subnet
from ibdissect.subnet.file_lines import KnownFile, doubtful, file_and_line, line_number
from ibdissect.subnet.m_keys import MKey, MKeyState
from ibdissect.subnet.nodes import NodeFacts, SmFacts
from ibdissect.subnet.p_keys import PKeys
from ibdissect.subnet.roce_network import RoceHost, is_link_local
from ibdissect.subnet.switch_tables import BLOCK, MASKS, PORTS, UNREACHABLE
from ibdissect.subnet.topology import connect
from ibdissect.wire.numbers import FIRST_MULTICAST
from ibdissect.wire.sm_port import PortInfo

from . import file_facts as facts
from .file_facts import FileFact, NamedPort
from .lines import guid as guid_of
from .lines import lmc_of
from .partitions_conf import memberships
from .whole_subnet import whole

F = TypeVar("F")
P = TypeVar("P", facts.InfoFact, facts.LanesFact, facts.MKeyFact, facts.TableFact, facts.WeightsFact)
CACHES = ("guid2lid", "guid2mkey", "neighbors")
"""Files in which OpenSM keeps ports that are long gone. If another file lists all ports, their other ports are ignored."""


class SubnetFile(Record):
    """A file and its facts."""

    known: KnownFile
    kind: str
    facts: list[FileFact]


def learn(subnet: Subnet, files: Iterable[SubnetFile]) -> None:
    """Add the facts of files, oldest file first, to an empty model."""
    with uncollected():
        _Learner(subnet, files).run()


class _Learner:
    def __init__(self, subnet: Subnet, files: Iterable[SubnetFile]) -> None:
        self.subnet = subnet
        self.by_type: dict[type[Any], list[tuple[int, Any]]] = {}
        """Facts by type, with their line numbers, ascending."""
        files = list(files)
        fresh = [file for file in files if file.kind not in CACHES]
        whole = any(type(fact) is facts.WholeFact for file in fresh for fact in file.facts)
        seen = {fact.end.guid for file in fresh for fact in file.facts if type(fact) is facts.PortFact} if whole else None
        self.cached: list[tuple[int, facts.LinkFact]] = []
        """Cables of caches, which only fill gaps."""
        for i, file in enumerate(files):
            for fact in file.facts:
                if file.kind in CACHES and seen is not None and _left(fact, seen):
                    continue
                if file.kind in CACHES and type(fact) is facts.LinkFact:
                    self.cached.append((line_number(i, fact.line), fact))
                    continue
                self.by_type.setdefault(type(fact), []).append((line_number(i, fact.line), fact))
        self.by_guid: dict[int, Port] = {}
        infos = [fact for _, fact in self._of(facts.InfoFact)]
        self.switch_lids = {fact.end.lid for _, fact in self._of(facts.TableFact) if fact.end.number == 0}
        self.switch_lids |= {fact.end.lid for fact in infos if fact.end.number == 0 or fact.body[slice(*PortInfo.lid.span)] == b"\0\0"}
        """LIDs of switches, if a file has their port 0, or a port without a LID."""

    def _of(self, kind: type[F]) -> list[tuple[int, F]]:
        return self.by_type.get(kind, [])

    def _ported(self, kind: type[P]) -> Iterator[tuple[int, P, Port]]:
        """The facts about ports that their lines identify."""
        for line, fact in self._of(kind):
            if (port := self.port(fact.end, line)) is not None:
                yield line, fact, port

    def run(self) -> None:
        """Add all facts, in order of their dependencies."""
        self._nodes()
        self._ports()
        self._states()
        self._links()
        self._port_tables()
        self._routes()
        self._groups()
        self._managers()
        self._partitions()
        self._network()
        ends = {end.guid for _, link in self.cached for end in (link.near, link.far)}
        agreed = bool(ends) and all(guid in self.by_guid and self.by_guid[guid].lid for guid in ends)  # so guid2lid is not truncated
        lists = {fact.sure or agreed: line for line, fact in self._of(facts.WholeFact)}
        sure = whole(self.subnet) if True not in lists and (infos := self._of(facts.InfoFact)) else False
        if sure is not False:
            lists[bool(sure)] = line_number(file_and_line(infos[-1][0])[0], 0)
        self.subnet.listed = lists[True] if True in lists else doubtful(lists[False]) if lists else 0

    def _states(self) -> None:
        """What SwitchInfo and PortInfo say."""
        for line, switch in self._of(facts.SwitchFact):
            port = self.subnet.by_lid(switch.lid)
            if port is not None and port.node.kind in (0, SWITCH):
                port.node.kind = SWITCH
                port.node.learn(port.node.switch, switch.facts, line)
                port.node.linear_top.learn(switch.linear_top, line)
        for line, info, port in self._ported(facts.InfoFact):
            port.infos.learn(self.subnet.share(info.body), line)

    def _links(self) -> None:
        """Cables; those of caches only where both ports have none."""
        links = self._of(facts.LinkFact)
        for i, (line, link) in enumerate((*links, *self.cached)):
            near, far = self.port(link.near, line), self.port(link.far, line)
            gap = i < len(links) or (near is not None and near.peer is None and far is not None and far.peer is None)
            if near is not None and far is not None and near is not far and gap:
                connect(near, far, line)

    def _port_tables(self) -> None:
        """P_Keys, lanes and M_Keys of ports."""
        for line, table, port in self._ported(facts.TableFact):
            self._table(line, table, port)
        for line, lanes, port in self._ported(facts.LanesFact):
            if port.node.kind == SWITCH or lanes.end.number < 0:
                self.subnet.lanes(port).learn_map(lanes.entered, self.subnet.share(lanes.entries), line)
        for line, weights, port in self._ported(facts.WeightsFact):
            self.subnet.lanes(port).learn_arbitration(weights.block, self.subnet.share(weights.entries), line)
        for line, key, port in self._ported(facts.MKeyFact):
            protect, lease = (shown.m_key_protect_bits, shown.m_key_lease_period) if (shown := port.info) is not None else (0, 0)
            port.guard = port.guard or MKeyState()
            port.guard.learn(MKey(key.key, protect, lease), line)

    def _managers(self) -> None:
        """Subnet managers, with the LIDs that their ports have."""
        for line, manager in self._of(facts.ManagerFact):
            owner = self.by_guid.get(manager.guid)
            lid = manager.lid or (owner.lid if owner is not None else 0)
            if manager.state:
                sm = self.subnet.sm(manager.guid)
                sm.frame = line
                sm.facts.learn(SmFacts(manager.state, manager.priority or sm.now.priority, lid), line)

    def _network(self) -> None:
        """The hosts and settings of a RoCE network."""
        roce = self.subnet.roce
        for line, setting in self._of(facts.RoceFact):
            setattr(roce, setting.name.replace("-", "_"), setting.value)
            roce.lines[setting.name] = line
        for line, host in self._of(facts.RoceHostFact):
            roce.hosts[host.address] = RoceHost(host.name, host.vlans, line)
            roce.link_local |= is_link_local(host.address)

    def _nodes(self) -> None:
        """Nodes, then their names of a node name map."""
        for line, fact in self._of(facts.NodeFact):
            node, _ = self.subnet.node(fact.guid, line)
            node.kind = fact.kind or node.kind
            node.name = fact.name.encode("utf-8", "surrogateescape")[:64] or node.name
            node.system_guid = fact.system_guid or node.system_guid
            node.device_id, node.vendor_id = fact.device_id or node.device_id, fact.vendor_id or node.vendor_id
            if fact.num_ports or fact.partition_cap:
                node.facts.learn(NodeFacts(fact.num_ports or node.num_ports, fact.partition_cap or node.partition_cap), line)
        for _, name in self._of(facts.NameFact):
            if named := self.subnet.nodes.get(name.guid):
                named.name = name.name.encode("utf-8", "surrogateescape")[:64]

    def _ports(self) -> None:
        """Ports by GUID, then their LIDs. A file may give several LIDs of a port one by one, which is its LMC."""
        ports = self._of(facts.PortFact)
        named: dict[NamedPort, Port | None] = {}
        for line, fact in ports:  # first those that name the node
            end = fact.end
            if end.node and end.number >= 0 and end not in named:
                named[end] = self.port(end, line)
        by_file_and_port: dict[tuple[int, int], tuple[int, Port, set[int], int]] = {}
        for line, fact in ports:
            end = fact.end
            port = named.get(end) or self.port(end._replace(lid=0), line)
            if port is None or not end.lid:
                continue
            known = by_file_and_port.get((line >> 32, id(port)))
            if known is None or fact.lmc >= 0:
                by_file_and_port[line >> 32, id(port)] = line, port, {end.lid}, fact.lmc
            elif known[3] < 0:
                known[2].add(end.lid)
        lmcs = {id(port): (min(lids), lmc) for _, port, lids, lmc in by_file_and_port.values() if lmc >= 0}
        for line, port, lids, lmc in by_file_and_port.values():
            base = min(lids)
            if lmc < 0 and (listed := lmc_of(lids)) > 0:
                lmc = listed
            elif lmc < 0:
                before = lmcs.get(id(port), (0, 0))
                lmc = before[1] if before[0] == base else 0
            if lmc < 8 and base + (1 << lmc) <= FIRST_MULTICAST:
                self.subnet.assign(port, base, lmc, line)
        for line, fact in ports:  # those that give only the LID
            port = self.port(fact.end, line) if not fact.end.guid and not fact.end.node else None
            if port is not None and fact.lmc >= 0 and port.node.guid == 0:
                self.subnet.assign(port, fact.end.lid, fact.lmc, line)
            elif port is not None and fact.lmc > 0 and id(port) not in lmcs and port.lid == fact.end.lid:
                self.subnet.assign(port, fact.end.lid, fact.lmc, max(line, port.lids.since))  # PortInfo of a node without LMC elsewhere

    def port(self, end: NamedPort, line: int) -> Port | None:
        """The port that a line names, created if new; None if the line does not identify one."""
        subnet = self.subnet
        if end.node and end.number >= 0:
            node, _ = subnet.node(end.node, line)
            port = subnet.port(node, end.number, line)
            if end.guid:
                port.guid = end.guid
                self.by_guid[end.guid] = port
            return port
        if end.guid:
            found = self.by_guid.get(end.guid)
            if found is not None:
                return subnet.port(found.node, end.number, line) if found.node.kind == SWITCH and end.number > 0 else found
            node, _ = subnet.node(0, line)
            port = self.by_guid[end.guid] = subnet.without_node[end.guid] = subnet.port(node, 0, line)
            port.guid = end.guid
            return port
        if not end.lid:
            return None
        owner = subnet.by_lid(end.lid)
        if owner is None:
            node, _ = subnet.node(0, line)
            owner = subnet.port(node, 0, line)
            subnet.assign(owner, end.lid, 0, line)
        if not owner.node.kind and end.lid in self.switch_lids:
            owner.node.kind = SWITCH
        return subnet.port(owner.node, end.number, line) if owner.node.kind == SWITCH and end.number >= 0 else owner

    def _table(self, line: int, fact: facts.TableFact, port: Port) -> None:
        if not port.node.kind and fact.end.number > 0 and not self.switch_lids:
            line = doubtful(line)  # the table of an adapter's port, or what a switch enforces at one of its ports
        self.subnet.learn_p_keys(port, fact.block, fact.keys, line)
        assert port.p_keys is not None
        port.p_keys.size = max(port.p_keys.size, fact.size)

    def _routes(self) -> None:
        linear: dict[tuple[Node, int], tuple[int, bytearray]] = {}
        for line, fact in self._of(facts.RouteFact):
            port = self.port(fact.switch, line)
            if port is not None and port.node.kind in (0, SWITCH):
                block = linear.setdefault((port.node, fact.lid // BLOCK), (line, bytearray([UNREACHABLE]) * BLOCK))
                block[1][fact.lid % BLOCK] = fact.port
        for (node, number), (line, entries) in linear.items():
            node.tables().linear.learn(number, bytes(entries), line)
        outputs = {}
        for line, route in self._of(facts.MulticastFact):
            port = self.port(route.switch, line)
            if port is not None and port.node.kind in (0, SWITCH):
                outputs[port.node, route.lid - FIRST_MULTICAST] = line, route.ports
        masks: dict[tuple[Node, int], tuple[int, bytearray]] = {}
        for (node, index), (line, ports) in outputs.items():
            for output in ports:
                _, table = masks.setdefault((node, output // PORTS << 28 | index // MASKS), (line, bytearray(2 * MASKS)))
                table[2 * (index % MASKS) + (output % PORTS < 8)] |= 1 << output % 8
        for (node, modifier), (line, table) in masks.items():
            node.tables().learn_multicast(modifier, bytes(table), line)
        for node in {node for node, _ in (*linear, *masks)}:
            self.subnet.weigh(node)

    def _groups(self) -> None:
        groups = self.subnet.groups
        for line, fact in sorted(self._of(facts.GroupFact), key=lambda one: one[1].facts.p_key < 0):  # short ones last
            known = groups.by_mgid.get(fact.mgid)
            if fact.facts.p_key >= 0:
                known = groups.learn(fact.mgid, fact.facts, line)
            if known is not None and fact.port_gid:
                groups.join(known, fact.port_gid, fact.join_state, line)

    def _partitions(self) -> None:
        """Add the P_Keys that partitions.conf gives to each port with a LID. Of several such files the newest counts."""
        found = self._of(facts.DefinitionFact)
        if not found:
            return
        newest = found[-1][0] >> 32
        definitions = [facts.DefinitionFact(line, *_rest(fact, line)) for line, fact in found if line >> 32 == newest]
        options = {fact.name: fact.value for _, fact in self._of(facts.OptionFact)}
        both = options["allow_both_pkeys"].upper() == "TRUE" if "allow_both_pkeys" in options else (False if options else None)
        own = guid_of(options.get("guid", "")) or 0
        managers = [fact.guid for _, fact in self._of(facts.ManagerFact) if fact.master]
        ports = {guid: port for guid, port in self.by_guid.items() if port.is_endport}
        whole = newest << 32
        kinds = ((guid, port.node.kind) for guid, port in ports.items())
        for guid, membership in memberships(definitions, kinds, own or (managers[-1] if managers else 0), both=both, whole=whole).items():
            port = ports[guid]
            port.p_keys = port.p_keys or PKeys()
            port.p_keys.intended = membership
            self.subnet.partitioned = True


def _left(fact: FileFact, seen: set[int]) -> bool:
    """Whether a cache lists a port that no longer exists."""
    if isinstance(fact, facts.LinkFact):
        return fact.near.guid not in seen or fact.far.guid not in seen
    return isinstance(fact, (facts.PortFact, facts.MKeyFact)) and fact.end.guid not in seen


def _rest(fact: facts.DefinitionFact, line: int) -> Iterator[Any]:
    """The fields of a definition after its line; the lines of entries as numbers of `file_lines`."""
    first = line - fact.line
    yield from (fact.name, fact.p_key, fact.default, tuple((first + at, who, how) for at, who, how in fact.entries))
