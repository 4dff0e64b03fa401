"""Every kind of place that a declaration may name is searched for."""

from __future__ import annotations

from ibdissect.decode.payloads import FINDERS
from ibdissect.wire import places
from ibdissect.wire.places import Inside, Mad, MadFormat, Parsed

BY_TABLE = {Inside, Mad, MadFormat, Parsed}
"""What `ChunkTable.placed` finds itself."""


def test_every_kind_of_place_has_a_finder() -> None:
    kinds = {kind for kind in vars(places).values() if isinstance(kind, type) and issubclass(kind, places.Place)} - {places.Place}
    assert kinds == BY_TABLE | set(FINDERS)
