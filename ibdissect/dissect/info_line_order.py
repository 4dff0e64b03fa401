"""Order of frames by protocol or info: the lines of many frames, of which only distinct texts are made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct as Record

from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.equal_rows import by_value, digest
from ibdissect.wire import numbers
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import SMPDirected

from . import info_line_plugin
from .info_line import opcode_lines, summaries
from .shown_value import Presenter


class SimilarRows(Record, frozen=True, eq=False):
    """Some rows whose lines begin with the same text and go on with a queue pair and a PSN."""

    rows: Int
    text: str
    numbers: Int | None = None
    """`QP << 24 | PSN` of each row; None: the text is the whole line."""


def alike(table: ChunkTable, column: str, presenter: Presenter, known: dict[int, str]) -> Iterator[SimilarRows]:
    """All rows of a chunk by their `protocol` or `info`. `known`: infos of SMPs by what decides them, kept from chunk to chunk."""
    located, every = table.located, np.arange(len(table))
    mad = located.at("mad") >= 0
    plain = (located.malformed == 0) & ~np.full(len(table), bool(info_line_plugin.with_summary(table.catalog)))
    done = np.zeros(len(table), np.bool_)
    transport = every[(located.at("bth") >= 0) & ~mad & plain]
    for rows, protocol, info, order in opcode_lines(table, transport):
        done[rows] = True
        yield SimilarRows(rows, protocol) if column == "protocol" else SimilarRows(rows, info, order)
    if column == "info":
        for rows, text in _of_smps(table, every[mad & plain], presenter, known):
            done[rows] = True
            yield SimilarRows(rows, text)
    rest = every[~done]
    if column == "protocol" and len(rest):
        for rows in _one_of_each(table, rest[mad[rest] & plain[rest]]):
            done[rows] = True
            yield SimilarRows(rows, summaries(table, rows[:1], presenter).protocol[0])
        rest = every[~done]
    texts: dict[str, list[int]] = {}
    for row, text in zip(rest.tolist(), getattr(summaries(table, rest, presenter), column), strict=True):
        texts.setdefault(text, []).append(row)
    for text, found in texts.items():
        yield SimilarRows(np.array(found, np.int64), text)


def _one_of_each(table: ChunkTable, rows: Int) -> Iterator[Int]:
    """MADs by their class, which decides the protocol."""
    classes = table.chunk.data[table.located.at("mad")[rows] + MAD.mgmt_class.span[0]] if len(rows) else rows
    for _, index in by_value(classes):
        yield rows[index]


def _of_smps(table: ChunkTable, rows: Int, presenter: Presenter, known: dict[int, str]) -> Iterator[tuple[Int, str]]:
    """SMPs with the same info: those with the same header, without its TransactionID, and the same route; not notices."""
    start, stop = table.located.at("mad")[rows], table.located.payload_end[rows]
    whole = stop - start >= SMPDirected.size
    rows, start = rows[whole], start[whole]
    head = gather(table.chunk.data, start, MAD.size) if len(rows) else np.zeros((0, MAD.size), np.uint8)
    smp = np.isin(head[:, MAD.mgmt_class.span[0]], sorted(numbers.SMP_CLASSES)) & (head[:, MAD.base_version.span[0]] == 1)
    first = MAD.attribute_id.span[0]
    smp &= (head[:, first].astype(np.int64) << 8 | head[:, first + 1]) != numbers.NOTICE
    rows, start, head = rows[smp], start[smp], head[smp].copy()
    if not len(rows):
        return
    head[:, slice(*MAD.transaction_id.span)] = 0
    low, high = SMPDirected.initial_path.span
    path = gather(table.chunk.data, start + low, high - low)
    path = np.where((head[:, MAD.mgmt_class.span[0]] == numbers.DIRECTED)[:, None], path, 0).astype(np.uint8)
    for value, index in by_value(digest(np.concatenate([head, path], axis=1))):
        if value not in known:
            known[value] = summaries(table, rows[index[:1]], presenter).info[0]
        yield rows[index], known[value]
