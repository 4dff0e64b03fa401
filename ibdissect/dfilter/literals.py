"""Values of words, strings and characters in a display filter, for comparison with a field of a given type."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from ibdissect.decode.comparisons import Network
from ibdissect.wire.convert import parse_guid

from .names import KIND_NAMES, Kind, NameSource

# Compiled on first use, and cached by `re`: most filters need one or two of these.
_BYTES = r"(?:[0-9A-Fa-f]{2}[:.-]?)*(?:[0-9A-Fa-f]{1,2})"
_NUMBER = r"(0[xX][0-9A-Fa-f]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)\Z"
_SECONDS = r"(\d+)(?:\.(\d+))?\Z"
_ESCAPE = rb"(?s)\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.)|\Z)"
_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b"'": 39, b'"': 34, b"\\": 92}
_TIME = r"(?:[T ]+(?P<time>\d\d:\d\d(?P<seconds>:\d\d(?:\.(?P<fraction>\d{1,9}))?)?))?(?P<zone>\s*(?:Z|UTC)|[+-]\d\d:?\d\d)?\Z"
_ISO, _NAMED = r"(?P<day>\d{4}-\d\d-\d\d)" + _TIME, r"(?P<day>[A-Z][a-z]{2}\s+\d{1,2},\s+\d{4})" + _TIME.replace("[T ]", " ")
MAX_DIGITS = 80
"""Longest number parsed; no field is larger, and Python refuses to parse very long ones."""


class BadLiteral(Exception):
    """The text is not a value of the required type; has the reason and perhaps a hint."""

    def __init__(self, reason: str, hint: str = "", at: int = 0) -> None:
        self.reason, self.hint, self.at = reason, hint, at
        super().__init__(reason)


Value = int | bytes | Network


def unescape(text: str) -> bytes:
    """The bytes of a quoted string or character (quotes included); raw strings keep their backslashes."""
    if text[0] in "rR":
        return text[2:-1].encode("utf-8", "replace")
    body = text[1:-1].encode("utf-8", "replace")
    out, at = bytearray(), 0
    while (found := body.find(b"\\", at)) >= 0:
        out += body[at:found]
        match = re.compile(_ESCAPE).match(body, found)
        code = -1
        if match is not None:
            if match[1]:
                code = int(match[1], 16)
            elif match[2]:
                code = int(match[2], 8)
            else:
                code = _ESCAPES.get(match[3] or b"", -1)
        if match is None or not 0 <= code <= 255:
            shown = body[found : found + 2].decode("ascii", "replace")
            raise BadLiteral(f"{shown} is not an escape in a string", 'a backslash is written \\\\, or the string r"..."', found + 1)
        out.append(code)
        at = match.end()
    return bytes(out + body[at:])


def of_char(text: str) -> int:
    data = unescape(text)
    if len(data) != 1:
        raise BadLiteral("a character constant is empty" if not data else f"{text} is more than one byte")
    return data[0]


def byte_string(text: str) -> bytes | None:
    """Bytes written as `aa:bb`, `aa-bb`, `aa.bb`, `aabb`, a single digit, or one byte as 0xaa; None if invalid."""
    if len(text) == 4 and text[:2] == "0x":
        text = text[2:]
    if not re.fullmatch(_BYTES, text.rstrip(":") or "?"):
        return None
    return bytes(int(pair, 16) for pair in re.findall("[0-9A-Fa-f]{1,2}", text))


def of_word(text: str, kind: Kind, source: NameSource | None) -> Value:
    if kind == "uint":
        return _number(text, source)
    if kind == "bool":
        return _flag(text)
    if kind == "string":
        return text.encode("utf-8", "replace")
    if kind == "ether":
        return _ether(text)
    if kind in ("ipv4", "ipv6"):
        return _address(text, kind)
    if kind == "abstime":
        return _seconds(text, epoch=True) if source is not None and source.name == "frame.time_epoch" else date(text)
    if kind == "reltime":
        return _seconds(text)
    data = byte_string(text)
    if data is None:
        raise BadLiteral(f'"{text}" is not a byte sequence', "bytes are written 00:1a:ff, text in quotes")
    return data


def of_string(text: str, kind: Kind, source: NameSource | None) -> Value:
    data = unescape(text)
    if kind in ("string", "bytes"):
        return data
    plain = data.decode("utf-8", "replace")
    if kind == "bool":
        return _flag(plain)
    if kind == "abstime":
        return date(plain)
    if kind == "uint" and source is not None and source.values:
        return _named(plain, source)
    raise BadLiteral(f"{text} is a string, but the field is {KIND_NAMES[kind]}", "leave the quotes out" if kind != "uint" else "")


def _number(text: str, source: NameSource | None) -> int:
    if re.match(_NUMBER, text):
        octal = len(text) > 1 and text[0] == "0" and text[1].isdigit()
        limit = source.limit if source is not None else (1 << 64) - 1
        number = limit + 1 if len(text) > MAX_DIGITS else int(text, 8 if octal else 0)
        if number > limit:
            shown = text if len(text) <= 40 else f"{text[:20]}... ({len(text)} characters)"
            raise BadLiteral(f"{shown} is too big for this field, its largest value is {limit}")
        return number
    if source is not None and ":" in text:
        return _number_of_bytes(text, source)
    if source is not None and (source.values or source.numbers) and not text[0].isdigit():
        return _named(text, source)
    raise BadLiteral(f'"{text}" is not a number', _number_hint(text))


def _number_of_bytes(text: str, source: NameSource) -> int:
    """A number written as all its bytes, or a GUID in groups, because some of these fields are byte fields in Wireshark."""
    if any(field.base == "guid" for field in source.fields):
        try:
            return parse_guid(text)
        except ValueError as error:
            raise BadLiteral(str(error)) from None
    data = byte_string(text)
    if data is None or len(data) * 8 != max((field.bits for field in source.fields), default=0):
        raise BadLiteral(f'"{text}" is not a number')
    return int.from_bytes(data, "big")


def _number_hint(text: str) -> str:
    if re.fullmatch("0[0-9]+", text):
        return "a number that starts with 0 is octal"
    if re.fullmatch("[0-9A-Fa-f]+", text):
        return f"did you mean 0x{text}"
    return ""


def _named(text: str, source: NameSource) -> int:
    """The number of a value name; case and punctuation are ignored because Wireshark writes "Get()"."""
    known = {_letters(name): number for number, name in source.values.items()}
    known |= {_letters(name): number for name, number in source.numbers.items()}
    spelled = {_letters(name): name for name in (*source.values.values(), *source.numbers)}
    wanted = _letters(text)
    if wanted in known:
        return known[wanted]
    import difflib

    near = difflib.get_close_matches(wanted, known, 3, 0.5)
    names = ", ".join(f'"{spelled[name]}"' for name in near)
    raise BadLiteral(f'"{text}" is not a name of a value of {source.name}', f"did you mean {names}" if names else "")


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _flag(text: str) -> int:
    known = {"true": 1, "set": 1, "false": 0, "not set": 0}
    if text.lower() in known:
        return known[text.lower()]
    if not re.match(_NUMBER, text):
        raise BadLiteral(f'"{text}" is neither true nor false', "flags are 1, 0, True or False")
    return _number(text, None)


def _ether(text: str) -> bytes:
    data = byte_string(text)
    if data is None or len(data) != 6:
        problem = "is not a MAC address" if data is None else f"has {len(data)} bytes, a MAC address has 6"
        raise BadLiteral(f'"{text}" {problem}')
    return data


def _address(text: str, kind: Kind) -> bytes | Network:
    import ipaddress

    plain, slash, prefix = text.partition("/")
    size = 4 if kind == "ipv4" else 16
    try:
        if size == 4:
            data = ipaddress.IPv4Address(plain).packed
        elif "%" in plain:
            raise ValueError(plain)
        else:
            data = ipaddress.IPv6Address(plain).packed
    except ValueError:
        raise BadLiteral(f'"{text}" is not {"an IPv4 address" if size == 4 else "a GID or IPv6 address"}') from None
    if not slash:
        return data
    if len(prefix) > 3 or int(prefix) > size * 8:
        raise BadLiteral(f"a prefix length is at most {size * 8}, not {prefix}")
    return Network(data, int(prefix))


def _seconds(text: str, *, epoch: bool = False) -> int:
    """Nanoseconds of seconds; `epoch`: since 1970, or of a date."""
    found = re.match(_SECONDS, text)
    if found is None and epoch:
        return date(text)
    if found is None or len(found[1]) > 9 + epoch:
        raise BadLiteral(f'"{text}" is {"beyond the range of times" if epoch else "not a time in seconds"}')
    return int(found[1]) * 10**9 + int((found[2] or "0")[:9].ljust(9, "0"))


def date(text: str) -> int:
    """Nanoseconds since 1970 of a date; local time unless it gives UTC or an offset."""
    plain = text.strip()
    found = re.match(_ISO, plain) or re.match(_NAMED, plain)
    if found is None:
        raise BadLiteral(f'"{text}" is not a date', '"2011-07-04 12:34:56.5" or "Nov 12, 1999 08:55:44Z"')
    day, time, zone = found["day"], (found["time"] or "00:00").partition(".")[0], (found["zone"] or "").strip().replace("UTC", "Z")
    form = f"{'%Y-%m-%d' if day[0].isdigit() else '%b %d, %Y'} %H:%M{':%S' * bool(found['seconds'])} {'%z' * bool(zone)}"
    try:
        seconds = (datetime.strptime(f"{day} {time} {zone}", form).astimezone() - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise BadLiteral(f'"{text}" is not a date') from None
    if not 0 <= seconds < 1 << 33:
        raise BadLiteral(f'"{text}" is outside 1970 to 2242')
    return seconds * 10**9 + int((found["fraction"] or "0").ljust(9, "0"))
