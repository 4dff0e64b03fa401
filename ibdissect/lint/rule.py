"""Base class of rules: a condition on fields, or a handler of structures, events or chunks, and its documentation.

A stateless rule is a declaration: `when` is the fault, `at` the faulty field if `when` does not begin with it. Other rules have
handlers: `@on_struct(PortInfo)` gets views, `@on_event(SomeEvent)` events from fabric and flow, `@on_chunk` whole columns.
A rule must not print, open files or read the clock. State that several rules need belongs in `subnet`, `mad` or `transport`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from msgspec import Struct as Record
from msgspec import field as default

from ibdissect.bounded import Dropped, dropped_of
from ibdissect.capture.chunk import Damage
from ibdissect.decode import ChunkTable
from ibdissect.decode.history import SECOND_NS
from ibdissect.errors import PluginError, defined_in
from ibdissect.subnet.file_lines import KnownFile
from ibdissect.wire.catalog import Catalog, builtin
from ibdissect.wire.expr import Expr, first_field
from ibdissect.wire.spec import Field, Struct

from .finding import Evidence, Related, Severity, Span, value_of

H = TypeVar("H", bound=Callable[..., Any])
S = TypeVar("S")
V = TypeVar("V", bound=Struct)

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
SEEN, LEARNT, INFERRED = Evidence.SEEN, Evidence.LEARNT, Evidence.INFERRED
_CODE = re.compile(r"[A-Z]{2,8}[0-9]{3}")
REGISTRY: dict[str, type[Rule]] = {}
"""All rule classes by code, filled when rule modules are imported."""


class Hit(Record, kw_only=True):
    """One fault, as a handler yields it; the engine adds the rule's code, name and severity."""

    frame: int
    time_ns: int
    arguments: dict[str, Any]
    spans: tuple[Span, ...] = ()
    field: Field[Any] | None = None
    value: Any = None
    related: tuple[Related, ...] = ()
    evidence: Evidence = SEEN
    count: int = 1
    frames: Any = ()
    """All frames that it stands for, ascending, as far as the rule knows them; empty: `frame` alone."""
    mads: Sequence[int] = ()
    """Further frames whose findings this one explains. Default, if the rule `explains` others: `frame`, and the `frames` with a MAD."""
    covers: int = 1
    """How many packets a consequence at one of these may stand for, where the fault is that of a connection."""
    key: Any = None
    """Hits with the same key (a flow: QP pair, port, group) become one finding with a count."""
    message: str = ""
    """Replaces the rule's message, for example when the site policy proves the fault."""
    about: tuple[int, ...] | None = None
    """Slots of the nodes whose facts it rests on; None: the rule says which."""
    by_lid: bool = False
    """Whether only a LID says which node it is about: that may be another one's by then."""
    severity: Severity | None = None
    """A lower severity than the rule's if the capture proves less; None: the rule's."""
    explains: bool = True
    """Whether it explains what the rule `explains`: not if the site's policy forbids a packet that everybody accepts."""


class DeferredHit(Record, frozen=True, eq=False, kw_only=True):
    """A hit for a flow that probably has a finding already: the full hit is made only if it has none."""

    frame: int
    key: Any
    make: Callable[[], Hit]
    """Makes the full hit, with the same frame, key, count and proof."""
    count: int = 1
    proof: Sequence[tuple[int, str]] = ()
    """As `fault` takes it."""


FaultDetails = tuple[dict[str, Any], Sequence[tuple[int, str]]]
"""Arguments of a message, and the frames that prove the fault, with what they show."""


class Locatable(Protocol):
    """Where a fault is: a frame, an event, a request; anything with the number and the time of a frame."""

    @property
    def frame(self) -> int: ...
    @property
    def time_ns(self) -> int: ...


class Moment(Record, frozen=True):
    """A frame of which only number and time are known."""

    frame: int
    time_ns: int


class Seen(Record, frozen=True, eq=False):
    """The frame that a structure was read from."""

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

    def start(self, struct: type[Struct]) -> int:
        """Byte offset in the frame of the first occurrence of a structure; the frame must have one."""
        found = self.table.occurrences(struct)
        return int(found.at[found.rows.searchsorted(self.row)] - self.table.chunk.offset[self.row])

    def value(self, field: Field[Any]) -> int:
        """A number in the first occurrence of its structure in this frame; 0 if there is none."""
        return int(self.table.values_at(field, np.array([self.row]))[0])

    def first(self, struct: type[V]) -> V | None:
        """View of the first occurrence of a structure in this frame, or None."""
        found = self.table.occurrences(struct).rows
        i = int(found.searchsorted(self.row))
        return self.table.view(struct, i) if i < len(found) and found[i] == self.row else None


