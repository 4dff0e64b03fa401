"""IP and MAC addresses that no sender has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.identity import Content, MacId
from ibdissect.lint.rule import ERROR, WARNING, Context, Hit, Seen, on_chunk
from ibdissect.rules.shared.accepted_after_all import MAX_PAIRS
from ibdissect.rules.shared.packet_flows import PacketRule, of_several_hosts
from ibdissect.wire.encapsulation import Ethernet, IPv4, IPv6
from ibdissect.wire.expr import Where
from ibdissect.wire.headers import BTH
from ibdissect.wire.text import gid_text

from .roce_headers import IS_ROCE

MULTICAST_6 = 0xFF
"""The first byte of IPv6's multicast addresses."""
GROUP_MAC = 1
"""The bit of a MAC address's first byte that tells groups."""


def _no_sender_4(table: ChunkTable) -> Bool:
    """0.0.0.0, multicast or broadcast as the source."""
    source = table.values(IPv4.source)
    none: Bool = ~source.any(axis=1) | of_several_hosts(source)
    return none


def _no_sender_6(table: ChunkTable) -> Bool:
    source = table.values(IPv6.source)
    none: Bool = ~source.any(axis=1) | (source[:, 0] == MULTICAST_6)
    return none


class NoSender(PacketRule):
    """The source address of a RoCE packet is no host's: zero, multicast or broadcast.

    Nobody can answer, so connections and address resolution fail.

    Check the GID index of the sender: an entry without an address has 0.0.0.0.
    """

    code, name, severity = "ROC016", "roce-source-address-impossible", ERROR
    reference = "RFC 1122 3.2.1.3, RFC 4291 2.5.2"
    when = (Where(IPv4, _no_sender_4) | Where(IPv6, _no_sender_6)) & IS_ROCE
    at = BTH.destqp
    message = "the source address {address} is that of no host"
    example = "a RoCE v2 packet from 0.0.0.0"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        four, six = seen.first(IPv4), seen.first(IPv6)
        if four is not None:
            return {"address": ".".join(map(str, four.source))}
        return {"address": gid_text(six.source) if six is not None else ""}


def _no_sender_mac(table: ChunkTable) -> Bool:
    """Zero, or with the bit of groups. On the loopback interface both addresses are zero."""
    source = table.values(Ethernet.source)
    none: Bool = source[:, 0] & GROUP_MAC != 0
    maybe = np.flatnonzero(source[:, -1] == 0)
    none[maybe] |= ~source[maybe].any(axis=1) & table.values(Ethernet.destination)[maybe].any(axis=1)
    return none


MANY_MACS = 4
"""A host has fewer MAC addresses for one IP address: a bond has one for each link."""


class NoSenderMac(PacketRule):
    """The source MAC address of a RoCE frame is no interface's: zero, or a group's.

    Switches drop such frames or learn nothing from them, so that answers flood the network or do not arrive. Drivers that build the
    Ethernet header of a datagram from an address handle without its own address send it.

    Update the sender's driver; check the address of the interface that its GID index belongs to.

    One frame is enough. Silent where the destination is zero as well, as on the loopback interface, and for an IP address that sends from
    four and more: some taps put the time of a frame there.
    """

    code, name, severity = "ROC017", "roce-source-mac-impossible", WARNING
    reference = "IEEE 802.3 3.2.3, 802.1Q 8.7"
    when = Where(Ethernet, _no_sender_mac) & IS_ROCE
    at = BTH.destqp
    message = "the source MAC address {address} is that of no interface"
    example = "a RoCE v2 frame from 00:00:00:00:00:00"

    def __init__(self) -> None:
        self.senders = KeptDict[Content, set[MacId]](MAX_PAIRS, "senders without a MAC address of their own")
        """By IP address that sent such a frame, up to four MAC addresses from which it sends."""

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        frame, four, six = seen.first(Ethernet), seen.first(IPv4), seen.first(IPv6)
        sender = Content(bytes(four.source) if four is not None else bytes(six.source) if six is not None else b"")
        if sender:
            self.senders.get_or_make(sender, set, seen.frame, seen.time_ns)
        return {"address": bytes(frame.source).hex(":") if frame is not None else "", "sender": sender}

    @on_chunk
    def addresses(self, table: ChunkTable, _context: Context) -> None:
        """From which MAC addresses do the senders send?"""
        for sender, macs in self.senders.items():
            field = IPv4.source if len(sender) == 4 else IPv6.source
            if len(macs) >= MANY_MACS:
                continue
            rows = table.occurrences(field.owner).rows[(table.values(field) == np.frombuffer(sender, np.uint8)).all(axis=1)]
            values = np.unique(table.values_at(Ethernet.source, rows), axis=0)[: MANY_MACS + len(macs)]
            macs.update(MacId(value.tobytes()) for value in values)

    def stands(self, hit: Hit, context: Context) -> bool:
        sender = hit.arguments["sender"]
        unknown = sender and sender not in self.senders  # there are too many
        return not unknown and len(self.senders.get(sender, ())) < MANY_MACS
