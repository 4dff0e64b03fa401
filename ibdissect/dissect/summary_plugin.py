"""What do plugins say in the Info column about their structures (`wire.dialogue.summary`)?"""

from __future__ import annotations

import string
from functools import cache
from typing import Any

import numpy as np

from ibdissect.table import ChunkTable, Int
from ibdissect.table.insides import in_frame_order
from ibdissect.wire.catalog import Catalog, StructType, is_plugin
from ibdissect.wire.dialogue import summary_of
from ibdissect.wire.spec import Field, Struct
from ibdissect.wire.text import printable

from .unfit import unfit
from .value import Presenter


@cache
def with_summary(catalog: Catalog) -> tuple[tuple[StructType, str], ...]:
    """The structures that say something, and what, with placeholders."""
    return tuple((struct, text) for struct in catalog.structs if is_plugin(struct) and (text := summary_of(struct)))


def placeholders(text: str) -> list[str]:
    """The names of fields in the text of a summary."""
    return [name for _, name, _, _ in string.Formatter().parse(text) if name]


def fill(table: ChunkTable, rows: Int, protocols: list[str], infos: list[str], presenter: Presenter) -> None:
    """Put what plugins say before the infos of some rows, ascending; behind those of MADs."""
    said: dict[int, tuple[str, list[str]]] = {}
    texts_of, wanted = dict(with_summary(table.catalog)), set(rows.tolist())
    for row, struct, i, of in in_frame_order(table, tuple(texts_of)):
        if row in wanted:
            words = {name: _word(presenter, struct, of.view(struct, i), name) for name in placeholders(texts_of[struct])}
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


def _word(presenter: Presenter, struct: StructType, view: Struct, name: str) -> str:
    """The value of a field, as short as possible: the name of a value without its number."""
    value: Any = getattr(view, name)
    field = getattr(struct, name, None)
    if not isinstance(field, Field):
        return str(len(value)) if isinstance(value, tuple) else "" if value is None else str(value)
    if field.values and value in field.values and not field.tells:
        return field.values[value]
    if isinstance(value, tuple):
        return str(len(value))
    if isinstance(value, (bytes, str)) and not field.secret:
        return value if isinstance(value, str) else value.hex()
    return presenter.present(field, value)[1]
