"""Text of a field's value: the same for tree, JSON `text`, messages and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from .spec import Field

Paint = Callable[[str, str], str]
"""(text, style) -> text with the colours of a style: severities, `path`, `faint`, `label`, ... (`cli.common_options.STYLES`)."""


def plain(text: str, style: str) -> str:
    """No colour."""
    return text


def printable(text: str) -> str:
    """`text` with everything that could control a terminal or is invisible replaced by a visible escape.

    These are the characters not printable in Unicode: controls, bidi and zero-width marks, surrogates, tags, non-characters, odd spaces.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def counted(count: int, noun: str, form: str = "") -> str:
    """`1 switch`, `2 switches`; with the format `,` also `1,965 frames`."""
    return f"{count:{form}} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """`switches`, `entries`, `keys`."""
    return re.sub("(?<![aeo])y$", "ie", noun) + ("es" if noun.endswith("ch") else "s")


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, first and last."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def visible_json(text: str) -> str:
    """A JSON text with unprintable characters as JSON escapes: the same value, safe on a terminal and in any encoding."""
    if text.replace("\n", "").isprintable():
        return text
    import json  # rarely needed, and importing it takes a millisecond

    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def lid_of(address: str) -> int | None:
    """The LID in `LID 7`; None for other addresses."""
    return int(address[4:]) if address.startswith("LID ") and address[4:].isdecimal() else None


def gid_text(data: bytes) -> str:
    """A GID as RFC 5952 text, IPv4-mapped ones as ::ffff:1.2.3.4."""
    from ipaddress import IPv6Address  # many captures have no GIDs, and importing it takes a millisecond

    address = IPv6Address(data)
    mapped = address.ipv4_mapped
    return f"::ffff:{mapped}" if mapped is not None else str(address)


def ip4_text(data: bytes) -> str:
    return ".".join(map(str, data))


def hex_text(value: int, bits: int) -> str:
    """A hexadecimal number padded to the field's width."""
    return f"0x{value:0{(bits + 3) // 4}x}"


def number_text(field: Field[Any], value: int) -> str:
    """The bare number in the field's base."""
    return hex_text(value, field.bits) if field.base in ("hex", "guid") else str(value)


def plain_value(field: Field[Any], value: Any) -> Any:
    """The value for JSON and filters: int, bool, GID and address text, hex for raw bytes, str."""
    if field.kind == "gid":
        return gid_text(value)
    if field.kind == "mac":
        return value.hex(":")
    if field.kind == "ip4":
        return ip4_text(value)
    return value.hex() if isinstance(value, bytes) else value


def value_text(field: Field[Any], value: Any) -> str:
    """The displayed value: value name with number, units, addresses; unprintable characters in strings escaped."""
    if field.kind in ("gid", "mac", "ip4", "raw", "rest", "hole"):
        return str(plain_value(field, value))
    if field.kind == "text":
        return printable(value)
    if field.kind == "flag":
        return "True" if value else "False"
    number = number_text(field, value)
    if field.show is not None:
        return field.show(value)
    if field.values is not None:
        name = field.values.get(value)
        return f"{name} ({number})" if name is not None else f"unknown ({number})"
    return f"{number} {field.unit}" if field.unit else number
