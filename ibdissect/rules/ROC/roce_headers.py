"""Wrong headers of RoCE packets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.identity import Content, MacId, PairId, PKey
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, on_chunk
from ibdissect.rules.shared.accepted_after_all import MAX_PAIRS, AcceptedRule, pair_of, sent_again, sent_by, would_answer
from ibdissect.rules.shared.packet_flows import PACKET_FLOW, PacketRule
from ibdissect.transport.congestion import Congestion
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.encapsulation import ETHERTYPE_ROCE, ETHERTYPES_VLAN, UDP, Ethernet, IPv4, IPv6
from ibdissect.wire.expr import Where, present
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.numbers import BASE, GSI_Q_KEY
from ibdissect.wire.opcodes import CNP_OPCODE

DYNAMIC_PORTS = 0xC000
DEFAULT_PKEY = 0xFFFF
IS_ROCE = present(BTH) & ~present(LRH)


def _far_apart_4(table: ChunkTable) -> Bool:
    """Unicast between networks that share not even the first byte: no netmask makes them neighbours."""
    source, destination = table.values(IPv4.source)[:, 0], table.values(IPv4.destination)[:, 0]
    away: Bool = (source != destination) & (destination < 0xE0)
    return away


def _far_apart_6(table: ChunkTable) -> Bool:
    """Unicast between two /64 prefixes, neither of them link-local."""
    source, destination = table.values(IPv6.source), table.values(IPv6.destination)
    away: Bool = (source[:, :8] != destination[:, :8]).any(axis=1) & (destination[:, 0] != 0xFF)
    for address in (source, destination):
        away &= ~((address[:, 0] == 0xFE) & (address[:, 1] & 0xC0 == 0x80))
    return away


class SourcePort(Rule):
    """The UDP source port of a RoCE packet is outside the dynamic range.

    Senders put a hash of the flow into 0xC000 to 0xFFFF, by which switches spread flows over links. Firewall rules and counters may expect
    that range.

    Nothing, unless the load is spread badly; then check how the sender's driver chooses the port.
    """

    code, name, severity = "ROC003", "roce-srcport-range", INFO
    is_note = True
    reference = "Linux rdma_flow_label_to_udp_sport; soft-RoCE captures"
    when = (UDP.source_port < DYNAMIC_PORTS) & present(BTH)
    flow = (IPv4.source, IPv6.source, UDP.source_port)
    message = "UDP source port {source_port}, RoCE uses 49152 to 65535"
    example = "a RoCE v2 packet from UDP port 1234"


class CongestionNotification(PacketRule):
    """A congestion notification packet is malformed.

    The card finds the flow to slow down by the queue pair, and recognises a notification by PSN 0 and the BECN bit. It may ignore any
    other, and the congestion goes on.

    Look at the firmware of the card that sent it.
    """

    code, name, severity = "ROC009", "roce-cnp-malformed", ERROR
    reference = "RoCE Annex A17; kernel ib_pack.h"
    when = (BTH.opcode == CNP_OPCODE) & IS_ROCE & ((BTH.destqp == 0) | (BTH.psn != 0) | (BTH.becn == 0))
    message = "CNP to queue pair 0x{destqp:06x} with PSN {psn} and BECN {becn:d}: the queue pair must not be 0, PSN must be 0 and BECN 1"
    example = "a CNP with PSN 5"


class TimeToLive(AcceptedRule):
    """A RoCE packet to another network may not pass a router.

    A router drops a packet whose time to live (hop limit) expires. With 0 or 1 packets reach only neighbours; other connections fail after
    retries.

    Set the hop limit in the address handle or queue pair (64 or more). After the last router, 1 may be right.

    One packet is enough. Silent if its receiver answers the sender later, if only by a NAK: then it arrived. Silent, too, if packets with 1
    come back from there, so that no router is between both, or if its source MAC address sends for other hosts as well: that is a
    router's, perhaps the last one. An `info` for a datagram or UC, which nobody acknowledges, and where nothing goes to the sender: that
    may be behind the last router. An answer that is recorded in front of its request is not seen as one. A time to live of 0 is wrong
    anywhere.
    """

    code, name, severity = "ROC010", "roce-ttl-1", WARNING
    reference = "RFC 791, RFC 8200"
    when = (
        ((IPv4.ttl <= 1) & Where(IPv4, _far_apart_4)) | ((IPv6.hop_limit <= 1) & Where(IPv6, _far_apart_6))
        | (((IPv4.ttl == 0) | (IPv6.hop_limit == 0)) & IS_ROCE)
    )  # fmt: skip
    at, arrives = BTH.destqp, True
    message = "time to live {left} in a packet {where}"
    example = "a RoCE v2 packet from 10.0.0.1 to 192.168.0.2 with TTL 1"

    def __init__(self) -> None:
        super().__init__()
        self.senders = KeptDict[MacId, set[Content]](MAX_PAIRS, "source MAC addresses of packets with a time to live of 1")
        """By MAC address that sent such a packet, up to two source addresses of IPv4 or IPv6."""
        self.last_hop = KeptDict[PairId, None](MAX_PAIRS, "pairs with a time to live of 1")

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        left = seen.value(IPv4.ttl) if seen.first(IPv4) is not None else seen.value(IPv6.hop_limit)
        where = "to another network: the first router drops it" if left else "that nobody may send or forward"
        frame = seen.first(Ethernet)
        mac = MacId(bytes(frame.source) if frame is not None and left else b"")
        if mac.mac:
            self.senders.get_or_make(mac, set, seen.frame, seen.time_ns)
        if left:
            self.last_hop.keep(pair_of(seen), None, seen.frame, seen.time_ns)
        return {"left": left, "where": where, "mac": mac, **super().computed(seen, i)}

    @on_chunk
    def senders_of(self, table: ChunkTable, context: Context) -> None:
        """Which addresses a MAC address sends for that sent a packet with a time to live of 1."""
        if "udp" in table.located.start:
            table.once(context.get(Congestion).feed)
        for (mac,), sources in self.senders.items():
            if len(sources) > 1:
                continue
            rows = table.occurrences(Ethernet).rows[(table.values(Ethernet.source) == np.frombuffer(mac, np.uint8)).all(axis=1)]
            for field in (IPv4.source, IPv6.source):
                values = table.values_at(field, rows)
                sources.update(value.tobytes() for value in np.unique(values[values.any(axis=1)], axis=0)[: 2 - len(sources)])

    def stands(self, hit: Hit, context: Context) -> bool:
        mac = hit.arguments["mac"]
        unknown = mac.mac and mac not in self.senders  # there are too many
        if hit.arguments["left"] and (unknown or not self.last_hop.surely_lacks(hit.arguments["pair"].back)):
            return False
        return len(self.senders.get(mac, ())) < 2 and super().stands(hit, context)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info behind the last router, as it seems, or before the first one: nobody knows."""
        heard = any(to == hit.arguments["ends"][0] for _, to in context.get(Congestion).pairs)
        near = not hit.arguments["left"] or (heard and hit.arguments["acknowledged"])
        return super().severity_at_end(hit, context) if near else INFO


