"""`Finding`: a fault with its place, message, severity and evidence; and the result of checking one capture."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from msgspec import Struct as Record
from msgspec import field as default

from ibdissect.capture.chunk import SetMember
from ibdissect.wire.spec import Field, Struct
from ibdissect.wire.text import counted, gid_text, plural, printable, value_text

from .sender_and_receiver import Who

VARYING_NAME = (
    r"(?:^|[._])(?:psn|msn|tid|transaction_id|va|qp|destqp|srcqp|seconds|milliseconds|microseconds|tries|count|packets|window|segment|offset"
    r"|loss_counter|following|captured)$|counter|violations|port_(?:rcv|xmit)_"
)
"""Placeholders whose numbers differ between recordings of the same fault (a regular expression, compiled on first use)."""
VARYING = (
    r"(?<=\bQP )(?:0x)?[0-9a-f#]+|(?<=\bQPs )0x[0-9a-f#]+ (?:and|to) 0x[0-9a-f#]+|(?<=\bPSN )\d+|(?<=\bframe )\d+"
    r"|(?<![\w.])\d+(?:\.\d+)?(?= (?:n|u|µ|m)?s\b)|(?<=_Key#)\d+"
)
"""The same for numbers in the text of a message."""


class Severity(StrEnum):
    """How severe a finding is; ordered by `rank`."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """3 for error, 2 for warning, 1 for info."""
        return {"error": 3, "warning": 2, "info": 1}[self.value]

    @property
    def sign(self) -> str:
        """A sign for people: severity is never shown by colour alone."""
        return {"error": "✖", "warning": "⚠", "info": "ℹ"}[self.value]


class Evidence(StrEnum):
    """How a finding is known."""

    SEEN = "seen"
    """The packet itself proves it."""
    LEARNT = "learnt"
    """It contradicts state learnt from earlier frames; `related` names them."""
    INFERRED = "inferred"
    """It follows from state that was learnt later or is only likely."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a frame: `length` bytes from `offset` of frame number `frame`."""

    frame: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Related:
    """Another frame related to the finding, or a line of a subnet file, and why."""

    frame: int
    """0 for a line of a file. Rules give the negative number of `subnet.file_lines`, which the engine replaces."""
    why: str
    file: str = ""
    """The subnet file, or the member of a set that holds the frame; empty for a frame of a single file."""
    line: int = 0
    """Its line, from 1; 0: the file as a whole. In the member of a set: the frame."""

    @property
    def place(self) -> str:
        """`frame 7`, or `partitions.conf:12`."""
        if not self.file:
            return f"frame {self.frame}"
        return f"{printable(self.file)}:{self.line}" if self.line else printable(self.file)


class Secret(Record, frozen=True):
    """A key value in a finding's arguments; a report shows its number, or the value with --show-keys."""

    kind: str
    """Empty for a checksum that would reveal a key."""
    value: int
    bits: int = 64


@dataclass(slots=True, kw_only=True)
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
    """The finished message, keys masked; set by `finish`."""
    stable: str = ""
    """The message without keys and without values that differ in another recording of the same fault; set by `finish`."""
    context: str = ""
    """The frame's summary line."""
    arguments: dict[str, Any] = field(default_factory=dict)
    capture: str = ""
    starts: int | None = None
    """Where the frame starts in the capture's file; None if it is compressed or the frame was no longer at hand."""
    file: str = ""
    """The member of a set that holds the frame; empty for a single file."""
    file_frame: int = 0
    """The frame in that member."""
    field: str | None = None
    value: Any = None
    spans: tuple[Span, ...] = ()
    related: tuple[Related, ...] = ()
    evidence: Evidence = Evidence.SEEN
    count: int = 1
    reference: str = ""
    who: Who | None = None
    """Both ends of its frame, until the sentence is complete. `stable` has none of them, so that baselines stay valid."""

    @property
    def place(self) -> tuple[str, int]:
        """The file that holds the frame, and the number of the frame in it."""
        return (self.file, self.file_frame) if self.file else (self.capture, self.frame)

    def secrets(self) -> list[Secret]:
        """Key values in the arguments and in the reported value."""
        found = [v for v in (*self.arguments.values(), self.value) if isinstance(v, Secret) and v.kind]
        for view in self.arguments.values():
            if isinstance(view, Struct):
                found += [Secret(f.secret, f.read(view, f.bit), f.bits) for f in type(view).fields if f.secret and f.kind == "uint"]
        return found

    def finish(self, mask: Callable[[Secret], str] | None) -> None:
        """Make message and value final: mask keys with `mask` (None: show them), make strings printable, drop the arguments."""
        self.message = _Message(mask).vformat(self.template, (), self.arguments)
        self.stable = re.sub(VARYING, "#", _Stable(None).vformat(self.template, (), self.arguments))
        if isinstance(self.value, Secret):
            self.value = self.value.value if mask is None or not self.value.value else None
        elif isinstance(self.value, bytes):
            self.value = self.value.hex()
        elif isinstance(self.value, str):
            self.value = printable(self.value)
        elif isinstance(self.value, Number):
            self.value = int(self.value)
        self.arguments = {}


