"""The words of plugins about their structures in the Info column (`wire.dialogue.summary`)."""

from __future__ import annotations

import string
from functools import cache
from typing import Any

import numpy as np

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.conversation_values import memory_at
from ibdissect.decode.hidden.cut_keys import without_keys
from ibdissect.decode.inner_structures import in_frame_order
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.dialogue import summary_of
from ibdissect.wire.kept import remember
from ibdissect.wire.keys_read import HIDDEN
from ibdissect.wire.spec import Field, Struct
from ibdissect.wire.text import printable

from .shown_value import Presenter
from .unfit import unfit


@cache
def with_summary(catalog: Catalog) -> tuple[tuple[StructType, str], ...]:
    """The structures that say something, and what, with placeholders."""
    return tuple((struct, text) for struct in catalog.of_plugins if (text := summary_of(struct)))


def placeholders(text: str) -> list[str]:
    """The names of fields in the text of a summary."""
    return [name for _, name, _, _ in string.Formatter().parse(text) if name]


def fill(table: ChunkTable, rows: Int, protocols: list[str], infos: list[str], presenter: Presenter) -> None:
    """Put what plugins say before the infos of some rows, ascending; behind those of MADs."""
    said: dict[int, tuple[str, list[str]]] = {}
    texts_of, wanted = dict(with_summary(table.catalog)), set(rows.tolist())
    for row, struct, i, of in in_frame_order(table, tuple(texts_of)):
        if row in wanted:
            words = {name: _word(presenter, of, struct, i, name) for name in placeholders(texts_of[struct])}
            said.setdefault(row, (struct.prefix.upper(), []))[1].append(texts_of[struct].format_map(words))
    mad = table.located.at("mad") >= 0
    for row, (protocol, texts) in said.items():
        place = int(np.searchsorted(rows, row))
        not_fitting = unfit(table, row)
        text = printable("; ".join(texts) + (f" [{not_fitting[0]}]" if not_fitting else ""))
        if mad[row]:
            infos[place] += f" {text}"
        else:
            infos[place] = f"{text} ({protocols[place]} {infos[place]})"
            protocols[place] = protocol


def _without_keys(table: ChunkTable, struct: StructType, i: int) -> Struct:
    """A view of an occurrence in which the bytes that are hidden are zero."""
    found = table.occurrences(struct)
    at, stop = int(found.at[i]), int(found.stop[i])
    view = struct(table.once(without_keys)[at:stop].tobytes(), 0, stop - at)
    if struct.tail is not None and struct.tail.depends():
        remember(view, memory_at(table, struct, i))
    return view


def _word(presenter: Presenter, table: ChunkTable, struct: StructType, i: int, name: str) -> str:
    """The value of a field of an occurrence, as short as possible: the name of a value without its number."""
    value: Any = getattr(table.view(struct, i), name)
    field = getattr(struct, name, None)
    if isinstance(value, tuple):
        return str(len(value))
    if isinstance(value, Struct):
        return type(value).title
    if value is None or not isinstance(field, Field):  # a part that is not there
        return "" if value is None else str(value)
    if field.values and value in field.values and not field.tells and not field.secret:
        return field.values[value]
    if isinstance(value, (bytes, str)) and not field.secret:
        if not presenter.show_keys and getattr(_without_keys(table, struct, i), name) != value:
            return HIDDEN
        return value if isinstance(value, str) else value.hex()
    return presenter.present(field, value)[1]
