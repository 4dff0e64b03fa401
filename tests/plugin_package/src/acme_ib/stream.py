"""ACME's stream protocol, spoken on connections to its service: a header, then tagged values whose number nobody announces."""

from collections.abc import Iterator

from scapy.fields import FieldLenField, ShortField, StrLenField
from scapy.packet import Packet

from ibdissect.wire.column import column
from ibdissect.wire.places import CmPayload, CmService, DestQP, Ethertype, Parsed, UdpPort
from ibdissect.wire.spec import Struct, rest, uint

SERVICE = 0x0000_00AC_E000_0001


class Hello(Struct):
    """What the active side says in the private data of its REQ."""

    prefix, key, section, size = "acme", "hello", "ACME PRM 9.1", 4
    carried_by = (CmService(SERVICE, messages=frozenset({0x0010})),)
    version = uint(16, "Version", at="0")
    window = uint(16, "Window", at="2", unit="messages", little=True)


class Stream(Struct):
    """Header of a message."""

    prefix, key, section, size = "acme", "stream", "ACME PRM 9.2", 4
    carried_by = (CmPayload(SERVICE),)
    tag = uint(16, "Tag", at="0", base="hex")
    window = uint(8, "Window", at="2")
    used = uint(8, "Used", at="3")
    body = rest("Body", at="4")


left = column(Stream, "left", Stream.window - Stream.used, "Window left")
kind = column(Stream, "kind", lambda stream: "control" if stream.tag & 0x8000 else f"data {stream.tag}", "Kind", kind="text")


def find_values(body: bytes) -> Iterator[tuple[int, int]]:
    """Type, length, value, up to the end."""
    at = 0
    while at + 2 <= len(body):
        stop = at + 2 + body[at + 1]
        yield at, stop
        at = stop


class Value(Struct):
    """One tagged value."""

    prefix, key, section, size, title = "acme", "value", "ACME PRM 9.3", 2, "Tagged value"
    carried_by = (Parsed(Stream.body, find_values),)
    type = uint(8, "Type", at="0")
    length = uint(8, "Length", at="1", unit="bytes")
    data = rest("Data", at="2", show=lambda data: data.decode("ascii", "replace"))


class Beacon(Packet):
    """A class written for Scapy: text whose length is counted, then a number behind it."""

    name = "ACME beacon"
    prefix, key = "acme", "beacon"
    carried_by = (UdpPort(7777), DestQP(0xACE), Ethertype(0x88B5))
    fields_desc = [
        ShortField("sequence", 0), FieldLenField("size", None, length_of="text", fmt="B"),
        StrLenField("text", b"", length_from=lambda pkt: pkt.size), ShortField("port", 0),
    ]  # fmt: skip