def is_noun(format_spec: str) -> bool:
    """Whether a placeholder counts something: `port`, `data VL`."""
    return len(format_spec) > 2 and format_spec.replace(" ", "").isalpha()


class _Message(string.Formatter):
    """Fills a message template. Every value passes through it, so keys are masked and hostile strings made printable."""

    def __init__(self, mask: Callable[[Secret], str] | None) -> None:
        self.mask = mask

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        head, *rest = field_name.split(".")
        if head not in kwargs:
            raise KeyError(f"the message names {head}, but the hit gives {', '.join(kwargs) or 'no values'}")
        value = kwargs[head]
        for name in rest:
            if isinstance(value, Struct):
                field = getattr(type(value), name)
                value = value_of(field, getattr(value, name))
            else:
                value = None if value is None else getattr(value, name)
        return value, head

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """`{portstate!t}` is the value as readable text: an enumeration's name, a time, a number with its unit."""
        if isinstance(value, Secret):
            return value  # `format_field` masks it
        if conversion == "t":
            return value.text if isinstance(value, Number) else value
        return {None: value, "s": str(value), "r": repr(value)}[conversion]

    def format_field(self, value: Any, format_spec: str) -> str:
        """`{ports:port}` is `1 port`, `2 ports`; other words after the colon are Python's."""
        if isinstance(value, int) and is_noun(format_spec):
            return counted(value, format_spec)
        if isinstance(value, Secret):
            if self.mask is not None and value.value:
                return self.mask(value)
            return f"{value.kind} 0x{value.value:0{value.bits // 4}x}".lstrip()
        if isinstance(value, Gid):
            return gid_text(bytes(value))
        if isinstance(value, bytes):
            return value.hex()
        if value is None:
            return "?"
        return printable(str(value)) if isinstance(value, str) else format(value, format_spec)


class _Stable(_Message):
    """Fills a message template without counters, PSNs, times and keys, which differ in every recording of a fault."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value, head = super().get_field(field_name, args, kwargs)
        varies = re.search(VARYING_NAME, field_name) and isinstance(value, (int, float))
        return (_BLANK if varies or isinstance(value, float) else value), head

    def format_field(self, value: Any, format_spec: str) -> str:
        if is_noun(format_spec):
            return f"{'#' if value is _BLANK else value} {plural(format_spec)}"
        if value is _BLANK:
            return "#"
        if isinstance(value, Secret):
            return f"{value.kind}#" if value.value else "0"
        return super().format_field(value, format_spec)


_BLANK = object()


class Gid(bytes):
    """Sixteen bytes that messages show as an IPv6 address."""


class Number(int):
    """A field's value with its readable text."""

    text: str


def value_of(field: Field[Any], value: Any) -> Any:
    """A field's value for messages and reports: keys and checksums as Secret, GIDs as Gid, other integers as Number. Of a list of keys only
    how many there are.
    """
    if field.tells:
        return Secret("", value, field.bits)
    if field.secret and isinstance(value, tuple):
        return f"{counted(len(value), 'key')}, hidden"
    if field.secret and isinstance(value, bytes):
        return Secret(field.secret, int.from_bytes(value, "big"), field.bits)
    if isinstance(value, int) and not isinstance(value, bool):
        if field.secret or field.holds == "checksum":
            return Secret(field.secret, int(value), field.bits)
        number = Number(value)
        number.text = value_text(field, value)
        return number
    return Gid(value) if field.kind == "gid" and isinstance(value, bytes) else value


