"""Sampling of a port's counters over an interval (PortSamplesControl, PortSamplesResult)."""

from .places import Mad
from .pm import shown_port
from .spec import Struct, array, enum, pad, uint

SAMPLE_STATES = {0: "done", 1: "waiting for SampleStart", 2: "running"}
"""SampleStatus (ib_pma.h)."""

COUNTER_WIDTHS = {4: "32 bits"}
"""CounterWidth; the qib driver reports 4 for its 32-bit counters, other values are in no public source."""

EXTENDED_WIDTHS = {1: "48 bits", 2: "64 bits"}
"""ExtendedWidth (ib_pma.h as used by qib and hfi1)."""

SAMPLED_COUNTERS = {
    0x0001: "PortXmitData", 0x0002: "PortRcvData", 0x0003: "PortXmitPkts", 0x0004: "PortRcvPkts", 0x0005: "PortXmitWait",
}  # fmt: skip
"""The mandatory counters for CounterSelect (IBA 16.1.3.3)."""


class PortSamplesControl(Struct):
    """Arms a sampling mechanism of a port: which counters, when, for how long."""

    key, section, size = "portsamplescontrol", "IBA 16.1.3.2", 192
    carried_by = (Mad(0x04, 0x0010),)
    op_code = uint(8, "OpCode", at="0", base="hex")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    tick = uint(8, "Tick", at="2", base="hex")
    reserved_24 = pad(5, at="3")
    counter_width = enum(3, COUNTER_WIDTHS, "CounterWidth", at="3[5]")
    reserved_32 = pad(2, at="4")
    counter_mask0 = uint(3, "CounterMask0", at="4[2]")
    counter_mask1 = uint(3, "CounterMask1", at="4[5]")
    counter_mask2 = uint(3, "CounterMask2", at="5")
    counter_mask3 = uint(3, "CounterMask3", at="5[3]")
    counter_mask4 = uint(3, "CounterMask4", at="5[6]")
    counter_mask5 = uint(3, "CounterMask5", at="6[1]")
    counter_mask6 = uint(3, "CounterMask6", at="6[4]")
    counter_mask7 = uint(3, "CounterMask7", at="6[7]")
    counter_mask8 = uint(3, "CounterMask8", at="7[2]")
    counter_mask9 = uint(3, "CounterMask9", at="7[5]")
    reserved_64 = pad(1, at="8")
    counter_mask10 = uint(3, "CounterMask10", at="8[1]")
    counter_mask11 = uint(3, "CounterMask11", at="8[4]")
    counter_mask12 = uint(3, "CounterMask12", at="8[7]")
    counter_mask13 = uint(3, "CounterMask13", at="9[2]")
    counter_mask14 = uint(3, "CounterMask14", at="9[5]")
    sample_mechanisms = uint(8, "SampleMechanisms", at="10")
    reserved_88 = pad(6, at="11")
    sample_status = enum(2, SAMPLE_STATES, "SampleStatus", at="11[6]")
    option_mask = uint(64, "OptionMask", at="12", base="hex")
    vendor_mask = uint(64, "VendorMask", at="20", base="hex")
    sample_start = uint(32, "SampleStart", at="28", unit="ticks")
    sample_interval = uint(32, "SampleInterval", at="32", unit="ticks")
    tag = uint(16, "Tag", at="36", base="hex")
    for _i in range(15):
        vars()[f"counter_select{_i}"] = enum(16, SAMPLED_COUNTERS, f"CounterSelect{_i}", at=str(38 + 2 * _i), base="hex")
    reserved_544 = pad(32, at="68")
    samples_only_option_mask = uint(64, "SamplesOnlyOptionMask", at="72", base="hex")
    reserved_640 = pad(896, at="80")


class PortSamplesResult(Struct):
    """What a sampling mechanism counted: one 32-bit value for each selected counter."""

    key, section, size = "portsamplesresult", "IBA 16.1.3.4", 64
    carried_by = (Mad(0x04, 0x0011),)
    tag = uint(16, "Tag", at="0", base="hex")
    reserved_16 = pad(14, at="2")
    sample_status = enum(2, SAMPLE_STATES, "SampleStatus", at="3[6]")
    counter = array(15, uint(32, "Counter", at="4"))


class PortSamplesResultExtended(Struct):
    """What a sampling mechanism counted, as 64-bit values."""

    key, section, size = "portsamplesresult_ext", "IBA 16.1.4.10", 128
    carried_by = (Mad(0x04, 0x001E),)
    tag = uint(16, "Tag", at="0", base="hex")
    reserved_16 = pad(14, at="2")
    sample_status = enum(2, SAMPLE_STATES, "SampleStatus", at="3[6]")
    extended_width = enum(2, EXTENDED_WIDTHS, "ExtendedWidth", at="4")
    reserved_34 = pad(30, at="4[2]")
    counter = array(15, uint(64, "Counter", at="8"))
