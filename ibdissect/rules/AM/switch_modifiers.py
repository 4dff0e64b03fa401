"""Attribute modifiers and attributes that do not fit the switch or adapter they address."""

from __future__ import annotations

from typing import ClassVar

from ibdissect.lint.rule import ERROR, WARNING
from ibdissect.lint.sequence import previous
from ibdissect.rules.AM.targets import TargetRule
from ibdissect.rules.shared.attribute_rule import OF_ADAPTER, OF_SWITCH, Fault
from ibdissect.subnet.earlier_answers import SwitchInfos, others
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import FIRST_MULTICAST, LINEAR, MULTICAST, RANDOM
from ibdissect.wire.sm import NodeInfo, SwitchInfo

LFT_BLOCK, MFT_BLOCK, MFT_PORTS, RFT_BLOCK = 64, 32, 16, 16
"""Entries of a block: LIDs, multicast LIDs, ports of a position, LIDs of a random table."""


class LftBlockRange(TargetRule):
    """A LinearForwardingTable request names a block beyond the end of the table.

    The switch has LinearFDBCap entries; it cannot route LIDs beyond that, and what is written there is lost.

    If the LIDs really are that high, assign lower ones (opensm: reset the guid2lid file); otherwise correct the sender.

    The request; for blocks up to 767, the last of unicast LIDs, also the LinearFDBCap that the switch answered before.
    """

    code, name, severity = "AM017", "lft-block-range", ERROR
    reference = "IBA 14.2.5.10; opensm"
    message = "{method}(LinearForwardingTable) of block {modifier} at {node}, whose table has {what} entries"
    example = "SwitchInfo.LinearFDBCap 1024, then SubnSet(LinearForwardingTable) with AttributeModifier 767"
    source = others(LINEAR)
    lid, cap = MAD.attribute_modifier * LFT_BLOCK, previous(SwitchInfo.linear_fdb_cap)
    faults = (
        Fault((lid >= cap) & (cap > 0), "{cap}", "SwitchInfo: LinearFDBCap {cap}"),
        Fault((lid >= FIRST_MULTICAST) & ~OF_ADAPTER, f"at most {FIRST_MULTICAST}"),  # there it is AM018
    )
    says: ClassVar = {"cap": cap}


class MftBlockRange(TargetRule):
    """A MulticastForwardingTable request names a block beyond the end of the table.

    The switch has MulticastFDBCap entries, none if it is 0; it does not forward groups beyond that.

    Limit the multicast LIDs of the subnet manager to what the smallest switch holds (opensm: `max_multicast_lid`).
    """

    code, name, severity = "AM021", "mft-block-range", ERROR
    reference = "IBA 14.2.5.12"
    message = "{method}(MulticastForwardingTable) of block {block} at {node}, whose table has {cap:entry}"
    example = "SwitchInfo.MulticastFDBCap 1024, then SubnGet(MulticastForwardingTable) with AttributeModifier 511"
    source = others(MULTICAST)
    block, cap = MAD.attribute_modifier & 0x1FF, previous(SwitchInfo.multicast_fdb_cap)
    when = (block * MFT_BLOCK >= cap) & OF_SWITCH
    says: ClassVar = {"block": block, "cap": cap}
    why = "SwitchInfo: MulticastFDBCap {cap}"


class RftBlockRange(TargetRule):
    """A RandomForwardingTable request names a block beyond the end of the table.

    The switch has RandomFDBCap entries, 16 to a block; what is written behind them is lost.

    Let the sender read RandomFDBCap first.
    """

    code, name, severity = "AM035", "rft-block-range", ERROR
    reference = "IBA 14.2.5.11"
    message = "{method}(RandomForwardingTable) of block {modifier} at {node}, whose table has {cap:entry}"
    example = "SwitchInfo.RandomFDBCap 64, then SubnSet(RandomForwardingTable) with AttributeModifier 4"
    source = others(RANDOM)
    cap = previous(SwitchInfo.random_fdb_cap)
    when = (cap > 0) & (MAD.attribute_modifier * RFT_BLOCK >= cap)
    says: ClassVar = {"cap": cap}
    why = "SwitchInfo: RandomFDBCap {cap}"


class MftPositionRange(TargetRule):
    """A MulticastForwardingTable request names ports that the switch does not have.

    Each position stands for 16 ports. A position beyond the last port holds nothing.

    Compare the number of ports that the sender assumes with NodeInfo.NumPorts.
    """

    code, name, severity = "AM022", "mft-position-range", WARNING
    reference = "IBA 14.2.5.12; opensm"
    message = "{method}(MulticastForwardingTable) of position {position} at {node}: with {ports:port} the last position is {last}"
    example = "NodeInfo.NumPorts 8, then SubnGet(MulticastForwardingTable) with AttributeModifier 0x50000000"
    source = others(MULTICAST)
    position, held = MAD.attribute_modifier >> 28, previous(NodeInfo.num_ports)
    when = (position * MFT_PORTS > held) & OF_SWITCH
    says: ClassVar = {"position": position, "ports": held, "last": held >> 4}
    why = "NodeInfo: {ports} ports"


class SwitchInfoToAdapter(TargetRule):
    """A SwitchInfo request goes to a node that is not a switch.

    Only a switch's management port has a SwitchInfo; an adapter or router answers with an error status or not at all.

    The sender takes the node for a switch: look for an outdated topology file, or a LID or route that now leads to another node.
    """

    code, name, severity = "AM004", "switchinfo-nonswitch", WARNING
    reference = "IBA 14.2.5.4"
    message = "{method}(SwitchInfo) to {node}, which is no switch"
    example = "NodeInfo says channel adapter, then SubnGet(SwitchInfo) to it"
    source, when = SwitchInfos, OF_ADAPTER


class ForwardingToAdapter(TargetRule):
    """A forwarding table is requested from a node that is not a switch.

    Only switches forward. The request is answered with an error status or not at all.

    The sender takes the node for a switch: look for an outdated topology file, or a LID or route that now leads to another node.
    """

    code, name, severity = "AM018", "lft-to-ca", WARNING
    reference = "IBA 14.2.5.10"
    message = "{method}({attribute}) to {node}, which is no switch"
    example = "NodeInfo says channel adapter, then SubnGet(LinearForwardingTable) to it"
    source, when = others(LINEAR, RANDOM, MULTICAST), OF_ADAPTER


class WrongForwardingTable(TargetRule):
    """A request is for the kind of unicast forwarding table that the switch does not have.

    A switch has either a linear or a random forwarding table, as SwitchInfo says. Writing the other one has no effect.

    Let the sender read LinearFDBCap and RandomFDBCap first.
    """

    code, name, severity = "AM019", "rft-unsupported", ERROR
    reference = "IBA 14.2.5.4"
    message = "{method}({attribute}) to {node}, which has LinearFDBCap {linear} and RandomFDBCap {random}"
    example = "SwitchInfo.LinearFDBCap 1024, then SubnGet(RandomForwardingTable)"
    source = others(LINEAR, RANDOM)
    linear, random = previous(SwitchInfo.linear_fdb_cap), previous(SwitchInfo.random_fdb_cap)
    # a switch that offers both, or neither, contradicts SwitchInfo's own rule, not this one
    when = ((MAD.attribute_id == RANDOM) & (linear > 0) & (random == 0)) | ((MAD.attribute_id == LINEAR) & (random > 0) & (linear == 0))
    says: ClassVar = {"linear": linear, "random": random}
    why = "SwitchInfo"