class CaptureReport(Record, kw_only=True):
    """The result of checking one capture."""

    path: str
    members: tuple[SetMember, ...] = ()
    """The files of a set; empty for a single file."""
    frames: int = 0
    checked: int = 0
    """Frames that were checked: all, or those that -Y and --frames select."""
    infiniband: int = 0
    """Frames with InfiniBand or RoCE headers."""
    judged: int = 0
    """Checked frames with an InfiniBand or RoCE packet, or with what a plugin that has rules declares."""
    undecoded: int = 0
    """Frames too short for their headers, or otherwise malformed."""
    unnumbered: int = 0
    """Keys without a number of their own, because there are too many."""
    first_ns: int = 0
    """The earliest time of a frame; `last_ns`: the latest."""
    last_ns: int = 0
    link_types: list[str] = default(default_factory=list)
    status: str = "ok"
    """ok, truncated, damaged, unreadable, failed (a rule raised, some of its findings may be missing), interrupted
    (only the first `frames` were checked), or empty (nothing in it could be checked; see `judge_emptiness`)."""
    error: str | None = None
    """Why it is unreadable, what failed, or that nothing could be checked; the exit status is 2."""
    phases: int | None = None
    """1 for a source that can be read only once, such as a pipe; otherwise None. Findings do not depend on it."""
    findings: list[Finding] = default(default_factory=list)
    by_rule: dict[str, int] = default(default_factory=dict)
    """Exact number of findings by code, not limited by --max-findings."""
    counts: dict[str, int] = default(default_factory=dict)
    """Exact number of findings by severity."""
    seconds: dict[str, float] = default(default_factory=dict)
    """Time by rule, with --timing."""

    elapsed_s: float = 0.0
    """Seconds that the check took; not part of reports that are to be the same each time."""
    captures: int = 1
    """Number of captures that were added up."""

    @property
    def remarkable(self) -> bool:
        """Whether the report says more than its counts: an error, an interruption, or doubts."""
        return self.error is not None or self.status == "interrupted" or bool(self.doubts)

    def add(self, other: CaptureReport) -> None:
        """Add the counts of another capture. Of all findings, only one of the most severe is kept."""
        for name in ("captures", "frames", "checked", "infiniband", "judged", "undecoded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.by_rule, other.by_rule), (self.counts, other.counts), (self.seconds, other.seconds)):
            for name, value in theirs.items():
                mine[name] = mine.get(name, 0) + value  # type: ignore[assignment]
        self.findings = sorted([*self.findings, *other.findings], key=lambda finding: -finding.severity.rank)[:1]

    @property
    def nothing_checked(self) -> str:
        """Why nothing in it could be checked; empty if something was. What a file says of itself (CAP) is no check of its packets."""
        of_packets = self.judged or any(not code.startswith("CAP") for code in self.by_rule)
        if of_packets or self.status in ("unreadable", "failed", "interrupted"):
            return ""
        if not self.frames:
            return "the capture holds no frames"
        if not self.checked:
            return f"-Y and --frames select none of {counted(self.frames, 'frame')}"
        what = " that -Y and --frames select" if self.checked < self.frames else ""
        return f"no InfiniBand or RoCE was found in {counted(self.checked, 'frame')}{what}"

    def judge_emptiness(self, *, allowed: bool) -> None:
        """If nothing could be checked, say so in `status`, and unless that is `allowed` in `error`: a job must not pass by it."""
        why = self.nothing_checked
        if why and self.error is None:  # what was not read may hold what could be checked
            self.status = "empty"
            self.error = None if allowed else f"{self.path}: nothing could be checked: {why}"

    @property
    def left_out(self) -> int:
        """Findings that are counted, but not listed."""
        return max(0, sum(self.by_rule.values()) - len(self.findings))

    @property
    def left_out_text(self) -> str:
        """That findings are not listed, as a sentence; empty if all are."""
        return f"{counted(self.left_out, 'finding')} not listed (--max-findings none lists all)" if self.left_out else ""

    @property
    def doubts(self) -> list[str]:
        """Reasons to doubt the findings, or their absence."""
        found = []
        if self.status in ("unreadable", "interrupted"):
            pass
        elif self.status == "empty":
            found += [] if self.error is not None else [f"nothing could be checked: {self.nothing_checked}"]
        elif not self.frames:
            found.append("the capture holds no frames")
        elif 2 * self.undecoded > self.frames:
            found.append(f"{self.undecoded} of {self.frames} frames could not be decoded")
        elif not (self.infiniband or self.judged) and "CAP018" not in self.by_rule:  # both say the same
            found.append(f"no InfiniBand or RoCE was found in {counted(self.frames, 'frame')}")
        if self.unnumbered:
            found.append(f"{self.unnumbered} keys have no number of their own (shown as #?): there are too many of their kind")
        return found

    @property
    def incomplete(self) -> str | None:
        """Why findings may be missing; None if the check was completed."""
        if self.status != "interrupted":
            return self.error
        return f"interrupted: only frames 1 to {self.frames} were checked" if self.frames else "interrupted: it was not checked"
