"""Which attribute modifiers or attributes do not fit the switch or adapter they address?"""

from __future__ import annotations

from ibdissect.fabric import SWITCH
from ibdissect.fabric.earlier_answers import AttributeSmp, AttributeSmps, SwitchInfos, others
from ibdissect.lint.rule import ERROR, WARNING, FaultDetails
from ibdissect.rules.AM.targets import ADAPTERS, TargetRule
from ibdissect.rules.shared.attribute_rule import Mask, beyond, of_switch
from ibdissect.wire.numbers import FIRST_MULTICAST, LINEAR, MULTICAST, RANDOM

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
    message = "{method}(LinearForwardingTable) of block {modifier} at {node}, whose table has {cap} entries"
    example = "SwitchInfo.LinearFDBCap 1024, then SubnSet(LinearForwardingTable) with AttributeModifier 767"
    source = others(LINEAR)

    def candidates(self, smps: AttributeSmps) -> Mask:
        of_lid = smps.modifier * LFT_BLOCK
        return beyond(smps, of_lid, of_switch(smps, lambda switch: switch.linear_fdb_cap)) | (of_lid >= FIRST_MULTICAST)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        switch, since = smp.switch
        cap = switch.linear_fdb_cap if switch is not None else 0
        if cap and smp.modifier * LFT_BLOCK >= cap:
            return {"cap": cap}, ((since, f"SwitchInfo: LinearFDBCap {cap}"),)
        beyond_all = smp.modifier * LFT_BLOCK >= FIRST_MULTICAST and smp.node.kind not in ADAPTERS  # there it is AM018
        return ({"cap": f"at most {FIRST_MULTICAST}"}, ()) if beyond_all else None


class MftBlockRange(TargetRule):
    """A MulticastForwardingTable request names a block beyond the end of the table.

    The switch has MulticastFDBCap entries, none if it is 0; it does not forward groups beyond that.

    Limit the multicast LIDs of the subnet manager to what the smallest switch holds (opensm: `max_multicast_lid`).
    """

    code, name, severity = "AM021", "mft-block-range", ERROR
    reference = "IBA 14.2.5.12"
    message = "{method}(MulticastForwardingTable) of block {block} at {node}, whose table has {cap} entries"
    example = "SwitchInfo.MulticastFDBCap 1024, then SubnGet(MulticastForwardingTable) with AttributeModifier 511"
    source = others(MULTICAST)

    def candidates(self, smps: AttributeSmps) -> Mask:
        none = (smps.kind == SWITCH) & (of_switch(smps, lambda switch: switch.multicast_fdb_cap) == 0)
        return none | beyond(smps, (smps.modifier & 0x1FF) * MFT_BLOCK, of_switch(smps, lambda switch: switch.multicast_fdb_cap))

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        (switch, since), block = smp.switch, smp.modifier & 0x1FF
        cap = switch.multicast_fdb_cap if switch is not None else 0
        if switch is None or smp.node.kind != SWITCH or block * MFT_BLOCK < cap:
            return None
        return {"block": block, "cap": cap}, ((since, f"SwitchInfo: MulticastFDBCap {cap}"),)


class RftBlockRange(TargetRule):
    """A RandomForwardingTable request names a block beyond the end of the table.

    The switch has RandomFDBCap entries, 16 to a block; what is written behind them is lost.

    Let the sender read RandomFDBCap first.
    """

    code, name, severity = "AM035", "rft-block-range", ERROR
    reference = "IBA 14.2.5.11"
    message = "{method}(RandomForwardingTable) of block {modifier} at {node}, whose table has {cap} entries"
    example = "SwitchInfo.RandomFDBCap 64, then SubnSet(RandomForwardingTable) with AttributeModifier 4"
    source = others(RANDOM)

    def candidates(self, smps: AttributeSmps) -> Mask:
        return beyond(smps, smps.modifier * RFT_BLOCK, of_switch(smps, lambda switch: switch.random_fdb_cap))

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        switch, since = smp.switch
        cap = switch.random_fdb_cap if switch is not None else 0
        return ({"cap": cap}, ((since, f"SwitchInfo: RandomFDBCap {cap}"),)) if cap and smp.modifier * RFT_BLOCK >= cap else None


class MftPositionRange(TargetRule):
    """A MulticastForwardingTable request names ports that the switch does not have.

    Each position stands for 16 ports. A position beyond the last port holds nothing.

    Compare the number of ports that the sender assumes with NodeInfo.NumPorts.
    """

    code, name, severity = "AM022", "mft-position-range", WARNING
    reference = "IBA 14.2.5.12; opensm"
    message = "{method}(MulticastForwardingTable) of position {position} at {node}: with {ports} ports the last position is {last}"
    example = "NodeInfo.NumPorts 8, then SubnGet(MulticastForwardingTable) with AttributeModifier 0x50000000"
    source, bits = others(MULTICAST), 0xF0000000

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        node, position = smp.node, smp.modifier >> 28
        if node.kind != SWITCH:
            return None
        facts, since = node.facts_at(smp.frame)
        last = -(-(facts.num_ports + 1) // MFT_PORTS) - 1
        if position <= last:
            return None
        return {"position": position, "ports": facts.num_ports, "last": last}, ((since, f"NodeInfo: {facts.num_ports} ports"),)


class SwitchInfoToAdapter(TargetRule):
    """A SwitchInfo request goes to a node that is not a switch.

    Only a switch's management port has a SwitchInfo; an adapter or router answers with an error status or not at all.

    The sender takes the node for a switch: look for an outdated topology file, or a LID or route that now leads to another node.
    """

    code, name, severity = "AM004", "switchinfo-nonswitch", WARNING
    reference = "IBA 14.2.5.4"
    message = "{method}(SwitchInfo) to {node}, which is no switch"
    example = "NodeInfo says channel adapter, then SubnGet(SwitchInfo) to it"
    source, bits, wrong_at = SwitchInfos, 0, ADAPTERS


class ForwardingToAdapter(TargetRule):
    """A forwarding table is requested from a node that is not a switch.

    Only switches forward. The request is answered with an error status or not at all.

    The sender takes the node for a switch: look for an outdated topology file, or a LID or route that now leads to another node.
    """

    code, name, severity = "AM018", "lft-to-ca", WARNING
    reference = "IBA 14.2.5.10"
    message = "{method}({attribute}) to {node}, which is no switch"
    example = "NodeInfo says channel adapter, then SubnGet(LinearForwardingTable) to it"
    source, bits, wrong_at = others(LINEAR, RANDOM, MULTICAST), 0, ADAPTERS


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

    def candidates(self, smps: AttributeSmps) -> Mask:
        random = of_switch(smps, lambda switch: switch.random_fdb_cap)
        return (smps.attribute == RANDOM) | (random > 0) | smps.changed

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        switch, since = smp.switch
        if switch is None:
            return None
        linear, random = switch.linear_fdb_cap, switch.random_fdb_cap
        if not (linear and not random if smp.attribute == RANDOM else random and not linear):
            return None  # a switch that offers both, or neither, contradicts SwitchInfo's own rule, not this one
        return {"linear": linear, "random": random}, ((since, "SwitchInfo"),)
