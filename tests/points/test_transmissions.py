"""A transmission has its first sighting at each point, and the others are kept apart."""

from __future__ import annotations

import numpy as np

from ibdissect.points.packet_identity import FIELDS, Sightings
from ibdissect.points.transmissions import transmissions_of


def test_first_and_repeated_sightings() -> None:
    point = np.array([0, 1, 1, 0, 1], np.uint8)
    frame, time = np.array([1, 2, 1, 2, 3], np.int32), np.array([100, 160, 150, 300, 340])
    small = np.zeros(5, np.uint8)
    fields = np.repeat(np.arange(5, dtype=np.int16)[:, None], len(FIELDS), axis=1)
    psn = np.array([7, 7, 7, 8, 8], np.int32)
    seen = Sightings(
        point, frame, time, psn.astype(np.uint64), psn, small.astype(np.uint16), psn, small, small.astype(np.int16),
        small.astype(np.uint32), small, small > 0, fields, small > 0,
    )  # fmt: skip
    number, two = np.array([0, 0, 0, 2, 2]), np.zeros(3, np.bool_)
    found, again = transmissions_of(seen, number, two, two, 2, 40)
    assert found.id.tolist() == [40, 42]  # nothing is left of the one in between
    assert (found.frame.tolist(), found.at.tolist()) == ([[1, 1], [2, 3]], [[100, 150], [300, 340]])
    assert found.time.tolist() == [100, 300] and found.psn.tolist() == [7, 8]
    assert found.fields[0, 1, 0] == 2 and (again.id.tolist(), again.frame.tolist(), again.fields[:, 0].tolist()) == ([40], [2], [1])
