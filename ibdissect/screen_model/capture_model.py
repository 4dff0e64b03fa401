"""`CaptureModel`: an opened capture for the screen, with its frames by number, their lines and trees, and those that match a filter."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import Chunk, Damage
from ibdissect.capture.file_names import CaptureSet
from ibdissect.capture.index import FrameIndex
from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from ibdissect.dfilter.answers import AnswerFrames
from ibdissect.dfilter.frame_properties import FINDING_NAMES, State
from ibdissect.dissect.frame_trees import dissect_rows
from ibdissect.dissect.info_line import summaries
from ibdissect.dissect.named_values import FieldValues, answer_text
from ibdissect.dissect.shown_value import Presenter
from ibdissect.dissect.tree import Node, Tree
from ibdissect.errors import CaptureError, FilterError
from ibdissect.pipeline.reading import Reading, plain_files
from ibdissect.subnet.nodes_of_packets import Ends
from ibdissect.tables.values_in_frames import each_once, named_columns, objects, occurrences, plain_values
from ibdissect.transport.completed import whole_tree
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.headers import BTH
from ibdissect.wire.text import printable

from .findings_store import FindingsStore
from .number_text import duration
from .shown_frames import AllRows, FilteredRows

if TYPE_CHECKING:
    from ibdissect.dfilter.compile import Filter

    from .decode_as import Decoding

PIECE = 4 << 20
"""Bytes of a window: small, so that the first rows appear at once."""
STEP = 16384
"""Rows processed between two checks whether to stop."""
INTERFACE = "frame.interface_name"


@dataclass(frozen=True, slots=True)
class PacketLine:
    """One line of the packet list; texts are harmless."""

    frame: int
    time_ns: int
    source: str
    destination: str
    protocol: str
    p_key: int | None
    length: int
    info: str
    malformed: bool


class CaptureModel:
    """An opened capture. `scan` runs in a thread of its own; everything else may be asked at any time.

    Raises CaptureError when it cannot be opened.
    """

    def __init__(
        self, source: str | IO[bytes] | CaptureSet, *, catalog: Catalog | None = None, show_keys: bool = False, follow: bool = False
    ) -> None:
        self.reader = open_capture(source, follow=follow, window=PIECE)
        self.reading = Reading(self.reader, catalog=catalog, show_keys=show_keys)
        """Makes the tables; has learnt from the frames studied so far."""
        self.path = printable(self.reader.path) if isinstance(source, str | CaptureSet) and source != "-" else "standard input"
        self.source, self.show_keys, self.follow = source, show_keys, follow
        self.catalog = self.reading.catalog
        self.live = follow or not self.reader.rereadable
        self.findings = FindingsStore()
        self.answers = AnswerFrames(messages=True)
        """Requests and answers of the frames studied so far."""
        self.studied_to = 0
        """Findings and answers of frames up to this one are known."""
        self.studied = False
        """The whole capture was studied: no more findings or answers will come."""
        self.rows = AllRows()
        self.delays: npt.NDArray[np.int64] | None = None
        """By frame, in the merged capture of several points: nanoseconds since the point before, -1 for none."""
        self.numbers: dict[str, npt.NDArray[np.int64]] = {}
        """In that capture: by point, the number here of each frame of the point's own file."""
        self.marked: set[int] = set()
        self.notes: dict[int, list[str]] = {}
        """Comments that the user added, by frame; the reader's comments contain them, too."""
        self.decodings: list[Decoding] = []
        """How the user wants messages to queue pairs decoded."""
        self.ends = Ends()
        """Which nodes are at the ends of packets, as far as the study has learnt it."""
        self.first_ns = self.last_ns = 0
        self.error: str | None = None
        """Why reading ended early, if it did."""
        self.complete = False
        """The capture was read to its end."""
        self._stop, self._enough = threading.Event(), False
        self.index = FrameIndex(plain_files(source, self.reader))

    # -- reading

    def scan(self, grew: Callable[[], None]) -> None:
        """Index the capture to its end, or until `close`; `grew` is called after every window. Never raises on the capture."""
        try:
            for chunk in self.reader.chunks():
                if self._stop.is_set():
                    return
                if self._enough:
                    break
                self._take(chunk)
                grew()
        except (CaptureError, OSError) as error:
            self.error = printable(str(error))
        self.complete = True
        grew()

    def _take(self, chunk: Chunk) -> None:
        self.index.add(chunk)
        for frame, texts in self.notes.items():
            for text in texts if chunk.first <= frame < chunk.first + len(chunk) else ():
                self.reader.comments.note(frame, text)
        if not self.first_ns and len(chunk):
            self.first_ns = int(chunk.time_ns[0])
        if len(chunk):
            self.last_ns = max(self.last_ns, int(chunk.time_ns.max()))
        self.rows.total = self.index.frames

    def note(self, frame: int, text: str) -> None:
        """Add a comment to a frame."""
        self.notes.setdefault(frame, []).append(text)
        self.reader.comments.note(frame, text)

    def decode(self, *decodings: Decoding) -> None:
        """Decode messages to these queue pairs so, whenever they were sent."""
        for one in decodings:
            self.decodings.append(one)
            self.reading.services.assign(one.address, one.qp, one.service, one.side)

    def reopened(self, catalog: Catalog | None, decodings: Sequence[Decoding]) -> CaptureModel:
        """The same capture, read anew with another catalog or other decodings; marks and notes stay. CaptureError."""
        made = CaptureModel(self.source, catalog=catalog or self.catalog, show_keys=self.show_keys)
        made.path, made.delays, made.numbers, made.marked, made.notes = self.path, self.delays, self.numbers, self.marked, self.notes
        made.decode(*self.decodings, *decodings)
        return made

    def close(self) -> None:
        """Stop every thread that works on the capture and close the file."""
        self._stop.set()
        self.reader.stop()
        if self.reader.rereadable:
            self.reader.close()
        self.index.close()

    def stop_reading(self) -> None:
        """Read no more frames; what is there stays."""
        self._enough = True
        self.reader.stop()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until the time is over or the capture is closed; True if it is closed."""
        return self._stop.wait(seconds)

    @property
    def damage(self) -> Sequence[Damage]:
        return self.reader.damage

    # -- frames

    def presenter(self, last: int) -> Presenter:
        """What shows values of frames up to `last`: keys get numbers once all before them were seen."""
        return Presenter(self.reading.masker if last <= self.reading.keys_to else None, show_keys=self.show_keys)

    def table(self, frames: Sequence[int]) -> ChunkTable:
        """The given frames (ascending) as columns; row i is frames[i]."""
        return self.reading.table_of(self.index.chunk(frames), frames)

    def lines(self, frames: Sequence[int]) -> list[PacketLine]:
        if not frames:
            return []
        table = self.table(frames)
        made = summaries(table, np.arange(len(frames)), self.presenter(frames[-1]))
        keys, there = table.of_rows(BTH.p_key)
        chunk = table.chunk
        return [
            PacketLine(
                frame=frame, time_ns=time_ns, source=printable(source), destination=printable(destination), protocol=protocol,
                p_key=key if has else None, length=length, info=printable(info), malformed=bool(bad),
            )
            for frame, time_ns, source, destination, protocol, key, has, length, info, bad in zip(
                frames, chunk.time_ns.tolist(), made.source, made.destination, made.protocol, keys.tolist(), there.tolist(),
                chunk.length.tolist(), made.info, table.located.malformed.tolist(), strict=True,
            )
        ]  # fmt: skip

    def tree(self, frame: int) -> Tree:
        """One frame, dissected, its comments, and before it the journey of a packet that several points saw; KeyError when there is no such
        frame.
        """
        table = self.table([frame])
        found = whole_tree(table, self.presenter(frame))
        comments = [_comment("Comment", text) for text in table.chunk.comments.get(frame, ())]
        if self.numbers and comments:
            found.layers.insert(0, _journey(comments.pop(0).text, self.numbers))
        found.layers[:0] = comments
        return found

    def trees(self, frames: Sequence[int]) -> dict[int, Tree]:
        """Several frames (ascending), dissected at once, by number."""
        found: dict[int, Tree] = {}
        for row, tree in dissect_rows(self.table(frames), self.presenter(frames[-1])) if frames else ():
            tree.frame = frames[row]
            found[tree.frame] = tree
        return found

    def fields(self, frames: Sequence[int], names: Sequence[str]) -> dict[int, dict[str, str]]:
        """Texts of fields by frame and filter name, for columns that the user added; the first occurrence in each frame."""
        found: dict[int, dict[str, str]] = {}
        show, every = self.presenter(frames[-1]), np.arange(len(frames))
        table, state = self.table(frames), State(first_ns=self.first_ns, presenter=show, hide_keys=not self.show_keys, ends=self.ends)
        state.findings = self.findings.told(frames[0], frames[-1] - frames[0] + 1) if FINDING_NAMES.keys() & set(names) else {}
        for column in named_columns(self.catalog, names, first=True):
            rows, texts, _ = occurrences(column, table, state, every, partial(text_of, show))
            for row, text in zip(rows.tolist(), texts.tolist(), strict=True):
                if text is not None and text != "":
                    found.setdefault(frames[row], {}).setdefault(column.name, _shown(column.name, text))
        return found

    def answer_text(self, frame: int, name: str) -> str:
        """The value of one of ANSWER_NAMES as known now; empty if unknown."""
        value = self.answers.value(name, frame)
        if value is None:
            return ""
        return duration(value) if name.endswith(("_time", ".latency")) else answer_text(name)(value)

    # -- matching

    def filter(self, text: str) -> tuple[Filter | None, FilterError | None]:
        """The filter for a text, or the reason why the text is not valid; (None, None) for an empty text."""
        if not text.strip():
            return None, None
        from ibdissect.dfilter.compile import compile_filter  # the grammar is not needed for the first rows

        try:
            return compile_filter(text, self.catalog, first_ns=self.first_ns, hide_keys=not self.show_keys, ends=self.ends), None
        except FilterError as error:
            return None, error

    def matches(self, matcher: Filter, chunk: Chunk) -> npt.NDArray[np.bool_]:
        codes = self.findings.told(chunk.first, len(chunk)) if matcher.codes else None
        return matcher.rows(self.reading.table_of(chunk), codes, self.answers, self.marked)

    def matching(self, matcher: Filter, frames: Sequence[int]) -> set[int]:
        """Which of a few frames (ascending) match, as far as is known."""
        codes = {frame: self.findings.told(frame, 1).get(frame, ()) for frame in frames} if matcher.codes else None
        hits = matcher.rows(self.table(frames), codes, self.answers, self.marked) if frames else ()
        return {frame for frame, hit in zip(frames, hits, strict=True) if hit}

    def known_to(self, matcher: Filter) -> int:
        """Number of frames that a filter can judge now: a filter on findings or answers must wait for the thread that finds them."""
        if (matcher.ahead or matcher.nodes) and not (self.studied or self.live):
            return 0  # the answer to a request, or who a LID belongs to, may be any number of frames away
        return self.studied_to if matcher.codes or matcher.pairs else self.index.frames

    def chunks(
        self, done: int, known: Callable[[], int], wanted: Callable[[], bool], waiting: Callable[[], object]
    ) -> Iterator[Chunk]:  # fmt: skip
        """The frames after `done` up to `known()`, some at a time, until the capture ends or `wanted()` is false.

        `waiting` is called while there are none.
        """
        while wanted() and not self.stopped:
            chunk = self.index.after(done, max(min(STEP, known() - done), 0))
            if len(chunk):
                done = chunk.first + len(chunk) - 1
                yield chunk
            elif self.complete and done >= self.index.frames:
                return
            else:
                waiting()
                if self.wait(0.1):
                    return

    def fill(self, rows: FilteredRows, matcher: Filter, wanted: Callable[[], bool], grew: Callable[[], None]) -> None:
        """Put every matching frame into `rows`, in order, until the capture ends or `wanted` says no; runs in a thread."""
        late = self.findings.late
        self._fill(rows, matcher, wanted, grew)
        while matcher.codes and not self.studied and not self.live and wanted() and not self.wait(0.1):
            pass
        if matcher.codes and self.findings.late != late and wanted() and not self.stopped:  # what only the end of the capture shows
            again = FilteredRows()
            self._fill(again, matcher, wanted, lambda: None)
            rows.become(again)
        grew()

    def _fill(self, rows: FilteredRows, matcher: Filter, wanted: Callable[[], bool], grew: Callable[[], None]) -> None:
        for chunk in self.chunks(rows.checked, lambda: self.known_to(matcher), wanted, grew):
            rows.extend(np.flatnonzero(self.matches(matcher, chunk)) + chunk.first, chunk.first + len(chunk) - 1)
            grew()


def _shown(name: str, value: object) -> str:
    """The text of a value that may be a number of nanoseconds."""
    from ibdissect.dfilter.names import COMPUTED  # not needed for the first rows

    kind = COMPUTED[name][0] if name in COMPUTED else ""
    if isinstance(value, int) and kind == "reltime":
        return f"{value / 1e9:.9f}"
    if isinstance(value, int) and kind == "abstime":
        return f"{datetime.fromtimestamp(value // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}.{value % 1_000_000_000:09}"
    return printable(value.hex(" ") if isinstance(value, bytes) else str(value))


def _comment(label: str, text: str) -> Node:
    return Node("", label, 0, 0, 0, 0, None, printable(text))


def _journey(comment: str, numbers: Mapping[str, npt.NDArray[np.int64]]) -> Node:
    """What became of a packet (the comment that `points --write` gives it), with a line for each other point and for the verdict.

    Where another point has it, the line is a field with the number of that frame in this capture.
    """
    packet, *steps = comment.split("; ")
    found = _comment("Journey", packet)
    for step in steps:
        point = max((point for point in numbers if step.startswith(f"{point} ")), key=len, default="")
        line = _comment(point or "verdict", step[len(point) :].lstrip())
        if seen := re.match(r"frame (\d+)", line.text) if point else None:
            line.name, line.value = "frame.number", int(numbers[point][int(seen[1]) - 1])
            line.text = f"{seen[0]} · No. {line.value} {line.text[seen.end() :]}"
        found.children.append(line)
    return found


def text_of(show: Presenter, run: FieldValues, _hidden: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """The texts of the values of a field; empty for bytes that may hold a key."""
    field = run.field
    if field.kind in ("raw", "rest") and not field.is_text:
        return objects([""] * len(run.rows))  # these bytes may hold a key that another structure shows
    return each_once(plain_values(run), lambda value: show.present(field, value)[1])