class RoceManagementQKey(Rule):
    """A RoCE datagram to queue pair 1 does not carry the well-known Q_Key.

    Queue pair 1 accepts Q_Key 0x80010000 only; the connection manager never sees the packet, and connecting times out.

    Correct the sender's driver.
    """

    code, name, severity = "ROC011", "roce-qp1-qkey-wrong", INFO
    reference = "python-rdma IB_DEFAULT_QP1_QKEY"
    when = (DETH.q_key != GSI_Q_KEY) & (BTH.destqp == 1) & IS_ROCE
    flow = (*PACKET_FLOW, DETH.q_key)
    message = "a packet to queue pair 1 has {q_key}, it accepts 0x80010000 only"
    example = "a RoCE management datagram with Q_Key 0"


class RocePKey(Rule):
    """A RoCE packet is in another partition than the default one.

    RoCE ports mostly hold only the default P_Key 0xFFFF, which accepts 0x7FFF of limited members, too; VLANs separate traffic instead. A
    receiver drops a packet of a partition that its port does not hold.

    Check the P_Key index in the application; it must be 0.

    One packet is enough. Silent if its receiver sends to its sender in that partition, too: then both ports hold it; and for the
    packets of a connection that was accepted in another partition (REQ and REP): CNX008 tells where they are not in that one. An `info`
    for a datagram or UC, which nobody acknowledges, where the capture shows no answer of the receiver to the sender, and where the sender
    does not send the packet again: ports may hold further partitions.
    """

    code, name, severity = "ROC012", "roce-pkey-nondefault", WARNING
    reference = "Shanley, default P_Key; soft-RoCE captures"
    when = IS_ROCE & ~(BTH.p_key & BASE).isin({0, DEFAULT_PKEY & BASE})
    at = BTH.p_key
    flow = (*PACKET_FLOW, BTH.p_key)
    alike = True
    needs = (Connections, Streams)
    message = "P_Key 0x{p_key:04x}, RoCE uses 0xffff"
    example = "a RoCE v2 packet with P_Key 0x8001"

    def __init__(self) -> None:
        self.pairs = KeptDict[tuple[PairId, PKey], None](MAX_PAIRS, "senders with a P_Key other than the default")
        """Senders and receivers, and the low 15 bits of the P_Key."""

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        pair, partition = pair_of(seen), seen.value(BTH.p_key) & BASE
        self.pairs.keep((pair, partition), None, seen.frame, seen.time_ns)
        return {"pair": pair, "partition": partition, **sent_by(seen)}

    def stands(self, hit: Hit, context: Context) -> bool:
        sender, receiver = hit.arguments["ends"]
        found = context.get(Connections).facing(sender, receiver, hit.arguments["qpn"], hit.frame)
        if found is not None and found[0].p_key & BASE not in (0, DEFAULT_PKEY & BASE):
            return False
        return self.pairs.surely_lacks((hit.arguments["pair"].back, hit.arguments["partition"]))

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        return super().severity_at_end(hit, context) if would_answer(hit, context) and sent_again(hit, context) else INFO