def fault(
    where: Locatable, arguments: dict[str, Any], at: Field[Any] | None = None, value: Any = None, *, start: int | None = None,
    of: Struct | None = None, spans: tuple[Span, ...] = (), proof: Iterable[tuple[int, str]] = (), evidence: Evidence | None = None,
    count: int = 1, frames: Any = (), rows: Any = (), key: Any = None, message: str = "", severity: Severity | None = None,
    explains: bool = True, about: tuple[int, ...] | None = None,
) -> Hit:  # fmt: skip
    """A fault. `at` is the faulty field: its bytes are marked in its structure, which begins at `start` or is the view `of`.

    In a frame of the present chunk (`Seen`) that is by default the structure's first occurrence. `of` gives the value, too.

    `spans`: other faulty bytes. `frames`, or `rows` of the chunk: all for which it stands; `count` is at least their number.

    `about`: slots of the nodes whose facts it rests on.

    `proof`: frames that prove it, and why; if there are any, `evidence` defaults to LEARNT.
    """
    if of is not None and at is not None:
        start, value = of.offset, value_of(at, at.__get__(of, type(of)))
    elif isinstance(where, Seen) and at is not None and start is None and not spans:
        start = where.start(at.owner)
    if start is not None and at is not None:
        spans = (Span(where.frame, start + at.span[0], at.span[1] - at.span[0]),)
    if isinstance(where, Seen) and len(rows):
        frames = rows + where.table.chunk.first
    related = tuple(Related(number, why) for number, why in proof)
    return Hit(
        frame=where.frame, time_ns=where.time_ns, arguments=arguments, spans=spans, field=at, value=value, related=related,
        evidence=evidence or (LEARNT if related else SEEN), count=max(count, len(frames)), frames=frames, key=key, message=message,
        severity=severity, explains=explains, about=about,
    )  # fmt: skip


def each(table: ChunkTable, struct: type[V], mask: Any) -> Iterator[tuple[int, Seen, V]]:
    """Index, frame and view of the occurrences of a structure where `mask` holds, bool of each."""
    rows = table.occurrences(struct).rows
    for i in mask.nonzero()[0].tolist():
        yield i, Seen(table, int(rows[i])), table.view(struct, i)


class Context(Record, eq=False):
    """What every rule may use besides the current chunk."""

    sources: dict[type[object], Any] = default(default_factory=dict)
    """Shared state by class: `context.get(Subnet)` is the subnet as learnt so far."""
    table: Any = None
    """The `ChunkTable` of the present chunk; None between chunks and at the end."""
    damage: Sequence[Damage] = ()
    """Damage in the capture file, as the reader finds it."""
    files: Sequence[KnownFile] = ()
    """Subnet files whose facts were known before the first frame."""
    states: Sequence[object] = ()
    """Other objects that may evict entries: the linter and its rules."""
    catalog: Catalog = default(default_factory=builtin)
    """All declared structures, those of plugins too."""

    def get(self, kind: type[S]) -> S:
        """The single instance of a state class, made on first use from the instances of the classes in its `after`."""
        found: S | None = self.sources.get(kind)
        if found is None:
            found = self.sources[kind] = kind(*map(self.get, getattr(kind, "after", ())))
        return found

    def dropped(self) -> Iterable[Dropped]:
        """All evictions so far, of all shared state, the linter and its rules, and of their bounded containers."""
        states = (*self.sources.values(), *self.states) if Dropped.ever else ()
        found = dict.fromkeys(one for state in states for one in dropped_of(state))
        return (one for one in found if one.count)


def family(code: str) -> str:
    """The letters of a rule's code."""
    return code[:-3]


WEEK_NS = 7 * 86_400 * SECOND_NS


