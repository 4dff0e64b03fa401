"""Which SL to VL and VL arbitration tables do not fit the port?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.fabric.earlier_answers import AttributeSmp, AttributeSmps
from ibdissect.fabric.nodes import SWITCH, Port
from ibdissect.lint.rule import ERROR, WARNING, FaultDetails, Rule
from ibdissect.rules.shared.attribute_rule import VLS, AttributeRule, Mask
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import SLtoVLMappingTable, VLArbitrationEntry, VLArbitrationTable

DROP = 15


class _QosRule(AttributeRule):
    """Base of rules that compare a QoS table in a Set with the PortInfo of its output port; one finding per port."""

    shift = 0
    """Where the modifier holds the number of the output port."""

    def output(self, smp: AttributeSmp) -> tuple[Port, PortInfo, int] | None:
        """The output port of a table, its PortInfo at that time, and the frame that showed it; None if unknown."""
        port = smp.node.ports.get(self.flow_of(smp)[1])
        info, since = port.info_at(smp.frame) if port is not None else (None, 0)
        return (port, info, since) if port is not None and info is not None else None

    def flow_of(self, smp: AttributeSmp) -> tuple[int, int]:
        switch = smp.node.kind == SWITCH
        return smp.slot, smp.modifier >> self.shift & 0xFF if switch else smp.entered

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
    """

    code, name, severity = "SEM026", "sl2vl-vl-range", WARNING
    reference = "IBA 14.2.5.8; opensm masks with the operational VLs"
    message = "Set(SLtoVLMappingTable) of {port} maps an SL to VL {vl}, {output} uses {vls} data VLs"
    example = "GetResp(PortInfo) with OperationalVLs 2 (VL0-VL1), then SubnSet(SLtoVLMappingTable) with VL 9"
    at = SLtoVLMappingTable.sl_to_vl
    shift = 8

    def suspicious(self, smps: AttributeSmps) -> Mask:
        wrong = smps.sets & (smps.modifier >> 16 == 0) & (self._highest(smps) > 0)
        index = np.flatnonzero(wrong)
        outputs = (smps.slot[index] << 16) | (smps.entered[index] << 8) | (smps.modifier[index] >> self.shift & 0xFF)
        _, first, which = np.unique(outputs, return_index=True, return_inverse=True)
        vls = np.array([self._vls(AttributeSmp(smps, i)) for i in index[first].tolist()], np.int64)
        if len(index):
            wrong[index] = self._highest(smps)[index] >= vls[which.ravel()]
        return wrong

    @staticmethod
    def _highest(smps: AttributeSmps) -> Any:
        """The highest VL that a table names, by SMP."""

        def highest() -> Any:
            found = np.zeros(len(smps), np.uint8)
            for entry in np.ascontiguousarray(smps.bodies[:, :8].T):
                for vl in (entry >> 4, entry & 15):
                    np.maximum(found, np.where(vl == DROP, 0, vl), out=found)
            return found

        return smps.cached("highest VL", highest)

    def _vls(self, smp: AttributeSmp) -> int:
        """Data VLs in use at the output port of an SMP; if unknown, more than a table can name."""
        output = self.output(smp)
        return (output is not None and int(VLS[output[1].operational_vls])) or DROP

    def arguments(self, smp: AttributeSmp, info: PortInfo) -> dict[str, Any] | None:
        return {"vl": int(self._highest(smp.columns)[smp.i]), "vls": int(VLS[info.operational_vls]) or DROP}


class ArbitrationBeyond(_QosRule):
    """A Set gives weight to VL arbitration entries that the port does not have.

    Entries beyond the capacity are lost, and the weights that the subnet manager believes in are not in force.

    Shorten `qos_vlarb_low` and `qos_vlarb_high` to the capacities in PortInfo.
    """

    code, name, severity = "SEM024", "vlarb-gt-cap-nonzero", WARNING
    reference = "IBA 14.2.5.9"
    message = "Set(VLArbitrationTable) of {port}: entry {entry} has weight {weight}, the table of {output} has {cap} entries"
    example = "GetResp(PortInfo) with VLArbitrationLowCap 8, then SubnSet(VLArbitrationTable) with weight in entry 20"
    at = VLArbitrationTable.vl_weight_block

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.sets & (smps.bodies[:, 1::2].any(axis=1))

    def arguments(self, smp: AttributeSmp, info: PortInfo) -> dict[str, Any] | None:
        half = smp.modifier >> 16
        if not 1 <= half <= 4:
            return None
        cap = info.vl_arbitration_low_cap if half <= 2 else info.vl_arbitration_high_cap
        weights = smp.body[1::2]
        first = 32 if half in (2, 4) else 0
        entry = int(np.flatnonzero(weights)[-1])
        if not cap or first + entry < cap or first >= cap:  # a missing half is AM015
            return None
        return {"entry": first + entry, "weight": int(weights[entry]), "cap": cap}


class ArbitrationEmpty(_QosRule):
    """A Set makes all weights in a port's low-priority VL arbitration table 0.

    A VL without weight may never send: traffic that is not in the high-priority table stops.

    Give every VL in use a weight (opensm: `qos_vlarb_low`).
    """

    code, name, severity = "SEM025", "vlarb-all-zero", WARNING
    reference = "IBA 14.2.5.9"
    message = "Set(VLArbitrationTable) of {port}: no entry of the low-priority table has a weight, {output} uses {vls} data VLs"
    example = "GetResp(PortInfo) with 4 operational VLs, then SubnSet(VLArbitrationTable) of the first half, all zero"
    at = VLArbitrationTable.vl_weight_block

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.sets & (smps.modifier >> 16 == 1) & ~smps.bodies[:, 1::2].any(axis=1)

    def arguments(self, smp: AttributeSmp, info: PortInfo) -> dict[str, Any] | None:
        vls = int(VLS[info.operational_vls])
        return {"vls": vls} if vls > 1 and 0 < info.vl_arbitration_low_cap <= 32 else None


class ArbitrationOfVL15(Rule):
    """A VL arbitration table gives a weight to VL15.

    VL15 carries management, has absolute priority and takes no part in arbitration. A port may refuse the table, or waste turns on the
    lane.

    Correct the QoS settings of the subnet manager (qos_vlarb_high, qos_vlarb_low); only data lanes belong there.
    """

    code, name, severity = "SEM023", "vlarb-vl15", ERROR
    reference = "IBA 14.2.5.9, 7.6.9"
    when = (VLArbitrationEntry.vl == 15) & (VLArbitrationEntry.weight > 0) & HAS_CONTENT
    message = "an arbitration entry for VL15 with weight {weight}"
    example = "SubnSet(VLArbitrationTable) with an entry 15:32"
