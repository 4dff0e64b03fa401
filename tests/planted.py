"""Search for a planted key in the output of frames. Its spellings: whole, cut, reversed, as a number, as base64."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

import ibdissect
from ibdissect.decode.hidden.cut_keys import without_keys
from ibdissect.dissect.frame_trees import dissect_rows
from ibdissect.dissect.json_lines import JsonLines
from ibdissect.dissect.named_values import reveals_key, runs
from ibdissect.dissect.printers import dump
from ibdissect.dissect.tree import outline
from ibdissect.transport.completed import completed
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND
from tests.fuzz.container import pcapng

KEY = bytes.fromhex("a7c3e95b")
"""Four bytes that are found nowhere else."""
BITS = (1, 2, 4, 8, 16, 32, 64, 128, 255)
Rows = list[tuple[int, bytes, int]]


def spellings(key: bytes = KEY) -> re.Pattern[str]:
    """A pattern of all texts that give away at least three bytes of a key in a row, or a number of half of it."""
    found = set()
    for part in (key, key[::-1]):
        found |= {part[i : i + 3].hex() for i in range(len(part) - 2)}
        found |= {part[i : i + 2].hex(" ") + " " + part[i + 2 : i + 3].hex() for i in range(len(part) - 2)}
        found |= {rf"\b{int.from_bytes(part[i:j], 'big')}\b" for i, j in ((0, 4), (0, 2), (2, 4))}
        found |= {base64.b64encode(bytes(i) + part)[i + 1 : i + 5].decode().lower() for i in range(3)}
    return re.compile("|".join(sorted(found)).replace("+", r"\+"))


SPELLINGS = spellings()


def native(*frames: bytes) -> Rows:
    return [(LINK_INFINIBAND, data, len(data)) for data in frames]


def ethernet(*frames: bytes) -> Rows:
    return [(LINK_ETHERNET, data, len(data)) for data in frames]


def leaks(rows: Rows, *, plugins: Sequence[str] = (), trees: Iterable[int] = (), keys: bool = False) -> list[tuple[int, str]]:
    """The frames that show a part of the key, each with where it is: in JSON lines, in the bytes, in the columns, and for the rows of
    `trees`, which take longer, in the tree and in the dump."""
    said = texts(rows, plugins=plugins, alone=trees, keys=keys)
    return [(number, match.string[max(match.start() - 90, 0) : match.end() + 20]) for number, text in said
            if (match := SPELLINGS.search(text.lower()))]  # fmt: skip


def shown(rows: Rows, *, plugins: Sequence[str] = (), alone: Iterable[int] = (), keys: bool = False) -> list[str]:
    """What JSON lines, bytes, columns, trees and dumps show of each frame, in small letters; bytes as hex digits without blanks."""
    said: list[list[str]] = [[] for _ in rows]
    for number, text in texts(rows, plugins=plugins, alone=alone, keys=keys, trees=True):
        said[number - 1].append(text)
    return ["\n".join(each).lower() for each in said]


def texts(
    rows: Rows, *, plugins: Sequence[str] = (), alone: Iterable[int] = (), keys: bool = False, trees: bool = False
) -> Iterator[tuple[int, str]]:  # fmt: skip
    """Numbers of frames, each with a text that is shown of it. `trees`: trees and dumps, too; `alone`: of rows that are read alone."""
    with ibdissect.open(io.BytesIO(pcapng(rows)), plugins=list(plugins), show_keys=keys) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        presenter = opened.presenter()
        for table in opened.tables():
            first, every = table.chunk.first, np.arange(len(table))
            yield from ((first + i, line.partition('"layers"')[2]) for i, line in enumerate(JsonLines(presenter).lines(table, every)))
            blank, ends = table.chunk.data if keys else table.once(without_keys), table.chunk.offset + table.chunk.caplen
            yield from ((first + i, blank[a:b].tobytes().hex()) for i, (a, b) in enumerate(zip(table.chunk.offset, ends, strict=True)))
            fields = tuple(field for struct in table.catalog.structs for field in struct.fields if field.kind not in ("nested", "hole"))
            for run in runs(table, fields):
                hidden = np.zeros(len(run.rows), np.bool_) if keys else reveals_key(table, run)
                there = zip(run.rows.tolist(), run.values, hidden.tolist(), strict=True)
                yield from ((first + row, _text(value)) for row, value, masked in there if not masked)
            for row, tree in dissect_rows(table, presenter) if trees else ():
                tree.joined = completed(table, row, presenter)
                yield first + row, outline(tree)
                yield first + row, dump(tree).replace(" ", "").replace("\n", "")
        for row in alone:
            tree = opened.dissect(row + 1)
            yield row + 1, outline(tree)
            yield row + 1, dump(tree)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return f"{int(value):x} {int(value)}" if np.ndim(value) == 0 else np.asarray(value).tobytes().hex()  # type: ignore[call-overload]


def mutants(frame: bytes, first: int, *, skip: Iterable[int] = (), values: Iterable[int] = BITS) -> Iterator[tuple[int, bytes]]:
    """The frame with each byte from `first` to its key changed by each of some values, and set to zero; with the place of the change."""
    for at in sorted({*range(first, frame.index(KEY))} - {*skip}):
        for value in {*(frame[at] ^ one for one in values), 0} - {frame[at]}:
            yield at, frame[:at] + bytes([value]) + frame[at + 1 :]
