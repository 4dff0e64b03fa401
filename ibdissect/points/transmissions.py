"""Transmissions: each packet that was sent, when and where it was seen, and its fields."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import Columns

from .packet_identity import FIELDS, Sightings


class Transmissions(Columns):
    """Packets sent once, with their first sighting at each point; arrays of equal length."""

    id: Int
    """Unique, in no order."""
    time: Int
    """Of the first sighting, on the reference clock."""
    frame: npt.NDArray[np.int32]
    """int32[n, points]; 0: not seen."""
    at: Int
    """Time at each point, int64[n, points]."""
    fields: npt.NDArray[np.int16]
    """int16[n, points, len(FIELDS)]; -1 where it was not seen."""
    flow: npt.NDArray[np.int32]
    psn: npt.NDArray[np.int32]
    opcode: npt.NDArray[np.uint8]
    syndrome: npt.NDArray[np.int16]
    transaction: npt.NDArray[np.uint32]
    asks: npt.NDArray[np.uint8]
    port: npt.NDArray[np.uint16]
    ambiguous: Bool
    """It is unknown which of several equal packets was seen where."""
    by_order: Bool
    """Only order and time distinguish it from equal packets."""
    sound: Bool
    """Its ICRC is right, as `Sightings.sound`."""

    def __len__(self) -> int:
        return len(self.id)


class Repeats(Columns):
    """Second and later sightings of a packet at the same point: a mirror's duplicate, a port's other side."""

    id: Int
    """Of the transmission; within a block of the journal, its index there."""
    point: npt.NDArray[np.uint8]
    frame: npt.NDArray[np.int32]
    time: Int
    fields: npt.NDArray[np.int16]


def transmissions_of(
    seen: Sightings, number: Int, ambiguous: Bool, by_order: Bool, points: int, first_id: int
) -> tuple[Transmissions, Repeats]:
    """The transmissions that some sightings are of, and their repeated sightings. `number`: the transmission of each sighting.

    `ambiguous` and `by_order` are those of the transmissions; ones without a sighting are left out.
    """
    n = len(ambiguous)
    cell = number * points + seen.point
    order = np.lexsort((seen.frame, cell))
    fresh = np.diff(cell[order], prepend=-1) != 0
    first, more = order[fresh], order[~fresh]
    frame, at = np.zeros(n * points, np.int32), np.zeros(n * points, np.int64)
    fields = np.full((n * points, len(FIELDS)), -1, np.int16)
    frame[cell[first]], at[cell[first]], fields[cell[first]] = seen.frame[first], seen.time[first], seen.fields[first]
    time = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(time, number, seen.time)
    example = np.zeros(n, np.int64)
    example[number[first[::-1]]] = first[::-1]  # its sighting at the first point that has it
    found = Transmissions(
        first_id + np.arange(n), time, frame.reshape(n, points), at.reshape(n, points), fields.reshape(n, points, len(FIELDS)),
        seen.flow[example], seen.psn[example], seen.opcode[example], seen.syndrome[example], seen.transaction[example], seen.asks[example],
        seen.port[example], ambiguous, by_order, seen.sound[example],
    )  # fmt: skip
    repeats = Repeats(first_id + number[more], seen.point[more], seen.frame[more], seen.time[more], seen.fields[more])
    return found.take(time < np.iinfo(np.int64).max), repeats
