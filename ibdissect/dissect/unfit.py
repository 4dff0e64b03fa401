"""Parts that do not fit in the structures that plugins declare, and lists of theirs that are longer than is shown."""

from __future__ import annotations

from ibdissect.decode import ChunkTable
from ibdissect.decode.inner_structures import holds_key, with_pdus
from ibdissect.decode.places_in_fields import walks

MOST_TOLD = 8
"""Most remarks on one frame."""


def unfit(table: ChunkTable, row: int) -> tuple[str, ...]:
    """What does not fit in a frame, a sentence each, outer structures first; nothing of a frame that the snap length cut."""
    found = table.once(_unfit).get(row, [])
    more = len(found) - MOST_TOLD
    return (*found[:MOST_TOLD], f"{more:,} more do not fit") if more > 0 else tuple(found)


def _unfit(table: ChunkTable) -> dict[int, list[str]]:
    said: list[tuple[int, int, int, str]] = []
    for struct in table.catalog.of_plugins:
        if struct.tail is None:
            continue
        of = with_pdus(table, struct)
        outer = of.occurrences(struct)
        if not len(outer):
            continue
        hidden = holds_key(table.catalog, struct)
        for i, found in enumerate(walks(of, struct, outer)[0]):
            if found.why and not of.located.snapped[outer.rows[i]]:
                text = f"{struct.title} cannot be read to its end" if hidden else f"{struct.title}: {found.why}"
                said.append((int(outer.rows[i]), int(outer.at[i]), -int(outer.stop[i]), text))
    result: dict[int, list[str]] = {}
    for row, _, _, text in sorted(said):
        result.setdefault(row, []).append(text)
    return result
