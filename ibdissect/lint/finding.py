"""What a rule found: where, what, how it is known."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from ibdissect.record import record
from ibdissect.wire.spec import Field, Struct
from ibdissect.wire.text import gid_text, printable, value_text

PASSING_NAME = (
    r"(?:^|[._])(?:psn|msn|tid|transaction_id|va|qp|destqp|srcqp|seconds|milliseconds|microseconds|tries|count|packets|window|segment|offset"
    r"|loss_counter|following|captured)$|counter|violations|port_(?:rcv|xmit)_"
)
"""Names in messages of numbers that differ whenever the same fault is recorded again (compiled when the first finding needs it)."""
PASSING = (
    r"(?<=\bQP )(?:0x)?[0-9a-f#]+|(?<=\bQPs )0x[0-9a-f#]+ (?:and|to) 0x[0-9a-f#]+|(?<=\bPSN )\d+|(?<=\bframe )\d+"
    r"|(?<![\w.])\d+(?:\.\d+)?(?= (?:n|u|µ|m)?s\b)|(?<=_Key#)\d+"
)
"""The same in texts that a rule has put together."""


class Severity(StrEnum):
    """How bad it is; ordered by `rank`."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """3 for error, 2 for warning, 1 for info."""
        return {"error": 3, "warning": 2, "info": 1}[self.value]


class Evidence(StrEnum):
    """How a finding is known."""

    SEEN = "seen"
    """The packet itself proves it."""
    LEARNT = "learnt"
    """It contradicts state that the capture showed; `related` names the frames."""
    INFERRED = "inferred"
    """It follows from something learnt later or only likely."""


@record(eq=True)
class Span:
    """Bytes of a frame: `length` bytes from `offset` of frame number `frame`."""

    frame: int
    offset: int
    length: int


@record(eq=True)
class Related:
    """Another frame that has to do with the finding, and why."""

    frame: int
    why: str


@record(eq=True)
class Secret:
    """A key value in a finding's arguments; a report shows its number, or the value with --show-keys."""

    kind: str
    value: int
    bits: int = 64


@record(eq=True, frozen=False, kw_only=True)
class Finding:
    """One fault, at its first frame."""

    code: str
    name: str
    severity: Severity
    frame: int
    time_ns: int
    template: str
    """Message with {placeholders}; `arguments` fills them."""
    message: str = ""
    """The finished sentence, keys masked; set by `finish`."""
    stable: str = ""
    """The sentence without keys and without what another recording of the same fault would change; set by `finish`."""
    context: str = ""
    """The frame's summary line."""
    arguments: dict[str, Any] = field(default_factory=dict)
    capture: str = ""
    field: str | None = None
    value: Any = None
    spans: tuple[Span, ...] = ()
    related: tuple[Related, ...] = ()
    evidence: Evidence = Evidence.SEEN
    count: int = 1
    reference: str = ""

    def secrets(self) -> list[Secret]:
        """Key values that the message or the value shows."""
        found = [v for v in (*self.arguments.values(), self.value) if isinstance(v, Secret)]
        for view in self.arguments.values():
            if isinstance(view, Struct):
                found += [Secret(f.secret, f.read(view, f.bit), f.bits) for f in type(view).fields if f.secret and f.kind == "uint"]
        return found

    def finish(self, mask: Callable[[Secret], str] | None) -> None:
        """Make message and value final: keys through `mask` (None: shown), strings harmless; drops the arguments."""
        self.message = _Message(mask).vformat(self.template, (), self.arguments)
        self.stable = re.sub(PASSING, "#", _Stable(None).vformat(self.template, (), self.arguments))
        if isinstance(self.value, Secret):
            self.value = self.value.value if mask is None or not self.value.value else None
        elif isinstance(self.value, bytes):
            self.value = self.value.hex()
        elif isinstance(self.value, str):
            self.value = printable(self.value)
        elif isinstance(self.value, Number):
            self.value = int(self.value)
        self.arguments = {}


class _Message(string.Formatter):
    """Fills a message; every value passes here, so no key and no hostile string gets by."""

    def __init__(self, mask: Callable[[Secret], str] | None) -> None:
        self.mask = mask

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        head, *rest = field_name.split(".")
        value = kwargs[head]
        for name in rest:
            if isinstance(value, Struct):
                field = getattr(type(value), name)
                value = value_of(field, getattr(value, name))
            else:
                value = None if value is None else getattr(value, name)
        return value, head

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """`{portstate!t}` is what a person reads for the value: the name of an enumeration, a time, a unit."""
        if conversion == "t":
            return value.text if isinstance(value, Number) else value
        return {None: value, "s": str(value), "r": repr(value)}[conversion]

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Secret):
            if self.mask is not None and value.value:
                return self.mask(value)
            return f"0x{value.value:0{value.bits // 4}x}"
        if isinstance(value, Gid):
            return gid_text(bytes(value))
        if isinstance(value, bytes):
            return value.hex()
        if value is None:
            return "?"
        return printable(str(value)) if isinstance(value, str) else format(value, format_spec)


class _Stable(_Message):
    """Fills a message with what stays when the same fault is recorded again: not with counters, PSNs, times, keys."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value, head = super().get_field(field_name, args, kwargs)
        passing = re.search(PASSING_NAME, field_name) and isinstance(value, (int, float))
        return (_BLANK if passing or isinstance(value, float) else value), head

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is _BLANK:
            return "#"
        if isinstance(value, Secret):
            return f"{value.kind}#" if value.value else "0"
        return super().format_field(value, format_spec)


_BLANK = object()


class Gid(bytes):
    """Sixteen bytes that read as an IPv6 address in messages."""


class Number(int):
    """A field's value that knows how it reads."""

    text: str


def value_of(field: Field[Any], value: Any) -> Any:
    """A field's value as messages and reports take it: keys wrapped as Secret, GIDs as Gid, integers as Number."""
    if isinstance(value, int) and not isinstance(value, bool):
        if field.secret:
            return Secret(field.secret, value, field.bits)
        number = Number(value)
        number.text = value_text(field, value)
        return number
    return Gid(value) if field.kind == "gid" and isinstance(value, bytes) else value
