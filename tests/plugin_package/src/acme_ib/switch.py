"""Management datagrams of ACME's switches: the vendor class 0x0D, and data under ACME's OUI."""

from ibdissect.wire.places import Mad, VendorOui
from ibdissect.wire.spec import Struct, enum, rest, text, uint

OUI = 0x00ACE1


class Temperature(Struct):
    """Temperature of a switch and the limit at which it turns itself off."""

    prefix, key, section, size = "acme", "temperature", "ACME PRM 3", 8
    carried_by = (Mad(0x0D, 0x0101),)
    sensor = uint(16, "Sensor", at="0")
    celsius = uint(16, "Celsius", at="2", unit="°C")
    limit = uint(16, "Limit", at="4", unit="°C")
    state = enum(16, {0: "cold", 1: "warm", 2: "off"}, "State", at="6")


class Inventory(Struct):
    """Serial number of a unit, under ACME's OUI in vendor class 0x30."""

    prefix, key, section, size = "acme", "inventory", "ACME PRM 4", 16
    carried_by = (VendorOui(OUI, 0x30, 0x0001),)
    serial = text(16, "Serial", at="0")
    notes = rest("Notes", at="16")
