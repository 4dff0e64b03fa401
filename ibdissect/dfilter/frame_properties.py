"""Values of filter names that no structure declares: frame properties, the summary line, TCP ports, findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct as Record
from msgspec import field

from ibdissect.capture.gather import u16
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.operand_values import Blobs, NumberSeries, Series, blobs_of
from ibdissect.dissect.named_values import ANSWER_NAMES, MESSAGE, MESSAGE_KINDS, frame_numbers
from ibdissect.dissect.shown_value import Presenter
from ibdissect.wire.encapsulation import PROTOCOL_TCP, IPv4, IPv6
from ibdissect.wire.ulp.ip import TCP

from .names import COMPUTED

if TYPE_CHECKING:
    from ibdissect.dissect.info_line import Summaries
    from ibdissect.subnet.nodes_of_packets import Ends, Named

    from .answers import AnswerFrames


class FindingFacts(NamedTuple):
    """What filters may ask of a finding."""

    code: str
    rule: str
    """Name of its rule."""
    severity: str


Findings = Mapping[int, Iterable[FindingFacts]]
"""The findings in each frame, by number."""
FINDING_NAMES = {"ibdissect.code": 0, "ibdissect.rule": 1, "ibdissect.severity": 2}
"""Which part of a finding each is."""
NODE_NAMES = {"ibdissect.src.node": (0,), "ibdissect.dst.node": (1,), "ibdissect.node": (0, 1)}
"""Which of the two ends each is about."""
KIND = f"{MESSAGE}kind"


class State(Record, eq=False):
    """State of a filter that is kept between chunks."""

    first_ns: int | None = None
    """Time of the first frame of the capture."""
    before_ns: int | None = None
    """Time of the last frame of the previous chunk."""
    findings: Findings = field(default_factory=dict)
    answers: AnswerFrames | None = None
    """Matched requests and answers, if the filter uses them."""
    ends: Ends | None = None
    """Which nodes are at the ends of packets, if the filter uses their names."""
    named: tuple[ChunkTable, tuple[Named, Named]] | None = None
    """The nodes looked up last: their chunk, senders and receivers."""
    marked: Collection[int] = ()
    """Frames that the user marked."""
    hide_keys: bool = False
    """Whether bytes of keys are read as zero."""
    hidden_checksums: int = 0
    """How many checksums were left out, because they would reveal a key."""
    presenter: Presenter | None = None
    """Names masked keys in the summary line; None: without numbers."""
    lines: tuple[ChunkTable, Int, Summaries] | None = None
    """The summary lines made last: their chunk and rows."""

    def begin(self, table: ChunkTable, first_ns: int | None = None) -> None:
        """Call before reading values of a chunk; the chunks of a capture in order. `first_ns`: the time of frame 1, if known."""
        if table.chunk.first == 1:
            self.first_ns, self.before_ns = first_ns, None
        if self.first_ns is None and len(table):
            self.first_ns = int(table.chunk.time_ns[0])

    def nodes(self, table: ChunkTable, *, ports: bool) -> tuple[Named, Named]:
        """The nodes (and ports) that sent the packets of a chunk, and those they went to."""
        if self.named is None or self.named[0] is not table:
            self.named = table, self.ends.of(table, ports=ports) if self.ends is not None else ({}, {})
        return self.named[1]

    def end(self, table: ChunkTable) -> None:
        """Call when all values of the chunk have been read."""
        self.lines = self.named = None
        if len(table):
            self.before_ns = int(table.chunk.time_ns[-1])


def texts_of(name: str, table: ChunkTable, state: State, rows: Int, *, asked: bool = False) -> tuple[Int, list[str]]:
    """The values of a name of strings in the given rows: the row of each, and the strings.

    `asked` by a filter: nodes have the names of their ports, too.
    """
    first = table.chunk.first
    if name.startswith("_ws.col."):
        if state.lines is None or state.lines[0] is not table or state.lines[1] is not rows:
            from ibdissect.dissect.info_line import summaries  # most filters do not need it

            presenter = state.presenter or Presenter(show_keys=not state.hide_keys)
            state.lines = table, rows, summaries(table, rows, presenter)
        return rows, getattr(state.lines[2], name.removeprefix("_ws.col."))
    if name == "frame.interface_name":
        names = table.chunk.interface_names(rows)
        there = np.array([bool(text) for text in names], np.bool_)
        return rows[there], [text for text in names if text]
    if name == KIND:
        assert state.answers is not None
        of_row, kinds = state.answers.values(name, first, len(table))
        wanted = np.isin(of_row, rows)
        return of_row[wanted], [MESSAGE_KINDS[kind] for kind in kinds[wanted].tolist()]
    if name in NODE_NAMES:
        nodes = state.nodes(table, ports=asked)
        sides = [nodes[side] for side in NODE_NAMES[name]]
        found = [(row, text) for row in rows.tolist() for text in dict.fromkeys(text for side in sides for text in side.get(row, ()))]
    else:
        comments = table.chunk.comments
        by_frame: Mapping[int, Iterable[str]] = comments if name not in FINDING_NAMES else {
            frame: dict.fromkeys(one[FINDING_NAMES[name]] for one in there) for frame, there in state.findings.items()
        }  # fmt: skip
        found = [(row, text) for row in (rows.tolist() if by_frame else ()) for text in by_frame.get(first + row, ())]
    return np.array([row for row, _ in found], np.int64), [text for _, text in found]


def values_of(name: str, table: ChunkTable, state: State) -> Series:
    """The values of a name that no structure declares."""
    chunk, every = table.chunk, np.arange(len(table))
    if COMPUTED[name][0] == "string":
        of_row, texts = texts_of(name, table, state, every, asked=True)
        return blobs_of(of_row, [text.encode("utf-8", "surrogateescape") for text in texts], text=True)
    if name == "frame":
        return Blobs(every, chunk.data, chunk.offset, chunk.offset + chunk.caplen)
    if name in ("infiniband", "infiniband.payload"):
        return _packet(table) if name == "infiniband" else _payload(table)
    if name.startswith("tcp."):
        return _tcp_ports(name, table)
    if name == "frame.marked":
        rows = np.array([row for row in every.tolist() if chunk.first + row in state.marked], np.int64)
        return NumberSeries(rows, np.ones(len(rows), np.int64))
    if state.answers is not None and name in ANSWER_NAMES:
        return NumberSeries(*state.answers.values(name, chunk.first, len(table)))
    if name == "_ws.malformed":
        rows = np.flatnonzero(table.located.malformed)
        return NumberSeries(rows, np.ones(len(rows), np.int64))
    if name == "frame.time_delta":
        return NumberSeries(every, np.diff(chunk.time_ns, prepend=chunk.time_ns[:1] if state.before_ns is None else state.before_ns))
    return NumberSeries(every, frame_numbers(table, name, state.first_ns or 0))


def _packet(table: ChunkTable) -> Blobs:
    """From the first InfiniBand header to the end of the frame."""
    starts = [table.located.at(name) for name in ("lrh", "grh", "bth")]
    start = np.where(starts[0] >= 0, starts[0], np.where(starts[1] >= 0, starts[1], starts[2]))
    rows = np.flatnonzero(start >= 0)
    return Blobs(rows, table.chunk.data, start[rows], table.located.end[rows])


def _payload(table: ChunkTable) -> Blobs:
    start = table.located.at("payload")
    rows = np.flatnonzero((start >= 0) & (table.located.at("mad") < 0))
    return Blobs(rows, table.chunk.data, start[rows], table.located.payload_end[rows])


def _tcp_ports(name: str, table: ChunkTable) -> NumberSeries:
    """TCP ports, even if a snap length has cut off the rest of the header."""
    found = table.occurrences(TCP)
    rows, at = _cut_off(table)
    short = ~np.isin(rows, found.rows)
    rows, at = np.concatenate([found.rows, rows[short]]), np.concatenate([found.at, at[short]])
    places = {"tcp.srcport": (0,), "tcp.dstport": (2,), "tcp.port": (0, 2)}[name]
    values = np.concatenate([u16(table.chunk.data, at + place) for place in places])
    rows = np.tile(rows, len(places))
    order = np.argsort(rows, kind="stable")
    return NumberSeries(rows[order], values[order])


def _cut_off(table: ChunkTable) -> tuple[Int, Int]:
    """Rows and starts of TCP headers whose ports were captured."""
    four, six = table.occurrences(IPv4), table.occurrences(IPv6)
    is_tcp = (table.values(IPv4.protocol) == PROTOCOL_TCP) & (table.values(IPv4.fragment_offset) == 0)
    behind = table.values(IPv6.next_header) == PROTOCOL_TCP
    header = table.values(IPv4.header_length).astype(np.int64) * 4
    rows = np.concatenate([four.rows[is_tcp], six.rows[behind]])
    at = np.concatenate([(four.at + header)[is_tcp], six.stop[behind]])
    good = at + 4 <= table.located.end[rows]
    return rows[good], at[good]
