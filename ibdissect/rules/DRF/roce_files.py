"""RoCE packets that differ from a file about VLANs, priorities, ECN and hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.capture.gather import looked_up
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import End, ends_hash, ends_of
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.equal_rows import by_value
from ibdissect.engine.offsets import MAX_DEPTH
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import INFO, WARNING, Context, Hit, Rule, Seen, fault, on_chunk
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.roce_network import RoceNetwork, is_link_local
from ibdissect.transport.congestion import ANSWERED, OF_CONNECTIONS, ecn, traffic_class
from ibdissect.wire.encapsulation import VLAN, IPv4, IPv6, OuterVLAN
from ibdissect.wire.spec import Field

Fault = tuple[End, Field[Any], int | str, int, dict[str, Any]]
"""Whose fault it is, the field and its value, the number of the line that says otherwise, arguments of the message."""


class _RoceRule(Rule):
    """Base of rules that judge packets by what a file says: one finding for each host and value."""

    needs = (FabricFollower, Scopes)
    severity = WARNING
    evidence = (
        "Any packet. Silent without a TOML file of the RoCE network (`--subnet`), or without that setting in it. An `info` about a VLAN "
        "tag where all frames of the interface, of several hosts, have it and no file names that VLAN: it may be that of a remote mirror "
        "(RSPAN). The priority in a tag is not judged behind a router, as the time to live shows: it is the router's."
    )

    def __init__(self) -> None:
        self.senders = set[End]()
        """Two of the hosts that send what is judged, if there are so many."""

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO where the tag may be a mirror's; it gives the priority 0."""
        if hit.field is None or hit.field.owner is not VLAN or hit.arguments.get("given", hit.arguments.get("priority", 0)):
            return None
        vlan, network = context.get(Scopes).only_vlan(hit.frame), context.get(FabricFollower).subnet.roce
        named = vlan in network.vlans or any(vlan in host.vlans for host in network.hosts.values())
        return INFO if vlan and not named and len(self.senders) > 1 else None

    @on_chunk
    def chunk(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Report what differs from the file."""
        network, bth = context.get(FabricFollower).subnet.roce, table.located.start.get("bth")
        if bth is None or not (network.lines or network.hosts):
            return
        lrh = table.located.start.get("lrh")
        rows = np.flatnonzero((bth >= 0) & (lrh < 0) if lrh is not None else bth >= 0)
        values = self.values(table, rows, network)
        rows, values = rows[values >= 0], values[values >= 0]
        groups = [rows[where] for _, where in by_value(ends_hash(table, rows) + values.astype(np.uint64))]
        heads = np.array([group[0] for group in groups], np.int64)
        numbers = values[np.searchsorted(rows, heads)].tolist()
        for group, value, ends in zip(groups, numbers, ends_of(table, heads), strict=True):
            if len(self.senders) < 2:
                self.senders.add(End(ends[0].address))
            for host, field, shown, line, arguments in self.faults(End(ends[0].address), End(ends[1].address), value, network):
                yield fault(
                    Seen(table, int(group[0])), {"host": str(host), **arguments}, field, shown, rows=group, key=(host, value),
                    proof=((line, "says otherwise"),),
                )  # fmt: skip

    def values(self, table: ChunkTable, rows: Int, network: RoceNetwork) -> Int:
        """What the rule judges in each row, int64; -1: nothing."""
        raise NotImplementedError

    def faults(self, source: End, destination: End, value: int, network: RoceNetwork) -> Iterator[Fault]:
        """What is wrong with that value between two addresses."""
        raise NotImplementedError


def _tagged(table: ChunkTable, rows: Int, field: Field[int]) -> Int:
    """A field of the VLAN tag of each row; -1 without a tag, as cards and virtual interfaces take tags off, and with two.

    The tag is that of the frame in which the host sent its packet: a tunnel's own tag belongs to the network that carries the tunnel.
    """
    tags, start = table.occurrences(VLAN), table.located.start
    network = np.max([start[name] for name in ("ip4", "ip6", "grh") if name in start], axis=0, initial=-1)
    own = (tags.at + VLAN.size == network[tags.rows]) & ~np.isin(tags.at - VLAN.size, tags.at)
    values = np.full(len(table), -1, np.int64)
    values[tags.rows[own]] = table.values(field)[own]
    return values[rows]


def _dscp(table: ChunkTable, rows: Int, around: str = "") -> Int:
    """The DSCP of each row; -1 without IP. `around`: of the header around a tunnel, as `.0`."""
    return traffic_class(table, rows, around) >> 2


def _routed(table: ChunkTable, rows: Int) -> Bool:
    """Which rows have passed a router, as the time to live shows."""
    left = table.values_at(IPv4.ttl, rows).astype(np.int64) + table.values_at(IPv6.hop_limit, rows)
    return ~np.isin(left, UNROUTED)


def _own_priority(table: ChunkTable, rows: Int) -> Int:
    """The priority in the VLAN tag of each row; -1 without one, and behind a router, which writes its own."""
    return np.where(_routed(table, rows), -1, _tagged(table, rows, VLAN.priority))


UNROUTED = (0, 1, 32, 64, 128, 255)
"""Times to live with which hosts send; 0: not IP."""


class RoceVlan(_RoceRule):
    """A RoCE packet is in another VLAN than a file says.

    Flow control and priorities are usually set up for the VLANs of RoCE only; elsewhere packets may be dropped, or reach hosts that they
    must not.

    Correct the address (GID index) that the application uses, or the file.

    Any packet, but not behind a router, as the time to live shows: links between routers have VLANs of their own. Link-local addresses
    (fe80::) name no host; the VLANs of the network are not asked of them.
    """

    code, name = "DRF006", "roce-vlan-drift"
    reference = "IEEE 802.1Q; RoCE Annex A17"
    message = "{host} sends in VLAN {vlan}, which is not one of {whose}"
    example = "a RoCE packet in VLAN 200, where a file gives its sender VLAN 100"

    def values(self, table: ChunkTable, rows: Int, network: RoceNetwork) -> Int:
        found = _tagged(table, rows, VLAN.id)
        return np.where((found > 0) & ~_routed(table, rows), found, -1)  # a tag with VLAN 0 gives only the priority

    def faults(self, source: End, destination: End, value: int, network: RoceNetwork) -> Iterator[Fault]:
        host = network.host(source)
        if host is not None and host.vlans:
            if value not in host.vlans:
                yield source, VLAN.id, value, host.line, {"vlan": value, "whose": f"{host.name}'s"}
        elif network.vlans and value not in network.vlans and (host is not None or not is_link_local(source)):
            yield source, VLAN.id, value, network.lines["vlans"], {"vlan": value, "whose": "RoCE's"}


class RocePriority(_RoceRule):
    """The VLAN priority of a RoCE packet does not fit its DSCP, as a file maps them.

    Some switches queue by the VLAN tag, others by the DSCP: for part of its way the packet is in a queue without flow control or ECN.

    Make trust mode and priority maps of cards and switches the same (`mlnx_qos`, `cma_roce_tos`).

    Any packet with a VLAN tag, but not behind a router. An `info` for priority 0: on a trunk a switch that trusts
    the DSCP may have written the tag.
    """

    code, name = "DRF007", "roce-priority-drift"
    reference = "IEEE 802.1Q; RFC 2474"
    message = "{host} sends with DSCP {dscp} in priority {given}; the file maps it to {wanted}"
    example = "a RoCE packet with DSCP 26 and VLAN priority 1, where a file maps DSCP 26 to priority 3"

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO, too, where a switch may have written the tag, with a priority that nobody looks at."""
        return super().severity_at_end(hit, context) if hit.arguments["given"] else INFO

    def values(self, table: ChunkTable, rows: Int, network: RoceNetwork) -> Int:
        priority, dscp = _own_priority(table, rows), _dscp(table, rows)
        judged = np.isin(dscp, list(network.priorities))
        return np.where(judged & (priority >= 0), priority << 6 | dscp, -1)

    def faults(self, source: End, destination: End, value: int, network: RoceNetwork) -> Iterator[Fault]:
        given, dscp = value >> 6, value & 63
        if given != network.priorities[dscp]:
            wanted = network.priorities[dscp]
            yield source, VLAN.priority, given, network.lines["priorities"], {"dscp": dscp, "given": given, "wanted": wanted}


class RoceLossy(_RoceRule):
    """A RoCE packet of a connection travels in a priority without flow control.

    When a queue is full the switch drops it, and a connection that loses packets is slow: older cards send everything again from there.

    Correct the traffic class of the application or the card (`cma_roce_tos`, `NCCL_IB_TC`), or the file.

    Packets of connections, by DSCP (where a file maps DSCPs to priorities; others count by their upper three bits) or else by VLAN tag,
    unless a router wrote it. Congestion notifications and datagrams may travel elsewhere. Silent without `lossless` in a file, and for
    packets in a tunnel whose own DSCP or tag is of a lossless priority: switches queue by that.
    """

    code, name = "DRF008", "roce-lossy-priority"
    reference = "IEEE 802.1Qbb; RoCE Annex A17"
    message = "{host} sends in priority {priority}, which has no flow control (the file has it for {lossless})"
    example = "an RC packet with DSCP 0, where a file says that priority 3 is lossless"

    def values(self, table: ChunkTable, rows: Int, network: RoceNetwork) -> Int:
        if network.priorities:
            mapped = np.array([*map(network.priority, range(64)), -1])
            found = mapped[_dscp(table, rows)]
            tunnels = [mapped[_dscp(table, rows, f".{depth}")] for depth in range(MAX_DEPTH)]
        else:
            found, tunnel = _own_priority(table, rows), np.full(len(table), -1, np.int64)
            tunnel[table.occurrences(OuterVLAN).rows] = table.values(OuterVLAN.priority)
            tunnels = [tunnel[rows]]
        for tunnel in tunnels:
            found = np.where(np.isin(tunnel, list(network.lossless)), tunnel, found)
        return np.where(looked_up(table.located.opcode[rows], OF_CONNECTIONS), found, -1)

    def faults(self, source: End, destination: End, value: int, network: RoceNetwork) -> Iterator[Fault]:
        if network.lossless and value not in network.lossless:
            at, lossless = _ip(source).dscp if network.priorities else VLAN.priority, ", ".join(map(str, sorted(network.lossless)))
            yield source, at, value, network.lines["lossless"], {"priority": value, "lossless": lossless}


class RoceWithoutEcn(_RoceRule):
    """A RoCE packet does not allow switches to mark congestion, though a file says that it should.

    Switches drop such a packet where they would mark others, and its sender never slows down (DCQCN).

    Enable ECN for RoCE at the sender's card, in the priority that it uses.

    Requests of connections. Silent without `ecn = true` in a file.
    """

    code, name = "DRF009", "roce-not-ecn-capable"
    reference = "RFC 3168; DCQCN (Zhu et al., SIGCOMM 2015)"
    message = "{host} sends without ECN (Not-ECT)"
    example = "an RC request with ECN 0, where a file says `ecn = true`"

    def values(self, table: ChunkTable, rows: Int, network: RoceNetwork) -> Int:
        judged = looked_up(table.located.opcode[rows], ANSWERED) & (_dscp(table, rows) >= 0) & network.ecn
        return np.where(judged, ecn(table, rows), -1)

    def faults(self, source: End, destination: End, value: int, network: RoceNetwork) -> Iterator[Fault]:
        if not value:
            yield source, _ip(source).ecn, 0, network.lines["ecn"], {}


class RoceUnknownHost(_RoceRule):
    """A host that no file lists sends or receives RoCE, though a file lists all hosts.

    It may be a new or forgotten host, a wrong address in a configuration, or one that should not be there.

    Find the host by its MAC address, and add it to the file if it belongs there.

    Packets over IP, except to multicast groups. Silent without `all-hosts = true` in a file, and for link-local addresses (fe80::, the
    first GID of every card) unless the file lists some.
    """

    code, name = "DRF010", "roce-unknown-host"
    reference = "RoCE Annex A17"
    message = "{host} {verb}, but is not in the file that lists all hosts"
    example = "a RoCE packet from 10.0.0.9, where a file lists all hosts without it"

    def values(self, table: ChunkTable, rows: Int, network: RoceNetwork) -> Int:
        return np.where((_dscp(table, rows) >= 0) & network.all_hosts, 0, -1)

    def faults(self, source: End, destination: End, value: int, network: RoceNetwork) -> Iterator[Fault]:
        from ipaddress import ip_address  # few captures come with a file of their hosts

        for end, verb, four, six in (
            (source, f"sends to {destination}", IPv4.source, IPv6.source),
            (destination, f"receives from {source}", IPv4.destination, IPv6.destination),
        ):
            told = network.link_local or not is_link_local(end)
            if told and not ip_address(end).is_multicast and network.host(end) is None:
                yield end, four if len(end) == 4 else six, str(end), network.lines["all-hosts"], {"verb": verb}


def _ip(end: End) -> type[IPv4] | type[IPv6]:
    return IPv4 if len(end) == 4 else IPv6
