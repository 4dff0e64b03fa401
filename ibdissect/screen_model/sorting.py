"""Order of the frames of the list, sorted by a column."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import Chunk
from ibdissect.decode import ChunkTable
from ibdissect.dfilter.frame_properties import FINDING_NAMES, State
from ibdissect.dissect.info_line import distinct_addresses
from ibdissect.dissect.info_line_order import alike
from ibdissect.dissect.named_values import ANSWER_NAMES, answer_text
from ibdissect.tables.values_in_frames import NamedColumn, named_columns, occurrences
from ibdissect.wire.headers import BTH

from .capture_model import STEP, CaptureModel, text_of
from .frames_before import FramesBefore
from .packet_columns import BY_KEY, DELTA_CAPTURED, DELTA_CONVERSATION, DELTA_SHOWN, ListColumn
from .shown_frames import AllRows, FilteredRows, SortedRows

Int = npt.NDArray[np.int64]
NAMED = ("source", "destination")
NOTHING = -(1 << 62)
"""The value of a frame that has none: it comes first, and last when the highest come first."""
NUMBER = re.compile(r"0x[0-9a-f]{1,15}|[0-9]{1,18}")
Name = Callable[[str, int], str]
"""What the list shows for an address at a frame."""


def sort_rows(
    model: CaptureModel,
    base: AllRows | FilteredRows,
    column: ListColumn,
    *,
    down: bool,
    wanted: Callable[[], bool],
    name: Name | None = None,
    progress: Callable[[float], object] = lambda part: None,
    before: FramesBefore | None = None,
) -> SortedRows | None:
    """The frames of `base` by the values of a column, equal ones in the order of the capture; None when it is no longer wanted.

    `name`: None if the list shows addresses. Numbers are compared as numbers; in texts numbers count as numbers, too (LID 9 before LID 10).
    Info: by its words, then by queue pair and PSN.
    `progress` is told now and then which part of the capture was read. `before`: for times since the frame before in each conversation.
    """
    total = base.total if isinstance(base, AllRows) else base.checked
    numbers = np.arange(1, total + 1, dtype=np.uint32) if isinstance(base, AllRows) else base.numbers().copy()
    at = numbers.astype(np.int64) - 1
    if column.key == "number":
        keys: tuple[Int, ...] | None = (at,)
    else:
        of_time = column in (DELTA_SHOWN, DELTA_CONVERSATION)
        every = _Keys(model, BY_KEY["time"] if of_time else column, total, name).read(wanted, progress)
        if column is DELTA_CONVERSATION and every is not None:
            every = (_since(every[0], before),)
        keys = tuple(one[at] for one in every) if every is not None else None
        if column is DELTA_SHOWN and keys is not None:
            keys = (np.diff(keys[0], prepend=keys[0][:1]),)
    if keys is None:
        return None
    signed = [-one if down else one for one in reversed(keys)]
    order = np.lexsort(signed) if len(signed) > 1 else np.argsort(signed[0], kind="stable")
    return SortedRows(base, numbers[order], column.key, down=down)


def _since(times: Int, before: FramesBefore | None) -> Int:
    """Nanoseconds since the frame before in the same conversation, NOTHING for its first one."""
    there = before.all()[: len(times)].astype(np.int64) if before is not None else np.zeros(0, np.int64)
    there = np.pad(there, (0, len(times) - len(there)))
    return np.where(there > 0, times - times[there - 1], NOTHING)


class _Keys:
    """The value of a column in each frame, as one or two numbers that are compared."""

    def __init__(self, model: CaptureModel, column: ListColumn, total: int, name: Name | None) -> None:
        self.model, self.column, self.total, self.name = model, column, total, name
        self.numbers: Int = np.full(total, NOTHING, np.int64)
        """A number, or the place of a text among `texts`."""
        self.more: Int | None = np.full(total, -1, np.int64) if column.key == "info" else None
        """What lines that begin with the same text are compared by."""
        self.texts: dict[str, int] = {}
        self._infos: dict[int, str] = {}
        self._state = State(first_ns=model.first_ns, presenter=model.presenter(0), hide_keys=not model.show_keys, ends=model.ends)
        self._source = named_columns(model.catalog, [column.field], first=True)[0] if column.field and not self._answered else None

    @property
    def _answered(self) -> bool:
        return self.column.field in ANSWER_NAMES

    def read(self, wanted: Callable[[], bool], progress: Callable[[float], object]) -> tuple[Int, ...] | None:
        """int64[total], one or two of them; None when they are no longer wanted."""
        model, done = self.model, 0
        while done < self.total:
            if not wanted() or model.stopped:
                return None
            chunk = model.index.after(done, min(STEP, self.total - done))
            if not len(chunk):
                break
            self._chunk(chunk, slice(done, done + len(chunk)))
            done += len(chunk)
            progress(done / self.total)
        found = self.numbers
        if self.texts:
            ranks = np.empty(len(self.texts), np.int64)
            ranks[[self.texts[text] for text in sorted(self.texts, key=_natural)]] = np.arange(len(self.texts))
            found = np.where(found >= 0, ranks[np.maximum(found, 0)], NOTHING)
        return (found,) if self.more is None else (found, self.more)

    def _chunk(self, chunk: Chunk, where: slice) -> None:
        part, key = self.numbers[where], self.column.key
        if key == "time":
            part[:] = chunk.time_ns
        elif key == "length":
            part[:] = chunk.length
        elif self.column.field == DELTA_CAPTURED.field:
            part[:] = np.diff(chunk.time_ns, prepend=self.model.index.time_ns(where.start) if where.start else chunk.time_ns[0])
        elif self._answered:
            rows, values = self.model.answers.values(self.column.field, chunk.first, len(chunk))
            text = answer_text(self.column.field) if self.column.field.endswith(".kind") else None
            part[rows[::-1]] = values[::-1] if text is None else [self._text(text(value)) for value in values[::-1].tolist()]
        else:
            self._read(self.model.reading.table_of(chunk), part, where)

    def _text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _read(self, table: ChunkTable, part: Int, where: slice) -> None:
        key = self.column.key
        if key == "p_key":
            values, there = table.of_rows(BTH.p_key)
            part[there] = values[there]
        elif key in NAMED:
            self._ends(table, part, NAMED.index(key))
        elif self._source is not None:
            self._field(self._source, table, part)
        else:
            more = self.more[where] if self.more is not None else None
            for one in alike(table, key, self.model.presenter(0), self._infos):
                part[one.rows] = self._text(one.text)
                if more is not None and one.numbers is not None:
                    more[one.rows] = one.numbers

    def _ends(self, table: ChunkTable, part: Int, side: int) -> None:
        """Frame by frame only where the owner of an address changed in the chunk."""
        first, name = table.chunk.first, self.name or _as_it_is
        for texts, rows, which in distinct_addresses(table, side):
            names = [name(text, first) for text in texts]
            part[rows] = np.array([self._text(one) for one in names])[which]
            for i, text in enumerate(texts):
                if name(text, first + len(table) - 1) != names[i]:
                    of_it = rows[which == i]
                    part[of_it] = [self._text(name(text, first + row)) for row in of_it.tolist()]
        if self.name is not None:
            for row, ends in self.model.ends.routed(table).items():
                if ends[side]:
                    part[row] = self._text(ends[side])

    def _field(self, source: NamedColumn, table: ChunkTable, part: Int) -> None:
        """The first value of a field in each frame: numbers as numbers, all else and keys (their masks) as text."""
        state = self._state
        if source.name in FINDING_NAMES:
            state.findings = self.model.findings.told(table.chunk.first, len(table))
        state.begin(table, self.model.first_ns)
        plain = source.type not in ("text", "uint64") and not any(field.secret or field.tells for field in source.fields)
        read = (lambda run, _: run.values.astype(np.int64)) if plain else partial(text_of, self.model.presenter(0))
        rows, values, hidden = occurrences(source, table, state, np.arange(len(table)), read)
        state.end(table)
        rows, values = rows[~hidden][::-1], values[~hidden][::-1]  # of several in a frame the last one written stays
        part[rows] = values if plain else [self._text(str(text)) for text in values.tolist()]


def _as_it_is(text: str, _: int) -> str:
    return text


def _natural(text: str) -> str:
    """What a text is compared by: with the length of each number before its digits, the longer number is the higher one."""
    return NUMBER.sub(_digits, text)


def _digits(found: re.Match[str]) -> str:
    digits = str(int(found[0], 16) if found[0].startswith("0x") else int(found[0]))
    return f"\0{chr(len(digits))}{digits}"
