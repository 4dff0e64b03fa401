"""Which counters show how congested a port is, and how much traffic each service level carries?"""

from __future__ import annotations

from .places import Mad
from .pm import shown_port
from .spec import Struct, array, pad, uint


class SwPortVLCongestion(Struct):
    """Packets dropped or delayed for congestion by a switch port, by virtual lane."""

    key, section, size = "swportvlcongestion", "IBA 16.1.4.9", 36
    carried_by = (Mad(0x04, 0x0030),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")
    sw_port_vl_congestion = array(16, uint(16, "SwPortVLCongestion", at="4"))


class PortRcvConCtrl(Struct):
    """Packets received with FECN and BECN set."""

    key, section, size = "portrcvconctrl", "IBA annex A10; libibmad", 12
    carried_by = (Mad(0x04, 0x0031),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")
    port_pkt_rcv_fecn = uint(32, "PortPktRcvFECN", at="4")
    port_pkt_rcv_becn = uint(32, "PortPktRcvBECN", at="8")


class PortSLRcvFECN(Struct):
    """Packets received with FECN set, by service level."""

    key, section, size = "portslrcvfecn", "IBA annex A10; libibmad", 68
    carried_by = (Mad(0x04, 0x0032),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")
    port_sl_rcv_fecn = array(16, uint(32, "PortSLRcvFECN", at="4"))


class PortSLRcvBECN(Struct):
    """Packets received with BECN set, by service level."""

    key, section, size = "portslrcvbecn", "IBA annex A10; libibmad", 68
    carried_by = (Mad(0x04, 0x0033),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")
    port_sl_rcv_becn = array(16, uint(32, "PortSLRcvBECN", at="4"))


class PortXmitConCtrl(Struct):
    """Time a port spent in the congested state."""

    key, section, size = "portxmitconctrl", "IBA annex A10; libibmad", 8
    carried_by = (Mad(0x04, 0x0034),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")
    port_xmit_time_cong = uint(32, "PortXmitTimeCong", at="4")


class PortVLXmitTimeCong(Struct):
    """Time a port spent in the congested state, by data virtual lane."""

    key, section, size = "portvlxmittimecong", "IBA annex A10; libibmad", 64
    carried_by = (Mad(0x04, 0x0035),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")
    port_vl_xmit_time_cong = array(15, uint(32, "PortVLXmitTimeCong", at="4"))


class PortXmitDataSL(Struct):
    """Data sent, by service level."""

    key, section, size = "portxmitdatasl", "IBA A13.6.5", 68
    carried_by = (Mad(0x04, 0x0036),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")
    port_xmit_data_sl = array(16, uint(32, "PortXmitDataSL", at="4", unit="words of 4 bytes"))


class PortRcvDataSL(Struct):
    """Data received, by service level."""

    key, section, size = "portrcvdatasl", "IBA A13.6.5", 68
    carried_by = (Mad(0x04, 0x0037),)
    reserved_0 = pad(8, at="0")
    port_select = uint(8, "PortSelect", at="1", show=shown_port)
    counter_select = uint(16, "CounterSelect", at="2", base="hex")
    port_rcv_data_sl = array(16, uint(32, "PortRcvDataSL", at="4", unit="words of 4 bytes"))
