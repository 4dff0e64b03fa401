"""Attribute modifiers that are wrong for the port they address."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, FaultDetails, Hit
from ibdissect.lint.sequence import previous
from ibdissect.rules.AM.targets import TargetRule, kind_of
from ibdissect.rules.shared.attribute_rule import OF_ADAPTER, OF_SWITCH, Fault, Mask, adapters, of_node
from ibdissect.rules.shared.mad_conditions import NamesRequest
from ibdissect.subnet import SWITCH
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.earlier_answers import PKeyTables, PortInfos, others
from ibdissect.wire.mad import MAD, METHODS
from ibdissect.wire.numbers import GET, GUID_INFO, NODE_INFO, PM_CLASS, PORT_INFO, SL_TO_VL, VENDOR_DIAG, VL_ARBITRATION
from ibdissect.wire.sm import NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo

GUID_BLOCK = 8
"""GUIDs of a block."""
VLARB_HALF = 32
OF_PORTS, NO_PORT_ZERO = "NodeInfo: {ports} ports", "SwitchInfo: EnhancedPortZero 0"
"""What proves that a switch lacks a port."""
NO_TABLE = "port 0 has no output table"
PAGE_MAX = 0xFFFF
COUNTERS = frozenset({0x12, *range(0x15, 0x1E), 0x1F, *range(0x30, 0x38)})
"""Performance attributes that hold counters."""


class GuidBlockRange(TargetRule):
    """A GUIDInfo request names a block that the port does not have.

    A port has GUIDCap GUIDs, in at most 32 blocks of eight. A block beyond reads as zeros or as an error, and writes to it are lost.

    Let the sender read PortInfo.GUIDCap first.

    The request; for blocks up to 31 also the port's GUIDCap, answered before.
    """

    code, name, severity = "AM005", "guidinfo-block-range", ERROR
    reference = "IBA 14.2.5.5"
    message = "{method}(GUIDInfo) of block {modifier} at {node}: the last block is {what}"
    example = "SubnGet(GUIDInfo) with AttributeModifier 40"
    source = others(GUID_INFO)
    cap = previous(PortInfo.guid_cap)
    faults = (
        Fault((MAD.attribute_modifier * GUID_BLOCK >= cap) & (cap > 0), "{last}", "GUIDCap {cap}"),
        Fault(MAD.attribute_modifier > 31, "31"),
    )
    says: ClassVar = {"cap": cap, "last": (cap - 1) >> 3}


class PortInfoRange(TargetRule):
    """A PortInfo request names a port that the node does not have.

    The node answers with an error status or nothing. A subnet manager that asks for such a port has a wrong picture of the node.

    Compare the number of ports that the sender assumes with NodeInfo.NumPorts.
    """

    code, name, severity = "AM007", "portinfo-am-port-range", ERROR
    reference = "IBA 14.2.5.6"
    message = "{method}(PortInfo) of port {port} at {node}, which has {ports:port}"
    example = "NodeInfo says 36 ports, then SubnGet(PortInfo) with AttributeModifier 40"
    source = PortInfos
    number, ports_of_node = MAD.attribute_modifier & 0xFF, previous(NodeInfo.num_ports)
    when = (ports_of_node > 0) & (number > ports_of_node)
    says: ClassVar = {"port": number, "ports": ports_of_node}
    why = OF_PORTS


class PortInfoOtherPort(TargetRule):
    """A Set(PortInfo) reaches an adapter through one port but selects another.

    Through one port of an adapter or router, the PortInfo of its other ports can be read but not written; the Set has no effect.

    Send the Set to the port itself, with modifier 0 or its own number.
    """

    code, name, severity = "AM008", "portinfo-set-other-port", ERROR
    reference = "IBA 14.2.5.6"
    message = "Set(PortInfo) of port {port} reaches {node}: an adapter lets a port be set only through itself"
    example = "Set(PortInfo) with AttributeModifier 2 to port 1 of a channel adapter"
    source, read = PortInfos, (NODE_INFO,)

    def candidates(self, smps: AttributeSmps) -> Mask:
        number = smps.modifier & 0xFF
        return smps.sets & adapters(smps) & (number != 0) & (number != smps.entered)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        known = 0 < smp.entered <= smp.node.facts_at(smp.frame)[0].num_ports  # any other LocalPortNum names no port
        return ({"port": smp.modifier & 0xFF}, kind_of(smp.node)) if known else None


class PKeyTablePort(TargetRule):
    """A P_KeyTable request selects a switch port, but the node is not a switch.

    An adapter or router ignores bits 31-16 and answers for the port through which the request came. The sender may take the answer for
    another port's table.

    Nothing if the sender is OpenSM or smpquery, which do so on purpose; otherwise use modifier bits 15-0 only.
    """

    code, name, severity = "AM011", "pkey-switch-port-on-ca", INFO
    reference = "IBA 14.2.5.7"
    message = "{method}(P_KeyTable) with port {port} in the modifier to {node}, which ignores it"
    example = "SubnGet(P_KeyTable) with AttributeModifier 0x10000 to a channel adapter"
    source = PKeyTables
    when = OF_ADAPTER & (MAD.attribute_modifier > 0xFFFF)
    says: ClassVar = {"port": MAD.attribute_modifier >> 16}


class SlToVlReserved(TargetRule):
    """An SLtoVLMappingTable request has modifier bits that mean nothing to the switch, or names ports that it does not have.

    Bits 15-8 are the input port, 7-0 the output port. Bits 17 and 16 (all input ports, all output ports) need a switch with
    OptimizedSLtoVLMappingProgramming; bits 31-18 are reserved. A switch that ignores them changes one table where the sender meant many.

    Switch the optimisation off in the subnet manager (opensm: `use_optimized_slvl FALSE`) for switches without it; compare the ports with
    NodeInfo.NumPorts.

    The request, and NodeInfo and SwitchInfo of its target. Port 0 has no output table unless it is an enhanced one: an `info` for a Get of
    it, as smpquery asks for port 0 where nobody names one.
    """

    code, name, severity = "AM012", "sl2vl-reserved", ERROR
    reference = "IBA 14.2.5.8; opensm osm_slvl_map_rcv"
    message = "{method}(SLtoVLMappingTable) with modifier 0x{modifier:08x} to {node}: {what}"
    example = "SubnSet(SLtoVLMappingTable) with AttributeModifier 0x10000 to a switch whose SwitchInfo does not offer it"
    source = others(SL_TO_VL)

    every_input, every_output, entered, left = (MAD.attribute_modifier & bits for bits in (0x20000, 0x10000, 0xFF00, 0xFF))
    held, optimized = previous(NodeInfo.num_ports), previous(SwitchInfo.optimized_sl_to_vl_mapping_programming)
    when = ~OF_ADAPTER  # ignored there: AM013
    faults = (
        Fault(MAD.attribute_modifier >= 1 << 18, "bits 31-18 are reserved there"),
        Fault((optimized == 0) & (MAD.attribute_modifier >= 1 << 16) & OF_SWITCH, "bits 17-16 are reserved there",
              "SwitchInfo: OptimizedSLtoVLMappingProgramming 0"),
        Fault((every_input == 0) & (entered >> 8 > held) & (held > 0) & OF_SWITCH, "it has no input port {entered}", OF_PORTS),
        Fault((every_output == 0) & (left > held) & (held > 0) & OF_SWITCH, "it has no output port {left}", OF_PORTS),
        Fault((previous(SwitchInfo.enhanced_port_zero) == 0) & (optimized == 0) & (every_output == 0) & (left == 0) & OF_SWITCH,
              NO_TABLE, NO_PORT_ZERO),
    )  # fmt: skip
    says: ClassVar = {"ports": held, "entered": entered >> 8, "left": left}

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        only_asks = hit.arguments["what"] == NO_TABLE and hit.arguments["method"] == METHODS[GET]
        return INFO if only_asks else super().severity_at_end(hit, context)


class SlToVlOnAdapter(TargetRule):
    """An SLtoVLMappingTable request to an adapter or router has a modifier, which the node ignores.

    The table belongs to the port through which the request came. OpenSM and smpquery still fill in port numbers, so this only interests the
    author of such a tool.

    Nothing.
    """

    code, name, severity = "AM013", "sl2vl-ca-am", INFO
    is_note = True
    reference = "IBA 14.2.5.8"
    message = "{method}(SLtoVLMappingTable) with modifier 0x{modifier:08x} to {node}, which ignores it"
    example = "SubnGet(SLtoVLMappingTable) with AttributeModifier 0x0101 to a channel adapter"
    source = others(SL_TO_VL)
    when = OF_ADAPTER & (MAD.attribute_modifier != 0)


class VlArbHalf(TargetRule):
    """A VLArbitrationTable request selects a half of the table that the port does not have.

    A table of 32 entries or fewer has no upper half, and a port with capacity 0 has no table: what is written there is lost.

    Compare with VLArbitrationLowCap and VLArbitrationHighCap in PortInfo.
    """

    code, name, severity = "AM015", "vlarb-selector-vs-cap", WARNING
    reference = "IBA 14.2.5.9; opensm vlarb_update"
    message = "{method}(VLArbitrationTable) selects {half} of port {port} at {node}, whose table has {cap:entry}"
    example = "PortInfo.VLArbitrationLowCap 8, then SubnSet(VLArbitrationTable) with AttributeModifier 0x00020001"
    source, read = others(VL_ARBITRATION), (PORT_INFO,)
    halves = ("the low-priority table", "entries 32-63 of the low-priority table", "the high-priority table",
              "entries 32-63 of the high-priority table")  # fmt: skip

    def candidates(self, smps: AttributeSmps) -> Mask:
        return np.isin(smps.modifier >> 16, (2, 4)) | (of_node(smps, lambda node: node.unarbitrated) != 0)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        node, selector = smp.node, smp.modifier >> 16
        if not 1 <= selector <= 4:
            return None
        if node.kind == SWITCH and smp.modifier & 0xFF00:
            return None  # the port is uncertain: AM016
        port = node.ports.get(smp.modifier & 0xFF) if node.kind == SWITCH else smp.port
        info, since = port.info_at(smp.frame) if port is not None else (None, 0)
        if port is None or info is None:
            return None
        cap = info.vl_arbitration_low_cap if selector <= 2 else info.vl_arbitration_high_cap
        if cap > VLARB_HALF or (selector in (1, 3) and cap):
            return None
        return {"half": self.halves[selector - 1], "port": port.number, "cap": cap}, ((since, f"capacity {cap}"),)


class VlArbSwitchBits(TargetRule):
    """A VLArbitrationTable request to a switch has bits 15-8 in the modifier, or names a port that the switch does not have.

    A switch takes the port from bits 7-0 and wants zeros above; with other bits it may refuse the request or take the wrong port.

    Correct the sender: the modifier is (half << 16) | port.

    The request, and NodeInfo of its target; for port 0, which has no arbitration unless it is an enhanced one, also SwitchInfo.
    """

    code, name, severity = "AM016", "vlarb-switch-bits", ERROR
    reference = "IBA 14.2.5.9"
    message = "{method}(VLArbitrationTable) with modifier 0x{modifier:08x} to {node}: {what}"
    example = "SubnGet(VLArbitrationTable) with AttributeModifier 0x00010100 to a switch"
    source = others(VL_ARBITRATION)

    number, held = MAD.attribute_modifier & 0xFF, previous(NodeInfo.num_ports)
    when = OF_SWITCH
    faults = (
        Fault((MAD.attribute_modifier & 0xFF00) != 0, "bits 15-8 must be zero at a switch"),
        Fault((number > held) & (held > 0), "it has no port {number}", OF_PORTS),
        Fault((number == 0) & (previous(SwitchInfo.enhanced_port_zero) == 0), "port 0 has no VL arbitration", NO_PORT_ZERO),
    )
    says: ClassVar = {"ports": held, "number": number}


class VendorDiagPage(TargetRule):
    """A VendorDiag request names a page that neither DiagCode nor an earlier page leads to.

    The pages are a chain: DiagCode names the first, NextIndex the following. Another index reads whatever the vendor keeps there.

    Nothing if a vendor's tool scans the pages on purpose; otherwise follow the chain.

    The PortInfo of the port and at least one page of the chain, answered before; for pages above 65535 the request alone.
    """

    code, name, severity = "AM025", "vendordiag-am", ERROR
    reference = "IBA 14.2.5.14"
    message = "{method}(VendorDiag) of page {modifier} at {node}: {reason}"
    example = "SubnGet(VendorDiag) with AttributeModifier 0x10000"
    source, read = others(VENDOR_DIAG), (PORT_INFO, VENDOR_DIAG)

    def candidates(self, smps: AttributeSmps) -> Mask:
        return smps.modifier != 0

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        if smp.modifier > PAGE_MAX:
            return {"reason": f"there are no pages above {PAGE_MAX}"}, ()
        port = smp.port
        info, since = port.info_at(smp.frame) if port is not None else (None, 0)
        known = [page for page, frame in (port.pages or {}).items() if frame <= smp.frame] if port is not None else []
        if info is None or not known or smp.modifier in known:
            return None  # without any page, the rest of the chain is unknown
        return {"reason": "neither DiagCode nor NextIndex leads there"}, ((since, f"DiagCode 0x{info.diag_code:04x}"),)


class CounterModifier(NamesRequest):
    """A performance request for counters has an attribute modifier.

    Counter attributes are selected by PortSelect inside them; the modifier means nothing, and the tools in use send 0.

    Nothing, unless the agent answers with an error status; then correct the sender.
    """

    code, name, severity = "AM031", "pm-am-nonzero", INFO
    is_note = True
    reference = "IBA 16.1.3; libibmad"
    when = (MAD.attribute_modifier != 0) & (MAD.mgmt_class == PM_CLASS) & MAD.attribute_id.isin(COUNTERS)
    message = "{what} takes no attribute modifier, this one is 0x{attribute_modifier:08x}"
    example = "PerfGet(PortCounters) with AttributeModifier 1"
