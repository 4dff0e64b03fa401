"""In which order are the frames of the list, sorted by a column?"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from ibdissect.dfilter.computed import State
from ibdissect.dissect.named_values import ANSWER_NAMES
from ibdissect.dissect.summary import addresses, summaries
from ibdissect.session.rows import named_columns, occurrences
from ibdissect.table import ChunkTable
from ibdissect.wire.headers import BTH

from .capture_model import STEP, CaptureModel, text_of
from .packet_columns import BY_KEY, DELTA_CAPTURED, DELTA_SHOWN, Column
from .shown_frames import AllRows, FilteredRows, SortedRows

Int = npt.NDArray[np.int64]
NAMED = ("source", "destination")
NOTHING = -(1 << 62)
"""The value of a frame that has none: it comes first, and last when the highest come first."""
Name = Callable[[str, int], str]
"""What the list shows for an address at a frame."""


def sort_rows(
    model: CaptureModel, base: AllRows | FilteredRows, column: Column, *, down: bool, wanted: Callable[[], bool], name: Name | None = None
) -> SortedRows | None:  # fmt: skip
    """The frames of `base` by the values of a column, equal ones in the order of the capture; None when it is no longer wanted.

    `name`: None if the list shows addresses. Numbers are compared as numbers; in texts numbers count as numbers, too (LID 9 before LID 10).
    """
    total = base.total if isinstance(base, AllRows) else base.checked
    numbers = np.arange(1, total + 1, dtype=np.uint32) if isinstance(base, AllRows) else base.numbers().copy()
    if column.key == "number":
        keys: Int | None = numbers.astype(np.int64)
    elif column.key == DELTA_SHOWN.key:
        times = _keys(model, BY_KEY["time"], total, wanted, None)
        keys = times[numbers.astype(np.int64) - 1] if times is not None else None
        keys = np.diff(keys, prepend=keys[:1]) if keys is not None else None
    else:
        every = _keys(model, column, total, wanted, name)
        keys = every[numbers.astype(np.int64) - 1] if every is not None else None
    if keys is None:
        return None
    order = np.argsort(-keys if down else keys, kind="stable")
    return SortedRows(base, numbers[order], column.key, down=down)


def _keys(model: CaptureModel, column: Column, total: int, wanted: Callable[[], bool], name: Name | None) -> Int | None:
    """The value of a column in each frame, as a number that is compared, int64[total]; None when it is no longer wanted."""
    keys, texts, done = np.full(total, NOTHING, np.int64), dict[str, int](), 0
    while done < total:
        if not wanted() or model.stopped:
            return None
        chunk = model.index.after(done, min(STEP, total - done))
        if not len(chunk):
            break
        part = keys[done : done + len(chunk)]
        if column.key == "time":
            part[:] = chunk.time_ns
        elif column.key == "length":
            part[:] = chunk.length
        elif column.field == DELTA_CAPTURED.field:
            part[:] = np.diff(chunk.time_ns, prepend=model.index.time_ns(done) if done else chunk.time_ns[0])
        elif column.field in ANSWER_NAMES and column.field:
            _answers(model, column.field, done + 1, part, texts)
        else:
            _read(model, column, model.reading.table_of(chunk), part, texts, name)
        done += len(chunk)
    if texts:
        ranks = np.empty(len(texts) + 1, np.int64)
        ranks[[texts[text] for text in sorted(texts, key=_natural)]] = np.arange(len(texts))
        keys = np.where(keys >= 0, ranks[np.maximum(keys, 0)], NOTHING)
    return keys


def _answers(model: CaptureModel, field: str, first: int, part: Int, texts: dict[str, int]) -> None:
    for i in range(len(part)):
        value = model.answers.value(field, first + i)
        if isinstance(value, int):
            part[i] = value
        elif value is not None:
            part[i] = texts.setdefault(str(value), len(texts))


def _read(model: CaptureModel, column: Column, table: ChunkTable, part: Int, texts: dict[str, int], name: Name | None) -> None:
    every = np.arange(len(table))
    if column.key == "p_key":
        values, there = table.of_rows(BTH.p_key)
        part[there] = values[there]
        return
    if column.key in NAMED:
        found = addresses(table, every)[NAMED.index(column.key)]
        if name is not None:
            found = _named(found, name, table.chunk.first)
            for row, ends in model.ends.routed(table).items():
                found[row] = ends[NAMED.index(column.key)] or found[row]
        part[:] = [texts.setdefault(text, len(texts)) for text in found]
        return
    if not column.field:
        found = getattr(summaries(table, every, model.presenter(0)), column.key)
        part[:] = [texts.setdefault(text, len(texts)) for text in found]
        return
    show = model.presenter(0)
    state = State(presenter=show, hide_keys=not model.show_keys, ends=model.ends)
    (source,) = named_columns(model.catalog, [column.field], first=True)
    rows, values, _ = occurrences(source, table, state, every, partial(text_of, show))
    for row, text in zip(rows.tolist(), values.tolist(), strict=True):
        part[row] = texts.setdefault(str(text), len(texts))


def _named(found: list[str], name: Name, first: int) -> list[str]:
    """Names for the addresses of a chunk; frame by frame only where the owner of an address changed in it."""
    last = first + len(found) - 1
    names = {text: name(text, first) for text in set(found)}
    moved = {text for text, one in names.items() if name(text, last) != one}
    return [name(text, first + i) if text in moved else names[text] for i, text in enumerate(found)]


def _natural(text: str) -> tuple[tuple[int, int | str], ...]:
    """A text with its numbers as numbers."""
    return tuple(
        (0, int(part, 16)) if part.startswith("0x") else (0, int(part)) if part.isdigit() else (1, part)
        for part in re.findall(r"0x[0-9a-f]{1,15}|[0-9]{1,18}|[^0-9]+", text)
    )