class Fragmented(AcceptedRule):
    """A RoCE packet was fragmented by IP.

    Cards do not reassemble fragments: the packet is lost, and the sender retransmits the same size until the connection fails.

    Make the path MTU of the queue pairs fit the smallest Ethernet MTU on the way, with 60 to 80 bytes to spare for headers.

    One packet is enough. Silent if its receiver answers the sender later: software (rxe) takes fragments. An `info` for a datagram or UC,
    which nobody acknowledges, and where the capture shows no answer of the receiver to the sender, or ends within a second. Of IPv4 only:
    what a fragment of IPv6 carries is not read, and CAP018 says so of a capture that holds nothing else.
    """

    code, name, severity = "ROC013", "roce-fragmented", WARNING
    reference = "RFC 791; RoCE senders set Don't Fragment"
    when = (IPv4.more_fragments == 1) & present(BTH)
    flow = (IPv4.source, IPv4.destination)
    needs = (Scopes, Streams)
    message = "a RoCE packet was split into IP fragments, of which this is the first: the receiver drops them"
    example = "a RoCE v2 packet with More Fragments set"

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        return super().severity_at_end(hit, context) if self.shown(hit, context) else INFO


class RoceVersion1(Rule):
    """The capture holds RoCE version 1.

    Version 1 (Ethertype 0x8915) cannot be routed. Peers that support only version 2 do not receive it.

    Let the application or `cma_roce_mode` choose a GID of type RoCE v2, if both sides support it.
    """

    code, name, severity = "ROC015", "roce-v1-seen", INFO
    reference = "Ethertype 0x8915"
    when = present(BTH) & ~present(UDP) & (Ethernet.type.isin({ETHERTYPE_ROCE, *ETHERTYPES_VLAN}))
    flow = (Ethernet.source, Ethernet.destination)
    message = "RoCE version 1 (Ethertype 0x8915), which cannot be routed"
    example = "an Ethernet frame of type 0x8915"
