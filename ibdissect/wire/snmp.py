"""SNMP tunneling MADs (class 0x08)."""

from .places import Mad, MadFormat
from .spec import Struct, hole, lid, pad, raw, text, uint


class SNMPTunnelingFormat(Struct):
    """The format of every SNMP tunneling MAD: the source of a PDU, the segment number, and 192 bytes of the PDU."""

    key, section, size = "snmp", "IBA 16.4.1", 256
    carried_by = (MadFormat(0x08),)
    header = hole(24, "MAD header", at="0")
    reserved_192 = pad(256, at="24")
    raddress = uint(32, "RAddress", at="56", base="hex", holds="data")
    payload_length = uint(8, "PayloadLength", at="60", unit="bytes")
    segment_number = uint(8, "SegmentNumber", at="61")
    source_lid = lid("SourceLID", at="62")
    data = hole(192, "SNMP Data", at="64")


class CommunityInfo(Struct):
    """The community name that an SNMP agent accepts."""

    key, section, size = "communityinfo", "IBA 16.4.3.2", 64
    carried_by = (Mad(0x08, 0x0010),)
    community_name = text(64, "CommunityName", at="0")


class PduInfo(Struct):
    """A segment of an SNMP PDU (ASN.1 BER), of which PayloadLength bytes are valid."""

    key, section, size = "pduinfo", "IBA 16.4.3.3", 192
    carried_by = (Mad(0x08, 0x0011),)
    pdu_data = raw(192, "PDUData", at="0")
