"""Which counters show the quality of a fast link's lanes?"""

from __future__ import annotations

from .places import Mad
from .pm import shown_port
from .spec import Struct, array, pad, uint


class PortExtendedSpeedsCounters(Struct):
    """Block and FEC counters of a port at FDR and above, by lane.

    With RS-FEC active the correctable block counters of the lanes are symbol counters, the uncorrectable ones are unused
    and the three port totals after them count; the packet does not say which FEC is active (PortInfoExtended does).
    """

    key, section, size = "portextendedspeedscounters", "libibmad fields.c", 152
    carried_by = (Mad(0x04, 0x001F),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    reserved_16 = pad(48, at="2")
    counter_select = uint(64, "CounterSelect", at="8", base="hex")
    sync_header_error_counter = uint(16, "SyncHeaderErrorCounter", at="16")
    unknown_block_counter = uint(16, "UnknownBlockCounter", at="18")
    error_detection_counter_lane = array(12, uint(16, "ErrorDetectionCounterLane", at="20"))
    fec_correctable_block_ctr_lane = array(12, uint(32, "FECCorrectableBlockCtrLane", at="44"))
    fec_uncorrectable_block_ctr_lane = array(12, uint(32, "FECUncorrectableBlockCtrLane", at="92"))
    port_fec_correctable_block_ctr = uint(32, "PortFECCorrectableBlockCtr", at="140")
    port_fec_uncorrectable_block_ctr = uint(32, "PortFECUncorrectableBlockCtr", at="144")
    port_fec_corrected_symbol_ctr = uint(32, "PortFECCorrectedSymbolCtr", at="148")
