"""SL to VL tables and VL arbitration tables that do not fit the port."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ibdissect.decode import Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.identity import Code
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, FaultDetails, Hit
from ibdissect.rules.shared.attribute_rule import VLS, AttributeRule, Mask
from ibdissect.rules.shared.mad_conditions import DOWN
from ibdissect.subnet import SWITCH, FabricFollower, Port
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.earlier_answers import port_key
from ibdissect.subnet.nodes import ACTIVE, ARMED
from ibdissect.subnet.visible_managers import AGES_NS
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.numbers import MANAGEMENT_VL, PORT_INFO, SET
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import SLtoVLMappingTable, VLArbitrationEntry, VLArbitrationTable
from ibdissect.wire.spec import Field

NO_INFO, NO_LIMIT = bytes(64), 255
CARRIES_DATA = (ARMED, ACTIVE)
ALL_OUTPUTS = 1 << 16
"""Modifier of an SL to VL table: for all output ports."""
NO_HIGH_LIMIT = 255
"""VLHighLimit: the high-priority table may send without end."""
HALF = 32
"""Entries of a half of a VL arbitration table."""
WEIGHTS = slice(VLArbitrationEntry.weight.span[0], None, VLArbitrationEntry.size)
LANES = slice(VLArbitrationEntry.vl.span[0], None, VLArbitrationEntry.size)
"""Bytes of a half of a VL arbitration table that are weights, and those that name lanes."""


class _QosRule(AttributeRule):
    """Base of rules that compare a QoS table in a Set with the PortInfo of its output port; one finding per port."""

    written = (PORT_INFO,)

    def least(self, smps: AttributeSmps, index: Int, field: Field[Any]) -> Int:
        """The least value but 0 of a PortInfo field of their output ports in this chunk, for some SMPs, int64[k]; NO_LIMIT if unknown."""
        numbers = port_key(smps.slot, np.where(smps.kind == SWITCH, smps.modifier & 0xFF, smps.entered))
        distinct, which = np.unique(numbers[index], return_inverse=True)
        ports, start = map(smps.event.subnet.by_key, distinct.tolist()), smps.event.table.chunk.first
        infos = [[NO_INFO, *port.infos.since_frame(start)] if port is not None else [NO_INFO] for port in ports]
        bodies = np.frombuffer(b"".join(chain.from_iterable(infos)), np.uint8).reshape(-1, len(NO_INFO))
        values = extract(bodies, field.bit, field.bits).astype(np.int64)
        values[values == 0] = NO_LIMIT
        return np.minimum.reduceat(values, np.cumsum([0, *map(len, infos[:-1])]))[which] if infos else values

    def output(self, smp: AttributeSmp) -> tuple[Port, PortInfo, int] | None:
        """The output port of a table, its PortInfo at that time, and the frame that showed it; None if unknown."""
        port = smp.node.ports.get(self.flow_of(smp)[1])
        info, since = port.info_at(smp.frame) if port is not None else (None, 0)
        return (port, info, since) if port is not None and info is not None else None

    def flow_of(self, smp: AttributeSmp) -> tuple[int, int]:
        switch = smp.node.kind == SWITCH
        return smp.slot, smp.modifier & 0xFF if switch else smp.entered

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        output = self.output(smp)
        arguments = self.arguments(smp, output[1]) if output is not None else None
        if output is None or arguments is None:
            return None
        port, _, since = output
        return {"output": port.name_at(smp.frame), **arguments}, [(since, "PortInfo of the port")]

    def arguments(self, smp: AttributeSmp, info: PortInfo) -> dict[str, Any] | None:
        """Arguments of the message about a table, whose output port showed `info`; None if the table is in order."""
        raise NotImplementedError


class VlOutOfRange(_QosRule):
    """A Set maps a service level to a VL that the port does not use.

    Packets of that service level are dropped at the port.

    Compare the subnet manager's `qos_sl2vl` with the number of operational VLs (`max_op_vls`).

    The Set, and PortInfo of its output port, which is Armed or Active: before that a manager may write the tables first and the VLs then. A
    Set for all output ports (the optimised form) counts where no port of the switch uses that VL. An `info` if a port shows within ten
    seconds that it uses that VL, or carries no data: the manager is changing both; also if it showed so much since that this is forgotten.
    """

    code, name, severity = "SEM026", "sl2vl-vl-range", WARNING
    reference = "IBA 14.2.5.8; opensm masks with the operational VLs"
    message = "Set(SLtoVLMappingTable) of {port} maps an SL to VL {vl}, {output} uses {vls:data VL}"
    example = "GetResp(PortInfo) with OperationalVLs 2 (VL0-VL1), then SubnSet(SLtoVLMappingTable) with VL 9"
    at = SLtoVLMappingTable.sl_to_vl

    def suspicious(self, smps: AttributeSmps) -> Mask:
        wrong = smps.sets & ((smps.modifier & ALL_OUTPUTS == 0) | (smps.kind != SWITCH)) & (self._highest(smps) > 0)
        every = smps.sets & (smps.modifier & ALL_OUTPUTS != 0) & (smps.kind == SWITCH) & (self._highest(smps) > 0)
        index = np.flatnonzero(wrong)
        vls = VLS[np.minimum(self.least(smps, index, PortInfo.operational_vls), len(VLS) - 1)]
        wrong[index] = (vls > 0) & (self._highest(smps)[index] >= vls)
        return wrong | every

    def output(self, smp: AttributeSmp) -> tuple[Port, PortInfo, int] | None:
        """Of a Set for all output ports of a switch, the one with the most VLs; None if any port that carries data may have more."""
        if smp.node.kind != SWITCH or not smp.modifier & ALL_OUTPUTS:
            return super().output(smp)
        found = []
        for number in range(1, smp.ports + 1):
            port = smp.node.ports.get(number)
            info, since = port.info_at(smp.frame) if port is not None else (None, 0)
            if port is None or info is None:
                return None
            if info.port_state in CARRIES_DATA:
                found.append((port, info, since))
        return max(found, key=lambda one: int(VLS[one[1].operational_vls]) or NO_LIMIT, default=None)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO if the VLs follow their table."""
        slot, number = hit.key
        node, loss = context.get(FabricFollower).subnet.by_slot(slot), context.get(CaptureLoss)
        ports = [port for port in node.ports.values() if number in (0, port.number) or node.kind != SWITCH] if node is not None else []
        for port in ports:
            if port.infos.forgets(hit.frame):
                return INFO
            for frame in (one for one in port.infos.changes() if one > hit.frame and loss.nanoseconds_between(hit.frame, one) <= AGES_NS):
                info, _ = port.info_at(frame)
                if info is not None and (info.port_state not in CARRIES_DATA or int(VLS[info.operational_vls]) > hit.arguments["vl"]):
                    return INFO
        return super().severity_at_end(hit, context)

    @staticmethod
    def _highest(smps: AttributeSmps) -> Any:
        """The highest VL that a table names, by SMP."""

        def highest() -> Any:
            found = np.zeros(len(smps), np.uint8)
            for entry in np.ascontiguousarray(smps.bodies[:, : SLtoVLMappingTable.size].T):
                for vl in (entry >> 4, entry & 15):
                    np.maximum(found, np.where(vl == MANAGEMENT_VL, 0, vl), out=found)
            return found

        return smps.cached("highest VL", highest)

    def arguments(self, smp: AttributeSmp, info: PortInfo) -> dict[str, Any] | None:
        vl, vls = int(self._highest(smp.columns)[smp.i]), int(VLS[info.operational_vls])
        return {"vl": vl, "vls": vls} if 0 < vls <= vl and info.port_state in CARRIES_DATA else None


