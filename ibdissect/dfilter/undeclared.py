"""What does a column show for a name that is no declared field: a property of the frame, a protocol, a structure?"""

from __future__ import annotations

import numpy as np

from ibdissect.table.cut_keys import hides
from ibdissect.table.locate import MALFORMED, Bool, Int
from ibdissect.table.mask import Judge
from ibdissect.table.series import Blobs, Values
from ibdissect.table.table import ChunkTable

from .computed import State, texts_of
from .names import Source
from .values import NamedOperand


def column(source: Source, table: ChunkTable, state: State, rows: Int) -> tuple[Int, Values, Bool]:
    """The values in some rows of a chunk (ascending): the row of each value, the values, and which of them are hidden as keys.

    Numbers and times in nanoseconds are integers, marks without a value 1; strings are text, bytes hex digits.
    """
    of_row, values = rows, np.ones(len(rows), np.int64)
    table = table.shown
    if source.name == "_ws.malformed":
        of_row = rows[table.located.malformed[rows] != 0]
        values = np.array(MALFORMED, object)[table.located.malformed[of_row]]
    elif source.kind == "string":
        of_row, texts = texts_of(source.name, table, state, rows)
        values = np.empty(len(texts), object)
        values[:] = texts
    elif source.mark is not None:
        of_row = rows[Judge(table).mask(source.mark)[rows]]
        values = np.ones(len(of_row), np.int64)
    else:
        return _read(NamedOperand(source.kind, source, state), table, rows)
    return of_row, values, np.zeros(len(of_row), np.bool_)


def _read(named: NamedOperand, table: ChunkTable, rows: Int) -> tuple[Int, Values, Bool]:
    judge = Judge(table)
    found = named.read(judge)
    assert found.rows is not None
    if len(rows) < len(table):
        found = found.pick(np.flatnonzero(np.isin(found.rows, rows)))
    assert found.rows is not None
    if not isinstance(found, Blobs):
        return found.rows, found.values, np.zeros(len(found.rows), np.bool_)
    texts = np.empty(len(found.rows), object)
    texts[:] = [item.hex() for item in found.items()]
    secret = named.state.hide_keys and found.data is table.chunk.data
    return found.rows, texts, hides(table, found.at, found.stop) if secret else np.zeros(len(texts), np.bool_)
