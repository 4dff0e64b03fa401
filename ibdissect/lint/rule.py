"""What a rule is: a condition on fields, or a handler of structures, events or chunks - and its page of documentation.

A stateless rule is a declaration: `on` names the structure judged, `when` the fault. Everything else listens:
`@on_struct(PortInfo)` gets views, `@on_event(SomeEvent)` what fabric and flow noticed, `@on_chunk` whole columns.
A rule is pure: no printing, no file, no clock. State that a second rule would want belongs in `fabric` or `flow`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any, ClassVar, TypeVar

from ibdissect.errors import PluginError, defined_in
from ibdissect.record import record
from ibdissect.table.table import ChunkTable
from ibdissect.wire.expr import Expr
from ibdissect.wire.spec import Field, Struct

from .finding import Evidence, Related, Severity, Span, value_of

H = TypeVar("H", bound=Callable[..., Any])

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
REGISTRY: dict[str, type[Rule]] = {}
"""Every rule class by code, filled as rule modules are imported."""


@record(eq=True, frozen=False, kw_only=True)
class Hit:
    """What a handler yields: one fault, to be completed by the engine with the rule's own facts."""

    frame: int
    time_ns: int
    arguments: dict[str, Any]
    spans: tuple[Span, ...] = ()
    field: Field[Any] | None = None
    value: Any = None
    related: tuple[Related, ...] = ()
    evidence: Evidence = Evidence.SEEN
    count: int = 1
    key: Any = None
    """Hits with the same key (a flow: QP pair, port, group) become one finding with a count."""
    message: str = ""
    """A sentence instead of the rule's own, where the fault is known in another way (what the site allows)."""


@record(kw_only=True)
class Again:
    """A hit of a flow that most likely has a finding already: what it says is only worked out for the first one of its key."""

    frame: int
    key: Any
    made: Callable[[], Hit]
    """The whole hit, of the same frame, key and count."""
    count: int = 1


@record
class Seen:
    """Where in the capture a structure was read."""

    table: ChunkTable
    row: int

    @property
    def frame(self) -> int:
        """Frame number, from 1."""
        return self.table.chunk.first + self.row

    @property
    def time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return int(self.table.chunk.time_ns[self.row])

    def first(self, struct: type[Any]) -> Any:
        """View of the first occurrence of another structure in the same frame, None when it has none."""
        found = self.table.occurrences(struct).rows
        i = int(found.searchsorted(self.row))
        return self.table.view(struct, i) if i < len(found) and found[i] == self.row else None


class Rule:
    """One fault that a capture can show. The docstring's first line says what; its sections explain it."""

    code: ClassVar[str]
    """Letter family and three digits; never reused."""
    name: ClassVar[str]
    """The fault in a few words, as in reference tables: `limited-to-limited`."""
    severity: ClassVar[Severity] = ERROR
    reference: ClassVar[str] = ""
    since: ClassVar[str] = "0.1"
    message: ClassVar[str] = ""
    """Sentence with {field} placeholders: fields of `on` by name, others as {Struct.field}."""
    on: ClassVar[type[Struct] | None] = None
    when: ClassVar[Expr | None] = None
    at: ClassVar[Field[Any] | None] = None
    """The field whose bytes are at fault; its value is reported."""
    needs_crc: ClassVar[bool] = False
    """Whether `--no-crc` switches the rule off."""
    flow: ClassVar[tuple[Field[Any], ...]] = ()
    """Fields that make up a flow: hits that agree in them are one finding with a count."""
    needs: ClassVar[tuple[type[Any], ...]] = ()
    """Followers that the rule asks at the end without listening to any of their events."""
    example: ClassVar[str] = ""
    """How to see it: what a capture that triggers it holds."""

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        code = vars(cls).get("code")
        if code is None:
            return  # a base for several rules
        other = REGISTRY.get(code)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise PluginError(defined_in(cls), f"rule {code} is already {other.__qualname__} ({defined_in(other)})")
        if not re.fullmatch(r"[A-Z]{2,8}[0-9]{3}", code):
            raise PluginError(cls.__module__, f"{cls.__qualname__}: {code!r} is no rule code (letters and three digits)")
        REGISTRY[code] = cls

    def of_frame(self, seen: Seen) -> Hit:
        """The fault of a frame for which `when` holds, in a rule that judges frames (`on` is None)."""
        raise NotImplementedError(f"rule {self.code} has a condition, but no structure that it judges")

    def hit(self, seen: Seen, view: Struct | None = None, at: Field[Any] | None = None, **arguments: Any) -> Hit:
        """A fault in one frame; `view` and `at` say which bytes."""
        spans: tuple[Span, ...] = ()
        value = None
        if view is not None and at is not None:
            low, high = at.span
            spans = (Span(seen.frame, view.offset + low, high - low),)
            value = value_of(at, at.__get__(view, type(view)))
        return Hit(frame=seen.frame, time_ns=seen.time_ns, arguments=arguments, spans=spans, field=at, value=value)


def on_struct(*structs: type[Struct]) -> Callable[[H], H]:
    """Call the method with (view, seen) for every occurrence of the structures; it yields hits. For management attributes only."""

    def mark(method: H) -> H:
        method.listens_to = structs  # type: ignore[attr-defined]
        return method

    return mark


def on_event(*events: type[Any]) -> Callable[[H], H]:
    """Call the method with (event, context) for events of these classes; it yields hits."""

    def mark(method: H) -> H:
        method.listens_to_events = events  # type: ignore[attr-defined]
        return method

    return mark


def on_chunk(method: H) -> H:
    """Call the method with (table, context) for every chunk; it yields hits."""
    method.listens_to_chunks = True  # type: ignore[attr-defined]
    return method


def on_end(method: H) -> H:
    """Call the method with (context) when the capture has been read; it yields hits."""
    method.listens_to_end = True  # type: ignore[attr-defined]
    return method


@lru_cache(maxsize=8)
def handlers(kinds: tuple[type[Rule], ...]) -> tuple[tuple[int, str, Any, str], ...]:
    """(place in `kinds`, mark, what it listens to, name) of all marked methods; put together once, not for every capture."""
    return tuple((place, *marked) for place, kind in enumerate(kinds) for marked in _marked(kind))


MARKS = ("listens_to", "listens_to_events", "listens_to_chunks", "listens_to_end")


def _marked(kind: type[Rule]) -> tuple[tuple[str, Any, str], ...]:
    """Mark, what is listened to, and name of the marked methods of a rule class, in order.

    Only functions that carry notes are looked at: `dir` of all rules costs 30 ms.
    """
    bases = [base for base in kind.__mro__ if base is not Rule and base is not object]
    noted = {name for base in bases for name, value in vars(base).items() if type(value) is FunctionType and vars(value)}
    if not noted:
        return ()
    found = [(mark, getattr(getattr(kind, name), mark, None), name) for mark in MARKS for name in sorted(noted)]
    return tuple((mark, listens, name) for mark, listens, name in found if listens is not None)