class Rule:
    """One fault that a capture can show.

    The docstring says in its first line what the fault is, and in further paragraphs why it matters, what to do, and what the rule
    must see and what silences it. `lint.rule_page` adds the headings.
    """

    code: ClassVar[str]
    """Letters of its family and three digits; never reused."""
    name: ClassVar[str]
    """The fault in a few words with hyphens: `limited-to-limited`."""
    severity: ClassVar[Severity] = ERROR
    reference: ClassVar[str] = ""
    since: ClassVar[str] = "0.1"
    message: ClassVar[str] = ""
    """Text with {field} placeholders: fields of `on` by name, others as {Struct.field}."""
    on: ClassVar[type[Struct] | None] = None
    """The structure that `when` judges; by default that of `at`."""
    when: ClassVar[Expr | None] = None
    at: ClassVar[Field[Any] | None] = None
    """The faulty field, whose bytes and value are reported; by default the first field of `when`, unless the rule names its `on`."""
    by_answers: ClassVar[bool] = False
    """Whether handlers judge `when` SMP by SMP, with what the port answered before as `previous(...)`: rules based on `AttributeRule`."""
    message_words: ClassVar[frozenset[str] | None] = None
    """What the message of such a rule may quote; None: its handlers say."""
    ports: ClassVar[int] = 0
    """The kinds of port whose attribute `when` judges (`wire.port_kinds`); 0: all. `on` must be PortInfo or PKeyTable."""
    of_marks: ClassVar[bool] = False
    """Whether `when` is about marks in the BTH: then it also judges copies that show one first (`decode.ecn_marks_of_copies`)."""
    needs_crc: ClassVar[bool] = False
    """Whether `--no-crc` switches the rule off."""
    flow: ClassVar[tuple[Field[Any], ...]] = ()
    """Fields that identify a flow: hits with equal values become one finding with a count."""
    needs: ClassVar[tuple[type[Any], ...]] = ()
    """Followers whose state the rule uses without handling their events, and other state that learns from events (`learns_from`). Those of
    its base classes come with them."""
    waits: ClassVar[bool] = False
    """Whether its hits wait for the end of the capture. They do with `stands`, and with `severity_at_end` unless all are infos."""
    alike: ClassVar[bool] = False
    """Whether all hits of a flow that wait stand or fall together: then the first one counts them."""
    is_note: ClassVar[bool] = False
    """Of a rule that finds infos: whether its advice is to do nothing. Texts show its findings only if asked for infos."""
    about_capture: ClassVar[bool] = False
    """Whether the sentence is about the capture or the file, so that it need not name a port or host (`lint.sender_and_receiver`)."""
    of_code: ClassVar[bool] = True
    """Whether its texts are Markdown of whoever wrote the code; else they are a file's, which may be a stranger's."""
    explains: ClassVar[tuple[str, ...]] = ()
    """Rules whose finding is a consequence of this one if both share a frame, or if a frame of this one proves the other. Codes, or the
    letters of whole families."""
    example: ClassVar[str] = ""
    """What a capture that triggers it contains."""
    evidence: ClassVar[str] = ""
    """For base classes: what their rules must see and what silences them, for pages of rules whose docstring does not say it."""

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if cls.on is None and cls.when is not None and cls.of_frame is Rule.of_frame:
            cls.at = cls.at if cls.at is not None else first_field(cls.when)
            cls.on = cls.at.owner if cls.at is not None else None
        code = vars(cls).get("code")
        if code is None:
            return  # a base class of several rules
        other = REGISTRY.get(code)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            late, early = (other, cls) if cls.__module__.startswith("ibdissect.rules.") else (cls, other)  # a plugin may be loaded first
            raise PluginError(defined_in(late), f"rule {code} is already {early.__qualname__} ({defined_in(early)})")
        if not _CODE.fullmatch(code):
            raise PluginError(defined_in(cls), f"{cls.__qualname__}: {code!r} is not a rule code (2 to 8 capital letters and three digits)")
        REGISTRY[code] = cls
        may_be_lowered = cls.severity_at_end is not Rule.severity_at_end and cls.severity is not INFO
        cls.waits = cls.waits or may_be_lowered or cls.stands is not Rule.stands

    @classmethod
    def use_keys(cls, shown: bool) -> None:
        """Called before a check: whether keys may be compared and shown. Raises ConfigError if a user's rule compares hidden ones."""

    def watch(self, hit: Hit, context: Any) -> None:
        """Called when a hit begins to wait for the end, usually while its frame is in the present chunk; not if there is no room for it."""

    def stands(self, hit: Hit, context: Any) -> bool:
        """Called at the end of the capture for each hit that waited: is it reported? What followed may complete it."""
        return True

    def files_hold_ns(self) -> int:
        """How much older than a packet the output of a tool (`--subnet`) may be; findings that rest on an older one are infos."""
        return WEEK_NS

    def severity_at_end(self, hit: Hit, context: Any) -> Severity | None:
        """A lower severity of a hit that waited, or None."""
        return None

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        """Values for the message that no field holds, at occurrence `i` of `on`, in the frame `seen`."""
        return {}

    def of_frame(self, seen: Seen) -> Hit:
        """The hit for a frame where `when` holds; for rules that check frames (`on` is None)."""
        raise NotImplementedError(f"rule {self.code} has a condition, but no structure that it judges")

    def hit(self, seen: Seen, view: Struct | None = None, at: Field[Any] | None = None, **arguments: Any) -> Hit:
        """A fault in one frame; `view` and `at` select the faulty bytes."""
        return fault(seen, arguments, at, of=view) if view is not None else fault(Moment(seen.frame, seen.time_ns), arguments, at)


def _mark(mark: str, what: Any) -> Callable[[H], H]:
    def marked(method: H) -> H:
        setattr(method, mark, what)
        return method

    return marked


def on_struct(*structs: type[Struct]) -> Callable[[H], H]:
    """Call the method with (view, seen) for every occurrence of the structures; it yields hits. PDUs of streams are among them."""
    return _mark("listens_to", structs)


def on_event(*events: type[Any]) -> Callable[[H], H]:
    """Call the method with (event, context) for events of these classes; it yields hits."""
    return _mark("listens_to_events", events)


def on_chunk(method: H) -> H:
    """Call the method with (table, context) for every chunk; it yields hits."""
    return _mark("listens_to_chunks", True)(method)


def on_end(method: H) -> H:
    """Call the method with (context) after the last chunk; it yields hits."""
    return _mark("listens_to_end", True)(method)
