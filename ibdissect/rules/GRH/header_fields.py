"""Wrong fields of the global route header (GRH)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.addresses import ends_at
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.identity import GroupId, Guid, LidId
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen
from ibdissect.rules.LNK.header_fields import GLOBAL, LOCAL, length_disagrees
from ibdissect.rules.shared.accepted_after_all import AcceptedRule
from ibdissect.rules.shared.packet_flows import gid_bytes, is_ipoib
from ibdissect.subnet import ROUTER, FabricFollower
from ibdissect.transport.multicast import Multicast
from ibdissect.wire.encapsulation import Ethernet
from ibdissect.wire.expr import Where, present
from ibdissect.wire.headers import BTH, GRH, LRH
from ibdissect.wire.numbers import FIRST_MULTICAST, LAST_MULTICAST, LINK_LOCAL
from ibdissect.wire.opcodes import MANUFACTURER
from ibdissect.wire.spec import Field

SCOPES = frozenset({0x1, 0x2, 0x3, 0x4, 0x5, 0x8, 0xE})
"""Interface, link, realm, administration, site, organisation, global: those of IPv6, which groups of IP over InfiniBand have (RFC 4391)."""
ZERO = bytes(16)
MAX_SENDERS, SEVERAL = 4096, 2
# In captures of IP over InfiniBand the 40 bytes before a datagram are undefined if it came without a GRH.
REAL = present(LRH) | present(Ethernet)
GID_FLOW: tuple[Field[Any], ...] = (GRH.sgid, GRH.dgid)


def _leaves_subnet(table: ChunkTable) -> Bool:
    """Unicast between two subnet prefixes, neither of them link-local (which stands for any subnet's own)."""
    source, destination = table.values(GRH.sgid), table.values(GRH.dgid)
    one, other = extract(source, 0, 64), extract(destination, 0, 64)
    away: Bool = (one != other) & (one != LINK_LOCAL) & (other != LINK_LOCAL) & (destination[:, 0] != 0xFF)
    return away


class GidRule(Rule):
    """Base of rules with one finding per pair of GIDs."""

    flow = GID_FLOW


class IpVersion(GidRule):
    """The IP version of the global route header is not 6.

    The GRH has the format of an IPv6 header. Routers and receivers drop a packet with another version.

    Check the CRCs: if they are right, the sender is faulty; otherwise the packet was damaged.
    """

    code, name, severity = "GRH001", "grh-version-not-6", ERROR
    reference = "IBA 8.3"
    when = (GRH.ipver != 6) & REAL
    message = "IP version {ipver} in a GRH, it must be 6"
    example = "a packet with IPVer 4"


class NextHeader(GidRule):
    """The global route header of an InfiniBand packet is not followed by a transport header.

    With LNH 3 the next header must be 0x1B, or the receiver drops the packet. Plain IPv6 over the link is LNH 1.

    Find the sender: something put an IPv6 packet on the link with the wrong LNH.
    """

    code, name, severity = "GRH002", "grh-no-transport-header", ERROR
    reference = "IBA 8.3"
    when = (GRH.nxt_hdr != 0x1B) & ((LRH.lnh == GLOBAL) | present(Ethernet))
    message = "next header 0x{nxt_hdr:02x} in a GRH, the InfiniBand transport is 0x1b"
    example = "a packet with NxtHdr 17"


class PayloadLength(Rule):
    """The length in the global route header does not match the packet.

    PayLen counts from the BTH to the ICRC. Routers forward by it, and a receiver drops a packet whose two lengths disagree.

    Find the sender; one that counts the GRH itself is 40 bytes off.
    """

    code, name, severity = "GRH003", "grh-length-wrong", ERROR
    reference = "IBA 8.3; 6 of 6 frames of a public capture have PktLen * 4 - 48"
    when = (GRH.pay_len != LRH.pktlen * 4 - 48) & (LRH.lnh == GLOBAL) & ~Where(LRH, length_disagrees)
    flow = (*GID_FLOW, GRH.pay_len)
    message = "PayLen is {pay_len:byte} and PktLen {LRH.pktlen} words of 4: PktLen must be 48 bytes more"
    example = "a packet whose PayLen is 4 bytes too large"


class HopLimit(AcceptedRule):
    """A packet to another subnet may not pass a router.

    A router decrements the hop limit and drops the packet at 0. With 0 or 1 at the sender, it never leaves the subnet.

    Take the hop limit from the path record (OpenSM gives 255 between subnets). After the last router, 1 may be right.

    One packet is enough. Silent where a router has forwarded it: if it comes from the LID of a router, or from a LID that sends so for
    several ports, or goes to a port with the destination's prefix, or if its receiver answers the sender later, if only by a NAK. An
    `info` for a hop limit of 1 where no PortInfo shows that the sending port has the source's prefix: that may be behind the last router.
    Silent on Ethernet, where no router takes part.
    """

    code, name, severity = "GRH004", "grh-hoplimit-zero-routed", WARNING
    reference = "opensm IB_HOPLIMIT_MAX"
    when = (GRH.hop_lmt <= 1) & present(LRH) & Where(GRH, _leaves_subnet)
    at, flow, arrives = GRH.hop_lmt, GID_FLOW, True
    needs = (FabricFollower,)
    message = "hop limit {hop_lmt} from {sgid} to {dgid} in another subnet: the first router drops the packet"
    example = "a packet between two subnet prefixes with hop limit 1"

    def __init__(self) -> None:
        super().__init__()
        self.senders = KeptDict[LidId, set[Guid]](MAX_SENDERS, "senders to other subnets")
        """The ports whose packets come from a LID."""

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        sgid, dgid = (seen.table.values(gid)[i].tobytes() for gid in (GRH.sgid, GRH.dgid))
        slid, hop_limit = seen.value(LRH.slid), seen.value(GRH.hop_lmt)
        ports = self.senders.get_or_make(LidId(slid), set, seen.frame, seen.time_ns)
        if ports is not None and hop_limit and len(ports) < SEVERAL:
            ports.add(Guid(int.from_bytes(sgid[8:], "big")))
        there, here = (int.from_bytes(gid[:8], "big") for gid in (dgid, sgid))
        about = {"slid": slid, "dlid": seen.value(LRH.dlid), "prefix": there, "own": here, "hops": hop_limit}
        return {**about, **super().computed(seen, i)}

    def stands(self, hit: Hit, context: Context) -> bool:
        about = hit.arguments
        sender = context.get(FabricFollower).subnet.owner(about["slid"], hit.frame)[0]
        arrived = self._has(context, hit, "dlid", about["prefix"])
        forwarded = arrived or len(self.senders.get(LidId(about["slid"]), ())) >= SEVERAL or not super().stands(hit, context)
        return not (about["hops"] and forwarded) and (sender is None or sender.node.kind != ROUTER)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info where a router may have sent it."""
        near = not hit.arguments["hops"] or self._has(context, hit, "slid", hit.arguments["own"])
        return super().severity_at_end(hit, context) if near else INFO

    @staticmethod
    def _has(context: Context, hit: Hit, end: str, prefix: int) -> bool:
        """Whether the port at one end is known to have a subnet prefix."""
        port = context.get(FabricFollower).subnet.owner(hit.arguments[end], hit.frame)[0]
        info = port.info_at(hit.frame)[0] if port is not None else None
        return info is not None and info.gid_prefix == prefix


class SourceGidMulticast(GidRule):
    """The source GID is a multicast GID.

    A packet comes from one port. Nobody can answer this one, and access rules by GID do not apply.

    Find the sender by its LID; its address handle has source and destination swapped.
    """

    code, name, severity = "GRH005", "grh-sgid-multicast", ERROR
    reference = "IBA 4.1.1; opensm MGID rules"
    when = gid_bytes(GRH.sgid, lambda gid: gid[:, 0] == 0xFF) & REAL
    message = "the source GID {sgid} is a multicast GID"
    example = "a packet with source GID ff12::1"


class SourceGidZero(GidRule):
    """The source GID is zero.

    The zero GID is reserved. An answer that needs a GRH has nowhere to go.

    Check the GID index that the sender used: an unused entry of the GID table is zero.
    """

    code, name, severity = "GRH006", "grh-sgid-zero", ERROR
    reference = "IBA 4.1.1; python-rdma ZERO_GID"
    when = (GRH.sgid == ZERO) & REAL
    message = "the source GID is zero"
    example = "a packet with source GID ::"


class DestinationGidZero(GidRule):
    """The destination GID is zero.

    The zero GID is reserved; receivers and routers drop the packet.

    Check how the sender resolved its peer; a path record that was never filled in causes this.
    """

    code, name, severity = "GRH007", "grh-dgid-zero", ERROR
    reference = "IBA 4.1.1; python-rdma ZERO_GID"
    when = (GRH.dgid == ZERO) & REAL
    message = "the destination GID is zero"
    example = "a packet with destination GID ::"


class MulticastWithoutGrh(Rule):
    """A multicast packet has no global route header.

    Several groups may share a LID, and the receiver tells them apart by the destination GID. It drops a packet without a GRH.

    Set the GRH in the sender's address handle (is_global); it is required for multicast.
    """

    code, name, severity = "GRH008", "mcast-without-grh", ERROR
    reference = "every multicast frame of public captures carries a GRH"
    when = LRH.dlid.between(FIRST_MULTICAST, LAST_MULTICAST) & (LRH.lnh == LOCAL) & (BTH.opcode < MANUFACTURER)
    flow = (LRH.slid, LRH.dlid)
    message = "a packet to multicast LID 0x{dlid:04x} without a GRH"
    example = "a UD packet to LID 0xC001 with LNH 2"


class _GroupGid(GidRule):
    """Base of rules about the GID of a group; a group that the subnet administration has made is one, whatever its GID."""

    needs = (Multicast,)

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"group": GroupId(seen.table.values(GRH.dgid)[i].tobytes(), ends_at(seen.table, seen.row)[0].network)}

    def stands(self, hit: Hit, context: Context) -> bool:
        return hit.arguments["group"] not in context.get(Multicast).groups


class MulticastFlags(_GroupGid):
    """A multicast GID uses reserved flags.

    Of the four flags only the last (transient) has a meaning. A subnet manager creates no group with others, so nobody has joined this one.

    Compare the group with those of `saquery -g`; correct the application that composed it.

    One packet is enough. Silent if an MCMemberRecord shows the group, and on Ethernet, whose IPv6 has other flags.
    """

    code, name, severity = "GRH010", "mgid-flags-reserved", WARNING
    reference = "opensm osm_sa_mcmember_record (o15-0.1.x)"
    when = present(LRH) & gid_bytes(GRH.dgid, lambda gid: (gid[:, 0] == 0xFF) & (gid[:, 1] & 0xE0 != 0) & ~is_ipoib(gid))
    message = "the multicast GID {dgid} has reserved flags; after ff only 0 (permanent) and 1 (transient) are in use"
    example = "a packet to ff92::1"


class MulticastScope(_GroupGid):
    """A multicast GID has a scope that does not exist.

    Scopes are link (2), realm (3), administration (4), site (5), organisation (8) and global (E). Routers do not know a group with another
    one.

    Correct the application that composed the group's address.

    One packet is enough. Silent if an MCMemberRecord shows the group, and on Ethernet, whose IPv6 has other scopes.
    """

    code, name, severity = "GRH011", "mgid-scope-invalid", WARNING
    reference = "IBA 4.1.1; RFC 3513 2.7; RFC 7346 2; opensm scopes"
    when = present(LRH) & gid_bytes(GRH.dgid, lambda gid: (gid[:, 0] == 0xFF) & ~np.isin(gid[:, 1] & 0x0F, list(SCOPES)))
    message = "the multicast GID {dgid} has a scope (its fourth digit) that does not exist; scopes are 1 to 5, 8 and e"
    example = "a packet to ff16::1"