class ArbitrationBeyond(_QosRule):
    """A Set gives weight to VL arbitration entries that the port does not have.

    Entries beyond the capacity are lost, and the weights that the subnet manager believes in are not in force.

    Shorten `qos_vlarb_low` and `qos_vlarb_high` to the capacities in PortInfo.
    """

    code, name, severity = "SEM024", "vlarb-gt-cap-nonzero", WARNING
    reference = "IBA 14.2.5.9"
    message = "Set(VLArbitrationTable) of {port}: entry {entry} has weight {weight}, the table of {output} has {cap:entry}"
    example = "GetResp(PortInfo) with VLArbitrationLowCap 8, then SubnSet(VLArbitrationTable) with weight in entry 20"
    at = VLArbitrationTable.vl_weight_block

    def suspicious(self, smps: AttributeSmps) -> Mask:
        weights, half = smps.bodies[:, WEIGHTS] > 0, smps.modifier >> 16
        index = np.flatnonzero(smps.sets & weights.any(axis=1))
        last = len(weights.T) - 1 - weights[index, ::-1].argmax(axis=1) + np.where(half[index] % 2, 0, HALF)
        low, high = (self.least(smps, index, field) for field in (PortInfo.vl_arbitration_low_cap, PortInfo.vl_arbitration_high_cap))
        wrong = np.zeros(len(smps), np.bool_)
        wrong[index] = last >= np.where(half[index] <= 2, low, high)
        return wrong

    def arguments(self, smp: AttributeSmp, info: PortInfo) -> dict[str, Any] | None:
        half = smp.modifier >> 16
        if not 1 <= half <= 4:
            return None
        cap = info.vl_arbitration_low_cap if half <= 2 else info.vl_arbitration_high_cap
        weights = smp.body[WEIGHTS]
        first = HALF if half in (2, 4) else 0
        entry = int(np.flatnonzero(weights)[-1])
        if not cap or first + entry < cap or first >= cap:  # a missing half is AM015
            return None
        return {"entry": first + entry, "weight": int(weights[entry]), "cap": cap}


