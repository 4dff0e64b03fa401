"""ZED's vendor class: lanes, a name, TLVs with a key; a stream protocol; private data."""
from ibdissect.words import CmPayload, CmService, Stream, Struct, UdpPort, VendorOui, choice, column  # isort: skip
from ibdissect.words import enum, flag, guid, lid, nested, pad, repeat, secret, text, uint  # isort: skip


class Zed(Struct, prefix="zed"):
    """What ZED declares."""


class Threshold(Zed, section="ZED 2"):
    low = uint(16, "Low", at="0")
    high = uint(16, "High", at="2")


class Lane(Zed, section="ZED 4"):
    lane = uint(8, "Lane", at="0")
    state = enum(4, {0: "down", 1: "up"}, "Lane State", at="1[0]")
    fec = flag("FEC", at="1[4]")
    errors = uint(16, "Lane Errors", at="..2")
    peer = lid("Peer LID", at="4")
    _ = pad(16, at="6")


class Optics(Zed, section="ZED 6.1"):
    wavelength = uint(16, "Wavelength", at="0", unit="nm")
    temperature = uint(16, "Temperature", at="2", unit="°C")
    key_ = secret(32, "Optics_Key", "Optics Key", at="4")


class Power(Zed, section="ZED 6.2"):
    watts = uint(32, "Watts", at="0", unit="W", little=True)


class Tlv(Zed, section="ZED 6"):
    type = enum(16, {1: "optics", 2: "power"}, "TLV Type", at="0")
    length = uint(16, "TLV Length", at="2", unit="bytes")
    value = choice(type, {1: Optics, 2: Power}, "TLV Value", size=length)


class Inventory(Zed, section="ZED 3", carried_by=VendorOui(0x00ACE2, 0x32, 0x0100)):
    version = uint(8, "Version", at="0")
    kind = enum(8, {1: "optical", 2: "copper"}, "Kind", at="1")
    count = uint(16, "Lane Count", at="2")
    lane_key = secret(64, "L_Key", "Lane Key", at="4")
    chassis = guid("Chassis GUID", at="12")
    name_length = uint(16, "Name Length", at="20", unit="bytes")
    hot = flag("Hot", at="..22[5]")
    speed = enum(4, {1: "slow", 2: "fast"}, "Speed", at="22[6]")
    limits = nested(Threshold, "Limits", at="..24")
    serial = uint(32, "Serial", at="28", base="hex")
    lanes = repeat(nested(Lane, "Lane"), count=count)
    name = text(name_length, "Chassis Name")
    tlvs = repeat(nested(Tlv, "TLV"), until=Tlv.type == 0)


up = column(Lane, "isup", Lane.state != 0, "Is up")
width = column(Threshold, "span", Threshold.high - Threshold.low, "Span")
COLUMNS = ("zed.inventory.kind", "zed.lane.errors")


class Hello(Zed, section="ZED 8", carried_by=CmService(0x0000_00AC_E200_0007, messages=frozenset({0x10}))):
    magic = uint(32, "Magic", at="0", base="hex")
    token = secret(32, "R_Key", "Token", at="4")


class Item(Zed, section="ZED 9.1"):
    size_ = uint(16, "Item Size", at="0", unit="bytes")
    text = text(size_, "Item Text")


class Pdu(Zed, section="ZED 9"):
    op = enum(8, {1: "read", 2: "reply"}, "Operation", at="0")
    tag = uint(8, "Tag", at="1", holds="number")
    length = uint(16, "PDU Length", at="2", unit="bytes")
    session = secret(32, "S_Key", "Session Key", at="4")
    items = repeat(nested(Item, "Item"))
    carried_by = Stream(CmPayload(0x0000_00AC_E200_0007), length=length), UdpPort(5555)
