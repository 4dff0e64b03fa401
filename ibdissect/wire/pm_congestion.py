"""Counters of a port's congestion, and of the traffic of each service level."""

from .places import Mad
from .pm import OfPort
from .spec import array, uint


class SwPortVLCongestion(OfPort):
    """Packets dropped or delayed for congestion by a switch port, by virtual lane."""

    key, section, size = "swportvlcongestion", "IBA 16.1.4.9", 36
    carried_by = (Mad(0x04, 0x0030),)
    sw_port_vl_congestion = array(16, uint(16, "SwPortVLCongestion", at="4"))


class PortRcvConCtrl(OfPort):
    """Packets received with FECN and BECN set."""

    key, section, size = "portrcvconctrl", "IBA annex A10; libibmad", 12
    carried_by = (Mad(0x04, 0x0031),)
    port_pkt_rcv_fecn = uint(32, "PortPktRcvFECN", at="4")
    port_pkt_rcv_becn = uint(32, "PortPktRcvBECN", at="8")


class PortSLRcvFECN(OfPort):
    """Packets received with FECN set, by service level."""

    key, section, size = "portslrcvfecn", "IBA annex A10; libibmad", 68
    carried_by = (Mad(0x04, 0x0032),)
    port_sl_rcv_fecn = array(16, uint(32, "PortSLRcvFECN", at="4"))


class PortSLRcvBECN(OfPort):
    """Packets received with BECN set, by service level."""

    key, section, size = "portslrcvbecn", "IBA annex A10; libibmad", 68
    carried_by = (Mad(0x04, 0x0033),)
    port_sl_rcv_becn = array(16, uint(32, "PortSLRcvBECN", at="4"))


class PortXmitConCtrl(OfPort):
    """Time a port spent in the congested state."""

    key, section, size = "portxmitconctrl", "IBA annex A10; libibmad", 8
    carried_by = (Mad(0x04, 0x0034),)
    port_xmit_time_cong = uint(32, "PortXmitTimeCong", at="4")


class PortVLXmitTimeCong(OfPort):
    """Time a port spent in the congested state, by data virtual lane."""

    key, section, size = "portvlxmittimecong", "IBA annex A10; libibmad", 64
    carried_by = (Mad(0x04, 0x0035),)
    port_vl_xmit_time_cong = array(15, uint(32, "PortVLXmitTimeCong", at="4"))


class PortXmitDataSL(OfPort):
    """Data sent, by service level."""

    key, section, size = "portxmitdatasl", "IBA A13.6.5", 68
    carried_by = (Mad(0x04, 0x0036),)
    port_xmit_data_sl = array(16, uint(32, "PortXmitDataSL", at="4", unit="words of 4 bytes"))


class PortRcvDataSL(OfPort):
    """Data received, by service level."""

    key, section, size = "portrcvdatasl", "IBA A13.6.5", 68
    carried_by = (Mad(0x04, 0x0037),)
    port_rcv_data_sl = array(16, uint(32, "PortRcvDataSL", at="4", unit="words of 4 bytes"))