class ArbitrationEmpty(_QosRule):
    """A Set makes all weights in a port's low-priority VL arbitration table 0.

    A VL without weight may never send: traffic that is not in the high-priority table stops.

    Give every VL in use a weight (opensm: `qos_vlarb_low`).

    The Set, and PortInfo of the port. Silent for a port that is down, if all data VLs in use have a weight in the high-priority table, or
    if that table has no limit and is not known. An adapter's SL to VL table tells which VLs are in use. An `info` if the high-priority
    table that the port holds at the end gives a weight to all of them: managers write the low-priority table first. What that table
    held in between is not kept: where it was taken back by then, the warning stays.
    """

    code, name, severity = "SEM025", "vlarb-all-zero", WARNING
    reference = "IBA 14.2.5.9"
    message = "Set(VLArbitrationTable) of {port}: no entry of the low-priority table has a weight, {output} uses {vls:data VL}"
    example = "GetResp(PortInfo) with 4 operational VLs, then SubnSet(VLArbitrationTable) of the first half, all zero"
    at = VLArbitrationTable.vl_weight_block

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.sets & (smps.modifier >> 16 == 1) & ~smps.bodies[:, WEIGHTS].any(axis=1)

    def arguments(self, smp: AttributeSmp, info: PortInfo) -> dict[str, Any] | None:
        vls = int(VLS[info.operational_vls])
        if info.port_state == DOWN or vls <= 1 or not 0 < info.vl_arbitration_low_cap <= HALF or self._all_high(smp, info, vls):
            return None
        return {"vls": vls}

    def _all_high(self, smp: AttributeSmp, info: PortInfo, vls: int) -> bool:
        """Whether every data VL has a weight in the high-priority table, or may have one in a table that is not known."""
        port = smp.node.ports.get(self.flow_of(smp)[1])
        halves = port.qos.arbitration_at(smp.frame)[2:] if port is not None and port.qos is not None else (b"", b"")
        if not halves[0]:
            return info.vl_high_limit == NO_HIGH_LIMIT and info.vl_arbitration_high_cap > 0
        return port is not None and _weighed(halves) >= _lanes_in_use(port, smp.frame, vls)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info if the high-priority table that was written meanwhile has what the other one lacks."""
        slot, number = hit.key
        node = context.get(FabricFollower).subnet.by_slot(slot)
        port = node.ports.get(number) if node is not None else None
        halves = port.qos.arbitration[2:] if port is not None and port.qos is not None else (b"", b"")
        if port is not None and halves[0] and _weighed(halves) >= _lanes_in_use(port, hit.frame, hit.arguments["vls"]):
            return INFO
        return super().severity_at_end(hit, context)


def _weighed(halves: Sequence[bytes]) -> set[Code]:
    """The VLs to which a VL arbitration table gives a weight."""
    entries = b"".join(halves)
    return {vl & 15 for vl, weight in zip(entries[::2], entries[1::2], strict=True) if weight}


def _lanes_in_use(port: Port, frame: int, vls: int) -> set[Code]:
    """The data VLs to which an adapter's SL to VL table leads; all `vls` of them where it is not known, and for switches."""
    table = port.qos.map_at(0, frame) if port.qos is not None and port.node.kind != SWITCH and port.qos.map(0) is not None else None
    return set(range(vls)) if table is None else {lane for pair in table for lane in (pair >> 4, pair & 15)} & set(range(vls))


class ArbitrationOfVL15(_QosRule):
    """A VL arbitration table gives a weight to VL15.

    VL15 carries management, has absolute priority and takes no part in arbitration. A port may refuse the table, or waste turns on the
    lane.

    Correct the QoS settings of the subnet manager (qos_vlarb_high, qos_vlarb_low); only data lanes belong there.

    The Set or the answer, and the port's capacity: entries beyond it mean nothing. Where the port has not shown it, any entry of a Set
    counts, and the first entry of an answer.
    """

    code, name, severity = "SEM023", "vlarb-vl15", ERROR
    reference = "IBA 14.2.5.9, 7.6.9"
    message = "an arbitration entry for VL15 with weight {weight}"
    example = "SubnSet(VLArbitrationTable) with an entry 15:32"
    at = VLArbitrationTable.vl_weight_block

    def flow_of(self, smp: AttributeSmp) -> Any:
        return super().flow_of(smp) if smp.slot >= 0 else None

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return (smps.answers | smps.sets) & self._of_vl15(smps.bodies).any(axis=1)

    @staticmethod
    def _of_vl15(bodies: Any) -> Mask:
        lanes = bodies[..., LANES] >> 8 - VLArbitrationEntry.vl.bit - VLArbitrationEntry.vl.bits & (1 << VLArbitrationEntry.vl.bits) - 1
        return (lanes == MANAGEMENT_VL) & (bodies[..., WEIGHTS] > 0)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        half, output = smp.modifier >> 16, self.output(smp) if smp.slot >= 0 else None
        proof: list[tuple[int, str]] = []
        size = 2 * HALF if smp.method == SET else 1
        if output is not None:
            _, info, since = output
            size, proof = info.vl_arbitration_low_cap if half <= 2 else info.vl_arbitration_high_cap, [(since, "PortInfo of the port")]
        entries = np.flatnonzero(self._of_vl15(smp.body))
        entry = int(entries[0])
        if entry + (HALF if half in (2, 4) else 0) >= size:
            return None
        return {"weight": int(smp.body[WEIGHTS][entry])}, proof
