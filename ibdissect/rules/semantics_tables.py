"""What subnet managers and forwarding or arbitration tables say that cannot be: SMInfo, VL arbitration, LedInfo (SEM)."""

from __future__ import annotations

from ibdissect.lint.rule import ERROR, INFO, WARNING, Rule
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import LedInfo, SMInfo
from ibdissect.wire.sm_tables import VLArbitrationEntry

from .content import SMP_SET, TOLD

STANDBY, MASTER = 2, 3
HANDOVER, ACKNOWLEDGE, DISABLE, STAND_BY, DISCOVER = range(1, 6)


class ArbitrationOfVL15(Rule):
    """A VL arbitration table gives VL15 a weight.

    ## Why it matters
    VL15 carries management, has absolute priority and takes no part in arbitration. A port may refuse the table, or waste
    turns on a lane that never sends by it.

    ## What to do
    Correct the QoS settings of the subnet manager (qos_vlarb_high, qos_vlarb_low); only data lanes belong there.
    """

    code, name, severity = "SEM023", "vlarb-vl15", ERROR
    reference = "IBA 14.2.5.9, 7.6.9; seed000"
    on = VLArbitrationEntry
    when = (VLArbitrationEntry.vl == 15) & (VLArbitrationEntry.weight > 0) & TOLD
    at = VLArbitrationEntry.vl
    message = "an arbitration entry for VL15 with weight {weight}"
    example = "SubnSet(VLArbitrationTable) with an entry 15:32"


class SMStateReserved(Rule):
    """A subnet manager tells a state that does not exist.

    ## Why it matters
    Other managers decide by the state whether to take over, to wait or to hand over; with a reserved one two masters or none
    may remain.

    ## What to do
    Correct or update that subnet manager.
    """

    code, name, severity = "SEM042", "smstate-reserved", ERROR
    reference = "IBA 14.2.5.13; seed000 table 29-6"
    on = SMInfo
    when = (SMInfo.sm_state > MASTER) & TOLD
    at = SMInfo.sm_state
    message = "SM 0x{guid:016x} has SMState {sm_state}, states are 0 to 3"
    example = "SubnGetResp(SMInfo) with SMState 7"


class SMControlState(Rule):
    """A control packet between subnet managers comes from one in the wrong state.

    ## Why it matters
    Only a Standby may acknowledge, only a Master may hand over, disable, wake or restart another. The receiver answers with
    status 7, and the handover does not take place.

    ## What to do
    Compare the states of both managers in the frames before; two masters that each want the other to stop are the usual cause.
    """

    code, name, severity = "SEM045", "sminfo-ack-state", WARNING
    reference = "IBA 14.4.1; opensm smi_rcv_check_set_req_legality"
    on = SMInfo
    when = (
        ((SMInfo.sm_state != STANDBY) & (MAD.attribute_modifier == ACKNOWLEDGE))
        | ((SMInfo.sm_state != MASTER) & MAD.attribute_modifier.isin({HANDOVER, DISABLE, STAND_BY, DISCOVER}))
    ) & SMP_SET
    at = SMInfo.sm_state
    message = "SubnSet(SMInfo) {MAD.attribute_modifier} from an SM in state {sm_state}"
    example = "SubnSet(SMInfo) with modifier 2 (ACKNOWLEDGE) and SMState 3 (Master)"


class LedInfoReserved(Rule):
    """A LedInfo has reserved bits set.

    ## Why it matters
    Only the most significant bit switches the LED; a 1 in the last bit does nothing, though the sender believes that the lamp is on.

    ## What to do
    Write 0x80000000 for on and 0 for off.
    """

    code, name, severity = "SEM054", "ledinfo-reserved", INFO
    reference = "IBA 14.2.5.15; seed000 table 29-2"
    on = LedInfo
    when = (LedInfo.reserved1 != 0) & TOLD
    at = LedInfo.reserved1
    flow = (LRH.slid,)
    message = "LedInfo has reserved bits 0x{reserved1:08x}; only the first bit counts"
    example = "SubnSet(LedInfo) with the word 0x00000001"
