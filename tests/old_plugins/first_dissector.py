"""The plugin of docs/first-dissector.md: ACME's temperature attribute, and the messages on connections to ACME's service."""

from collections.abc import Iterator

from ibdissect.wire.column import column
from ibdissect.wire.places import CmPayload, Mad, Parsed
from ibdissect.wire.spec import Struct, enum, rest, uint

STATES = {0: "cold", 1: "warm", 2: "off"}


class Temperature(Struct):
    """Temperature of a switch and the limit at which it turns itself off."""

    prefix, key, section, size = "acme", "temperature", "ACME PRM 3", 8
    carried_by = (Mad(0x0D, 0x0101),)
    sensor = uint(16, "Sensor", at="0")
    celsius = uint(16, "Celsius", at="2", unit="°C")
    limit = uint(16, "Limit", at="4", unit="°C")
    state = enum(16, STATES, "State", at="6")


left = column(Temperature, "left", Temperature.limit - Temperature.celsius, "Degrees left", unit="°C")


class Stream(Struct):
    """Header of a message on a connection to ACME's service."""

    prefix, key, section, size = "acme", "stream", "ACME PRM 9.2", 4
    carried_by = (CmPayload(0x0000_00AC_E000_0001),)
    tag = uint(16, "Tag", at="0", base="hex")
    window = uint(8, "Window", at="2")
    used = uint(8, "Used", at="3")
    body = rest("Body", at="4")


def find_values(body: bytes) -> Iterator[tuple[int, int]]:
    """Type, length, value, up to the end: where each starts and ends."""
    at = 0
    while at + 2 <= len(body):
        stop = at + 2 + body[at + 1]
        yield at, stop
        at = stop


class Value(Struct):
    """One tagged value of a message."""

    prefix, key, section, size, title = "acme", "value", "ACME PRM 9.3", 2, "Tagged value"
    carried_by = (Parsed(Stream.body, find_values),)
    type = uint(8, "Type", at="0")
    length = uint(8, "Length", at="1", unit="bytes")
    data = rest("Data", at="2", show=lambda data: data.decode("ascii", "replace"))


COLUMNS = ("acme.temperature.celsius",)
