"""A plugin with every form of a part of variable size: a vendor's attribute."""

from __future__ import annotations

from ibdissect.words import (
    Struct,
    VendorOui,
    bit,
    case,
    choice,
    enum,
    flag,
    nested,
    optional,
    pad,
    part,
    raw,
    repeat,
    secret,
    text,
    text_until,
    uint,
)

OUI = 0x00ACE4


class ListedPoint(Struct):
    """An entry of fixed size."""

    prefix, key, section, size = "listed", "point", "LISTED 1", 3
    kind = enum(8, {1: "near", 2: "far"}, "Point Kind")
    distance = uint(16, "Distance", unit="m")


class ListedLock(Struct):
    """A case with a key."""

    prefix, key, section, size = "listed", "lock", "LISTED 2.1", 6
    since = uint(16, "Since", unit="s")
    secret_ = secret(32, "Listed_Key", "Lock Key")


class ListedNote(Struct):
    """A case of variable size."""

    prefix, key, section, size = "listed", "note", "LISTED 2.2", 1
    length = uint(8, "Note Length", unit="bytes")
    note = text(length, "Note")


class ListedTlv(Struct):
    """Type, length of all but the padding, value, padding to four bytes."""

    prefix, key, section, size = "listed", "tlv", "LISTED 2", 2
    type = uint(8, "TLV Type", holds="number")
    length = uint(8, "TLV Length", unit="bytes")
    value = choice(type, {1: ListedLock, 2: ListedNote}, "TLV Value", size=length - 2, align=4)


class ListedAdded(Struct):
    """A case that is added to the table."""

    prefix, key, section, size = "listed", "added", "LISTED 2.3", 2
    carried_by = case(ListedTlv.value, 3, 4)
    number = uint(16, "Added Number", unit="things")


class Listed(Struct):
    """The attribute."""

    prefix, key, section, size = "listed", "head", "LISTED 3", 8
    carried_by = VendorOui(OUI, 0x32, 0x0300)
    count = uint(8, "Point Count", at="0", holds="number")
    has_more = flag("Has More", at="1[0]")
    _1 = pad(7)
    tlv_bytes = uint(16, "TLV Bytes", at="2", unit="bytes")
    packed = uint(32, "Packed", at="4", little=True)
    low = part(packed, 3, 0, "Packed Low")
    middle = part(packed, 17, 4, "Packed Middle")
    top = bit(packed, 31, "Packed Top")
    points = repeat(nested(ListedPoint, "Point"), count=count)
    behind = uint(16, "Behind", unit="steps")
    more = optional(has_more == 1, uint(32, "More Number", unit="steps"))
    tlvs = repeat(nested(ListedTlv, "TLV"), size=tlv_bytes, until=ListedTlv.type == 255)
    numbers = repeat(uint(16, "Small Number", unit="steps"), count=2)
    blob = raw(behind & 3, "Blob")
    names = repeat(text_until(b"\0", "Name"))
