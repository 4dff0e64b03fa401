"""PortInfo that contradicts what the port or its node is (SEM, PKY, LNK)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from ibdissect.fabric.events import LidAssigned
from ibdissect.fabric.model import ACTIVE, SWITCH
from ibdissect.fabric.told import Others, PortInfos, Told
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related
from ibdissect.lint.rule import ERROR, WARNING, Hit, Rule, on_event
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import LedInfo
from ibdissect.wire.sm_port import PortInfo

from .learnt import Mask, TellingRule, adapters, switches

NO_CHANGE_WIDTHS = (0, 255)
"""LinkWidthEnabled that names no width: 'no change', and 'all supported'."""
LED_SUPPORTED = 1 << 9
"""CapabilityMask.IsLEDInfoSupported."""
MAX_LMC = 7
SET = 0x02
TELLING = frozenset({SET, 0x81, 0x92})
"""Set, GetResp, GetTableResp: a Get may carry anything (infiniband-diags leave old bytes there)."""


class LmcOnSwitchPort(TellingRule):
    """An external port of a switch, or a base port 0, shows or gets an LMC.

    ## Why it matters
    LIDs of a switch belong to its port 0, and only an enhanced port 0 may have several. An LMC elsewhere means nothing, and
    whoever wrote it may believe in LIDs that do not exist.

    ## What to do
    Look at the subnet manager's `lmc` and `lmc_esp0` options.
    """

    code, name, severity = "SEM001", "portinfo-lmc-switch", ERROR
    reference = "IBA 14.2.5.6; seed000 LMC"
    message = "{method}(PortInfo) of {port}: LMC {lmc}, which only an adapter, a router or an enhanced port 0 may have"
    example = "SubnSet(PortInfo) of port 0 of a switch without EnhancedPortZero, LMC 2"
    source = PortInfos
    at = PortInfo.lmc
    why = ""

    def suspicious(self, told: Told, context: Context) -> Mask:
        return switches(told) & (told.answers | told.sets) & (told.now(PortInfo.lmc) > 0) & (told.number == 0)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        node = told.node(i)
        if node is None or node.switch is None or node.switch.enhanced_port_zero or not node.switch_frame:
            return None
        return {"lmc": int(told.now(PortInfo.lmc)[i])}

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        node = told.node(i)
        return ((node.switch_frame, "SwitchInfo: EnhancedPortZero 0"),) if node is not None else ()


class WidthNotSupported(TellingRule):
    """A Set enables link widths that the port does not have.

    ## Why it matters
    The port ignores the Set or answers with an error; when the link is trained anew it may not come up.

    ## What to do
    Enable widths that LinkWidthSupported names, or 255 for all of them.
    """

    code, name, severity = "SEM008", "linkwidth-enabled-not-supported", ERROR
    reference = "IBA 14.2.5.6; seed000 LinkWidthSupported; kernel qib"
    message = "Set(PortInfo) of {port} enables widths 0x{enabled:02x}, it supports 0x{supported:02x}"
    example = "GetResp(PortInfo) with LinkWidthSupported 3, then SubnSet(PortInfo) with LinkWidthEnabled 8"
    source = PortInfos
    at = PortInfo.link_width_enabled
    why = "LinkWidthSupported"

    def suspicious(self, told: Told, context: Context) -> Mask:
        enabled, supported = told.now(PortInfo.link_width_enabled), told.was(PortInfo.link_width_supported)
        named = ~np.isin(enabled, NO_CHANGE_WIDTHS)
        return told.sets & (told.since > 0) & named & (supported > 0) & ((enabled & ~supported) != 0)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        supported = int(told.was(PortInfo.link_width_supported)[i])
        return {"enabled": int(told.now(PortInfo.link_width_enabled)[i]), "supported": supported}


class CounterWritten(TellingRule):
    """A Set writes a number into a violation counter that is neither 0 nor what the port showed last.

    ## Why it matters
    Writing 0 clears the counter; anything else falsifies it, and alarms built on it.

    ## What to do
    Nothing when the sender copies an older PortInfo (as OpenSM does); else repair the tool.
    """

    code, name, severity = "SEM014", "violation-counter-nonzero-set", WARNING
    reference = "IBA 14.2.5.6; seed000 T29-5; opensm copies the whole PortInfo"
    message = "Set(PortInfo) of {port} writes {counter} {now}, the port showed {before}"
    example = "GetResp(PortInfo) with P_KeyViolations 3, then SubnSet(PortInfo) with P_KeyViolations 7"
    source = PortInfos
    at = PortInfo.m_key_violations
    why = "showed its counters"
    counters = (PortInfo.m_key_violations, PortInfo.p_key_violations, PortInfo.q_key_violations)

    def suspicious(self, told: Told, context: Context) -> Mask:
        written = [(told.now(one) != 0) & (told.now(one) > told.was(one)) for one in self.counters]
        return told.sets & (told.since > 0) & reduce(or_, written)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        for one in self.counters:
            now, before = int(told.now(one)[i]), int(told.was(one)[i])
            if now > before:  # a lower number may be what was read before the last reading
                return {"counter": one.label, "now": now, "before": before}
        return None


class NoGuids(TellingRule):
    """An adapter or router port says that it has room for no GUID.

    ## Why it matters
    Every port has at least one GUID, its PortGUID, and GUIDCap counts it; tools that trust it do not ask for GUIDs at all.

    ## What to do
    Update the firmware.
    """

    code, name, severity = "SEM016", "guidcap-zero", WARNING
    reference = "IBA 14.2.5.6; seed000 GUIDCap"
    message = "{port} shows GUIDCap 0"
    example = "NodeInfo of a channel adapter, then its GetResp(PortInfo) with GUIDCap 0"
    source = PortInfos
    at = PortInfo.guid_cap

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.answers & adapters(told) & (told.now(PortInfo.guid_cap) == 0)

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        node = told.node(i)
        return ((node.frame, "NodeInfo"),) if node is not None else ()


class LocalPortRange(TellingRule):
    """A port shows a LocalPortNum that its node does not have.

    ## Why it matters
    LocalPortNum is the port that the request came in by; OpenSM discards such a PortInfo, and the port stays unmanaged.

    ## What to do
    Update the firmware.
    """

    code, name, severity = "SEM038", "localportnum-range", WARNING
    reference = "IBA 14.2.5.6; opensm osm_port_info_rcv"
    message = "{port} shows LocalPortNum {number}; its node has {ports} ports"
    example = "NodeInfo with NumPorts 1, then GetResp(PortInfo) with LocalPortNum 40"
    source = PortInfos
    at = PortInfo.local_port_num

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.answers & (told.ports > 0) & (told.now(PortInfo.local_port_num) > told.ports)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        return {"number": int(told.now(PortInfo.local_port_num)[i]), "ports": int(told.ports[i])}

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        node = told.node(i)
        return ((node.frame, "NodeInfo"),) if node is not None else ()


class EnforcementWithoutCap(TellingRule):
    """A Set switches partition enforcement on at a switch that cannot enforce.

    ## Why it matters
    The administrator believes that the switch keeps partitions apart; it passes everything.

    ## What to do
    Let the subnet manager read PartitionEnforcementCap first (opensm: `part_enforce off` for such switches).
    """

    code, name, severity = "PKY016", "switch-pkey-enforce-without-cap", ERROR
    reference = "IBA 14.2.5.4; seed000 P_Key checking"
    message = "Set(PortInfo) of {port} enforces partitions on {direction} packets, which SwitchInfo does not offer"
    example = "SwitchInfo with PartitionEnforcementCap 0, then SubnSet(PortInfo) with PartitionEnforcementInbound 1"
    source = PortInfos
    at = PortInfo.partition_enforcement_inbound

    def suspicious(self, told: Told, context: Context) -> Mask:
        asked = told.now(PortInfo.partition_enforcement_inbound) | told.now(PortInfo.partition_enforcement_outbound)
        return told.sets & switches(told) & (told.number > 0) & (asked != 0)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        node = told.node(i)
        switch = node.switch if node is not None else None
        if switch is None:
            return None
        if switch.partition_enforcement_cap:
            return None  # OpenSM looks at nothing else, and switches that show both capability bits 0 do what it asks
        inbound = bool(told.now(PortInfo.partition_enforcement_inbound)[i])
        return {"direction": "inbound" if inbound else "outbound"}

    def proof(self, told: Told, i: int) -> tuple[tuple[int, str], ...]:
        node = told.node(i)
        return ((node.switch_frame, "SwitchInfo"),) if node is not None else ()


class _Leds(Others):
    attribute = 0x31


class LedUnsupported(TellingRule):
    """A Set(LedInfo) goes to a port that has no LED to switch.

    ## Why it matters
    The port answers with an error status or nothing; whoever looks for the blinking port looks in vain.

    ## What to do
    Nothing; the port's CapabilityMask says whether it has one.
    """

    code, name, severity = "SEM055", "ledinfo-unsupported", WARNING
    reference = "IBA 14.2.5.15; seed000 LedInfo"
    message = "Set(LedInfo) to {port}, whose CapabilityMask 0x{mask:08x} lacks IsLEDInfoSupported"
    example = "GetResp(PortInfo) with CapabilityMask bit 9 clear, then SubnSet(LedInfo)"
    source = _Leds
    at = LedInfo.led_mask

    def suspicious(self, told: Told, context: Context) -> Mask:
        return told.sets & (told.slot >= 0)

    def arguments(self, told: Told, i: int, context: Context) -> dict[str, Any] | None:
        node = told.node(i)
        number = int(told.modifier[i] & 0xFF) if node is not None and node.kind == SWITCH else int(told.entered[i])
        port = node.ports.get(number) if node is not None else None
        info = port.info if port is not None else None
        if port is None or info is None or info.capability_mask & LED_SUPPORTED or port.info_frame > told.frames[i]:
            return None
        return {"mask": info.capability_mask}

    def flow_of(self, told: Told, i: int) -> Any:
        return int(told.slot[i]), int(told.entered[i])


class LidUnaligned(Rule):
    """A port with several LIDs has a base LID that is no multiple of their number.

    ## Why it matters
    The port owns LID to LID + 2^LMC - 1 and compares only the upper bits: with an unaligned base it does not take some of the
    packets meant for it, or takes those of its neighbour.

    ## What to do
    Let the subnet manager assign LIDs anew (opensm: `reassign_lids`), and report it to the maker.
    """

    code, name, severity = "LNK025", "lid-unaligned-lmc", ERROR
    reference = "IBA 4.1.3, 14.2.5.6; seed000 LID, LMC"
    message = "PortInfo with LID {lid} and LMC {lmc}: the LID is no multiple of 2^{lmc}"
    example = "PortInfo with LID 5 and LMC 1"
    on = PortInfo
    when = MAD.method.isin(TELLING) & reduce(
        or_, [(PortInfo.lmc == lmc) & ((PortInfo.lid & ((1 << lmc) - 1)) != 0) for lmc in range(1, MAX_LMC + 1)]
    )
    at = PortInfo.lid


class DiagFailure(Rule):
    """A port says that its diagnostics failed.

    ## Why it matters
    DiagCode 3 is a failure that needs attention, 4 a fatal one: the port may lose or damage packets.

    ## What to do
    Read the vendor's diagnostic pages (VendorDiag) and replace the part.
    """

    code, name, severity = "SEM058", "diagcode-failure", WARNING
    reference = "IBA 14.2.5.6.1; seed000 DiagCode"
    message = "PortInfo with DiagCode 0x{diag_code:04x}"
    example = "GetResp(PortInfo) with DiagCode 4"
    on = PortInfo
    when = (PortInfo.diag_code & 0xF).isin({3, 4}) & MAD.method.isin(TELLING - {SET})
    at = PortInfo.diag_code


class LidConflict(Rule):
    """Two ports have the same LID.

    ## Why it matters
    Packets to that LID reach one of them, depending on where they come from. It happens when two subnets are joined, or when
    two subnet managers assign LIDs.

    ## What to do
    Find the second subnet manager, let one of them reassign all LIDs (opensm: `-r`). Nothing when the capture was merged from
    those of two subnets: lint each alone.
    """

    code, name, severity = "LNK024", "lid-conflict", ERROR
    reference = "IBA 14.2.5.6; seed000 LID, LMC"
    message = "{port} has LIDs {lid} to {last}; {other} has one of them and is active"
    example = "GetResp(PortInfo) of two active ports, both with LID 5"
    at = PortInfo.lid

    @on_event(LidAssigned)
    def assigned(self, event: LidAssigned, context: Context) -> Iterator[Hit]:
        other = event.taken_from
        if other is None or not other.node.guid or not event.port.node.guid or other.node is event.port.node:
            return
        if other.state != ACTIVE or event.port.state != ACTIVE or other.peer is None:
            return
        yield Hit(
            frame=event.frame,
            time_ns=event.time_ns,
            arguments={"port": str(event.port), "other": str(other), "lid": event.lid, "last": event.lid + (1 << event.lmc) - 1},
            field=PortInfo.lid,
            value=event.lid,
            related=(Related(other.lids.since, "showed the LID at the other port"),),
            evidence=Evidence.LEARNT,
            key=(event.port.node.slot, event.port.number, event.lid),
        )
