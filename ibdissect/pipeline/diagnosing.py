"""The diagnosis of an open capture, for the command and Python alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ibdissect.decode import ChunkTable
from ibdissect.decode.counted_packets import Distinct
from ibdissect.decode.hidden.key_numbers import KeyNumbering

from .reading import Progress, Reading

if TYPE_CHECKING:
    from ibdissect.diagnosis.connection import Diagnosis


def diagnosed(
    reading: Reading, name: str, progress: Progress | None = None, each: Callable[[ChunkTable], None] = lambda table: None
) -> Diagnosis:
    """The diagnosis of a whole capture, `name` by name. `each`: is called after each window, and may raise to end it. CaptureError.

    Keys are numbered in a second pass, and only if a story tells of one, as `lint` does; of a pipe, in the only one.
    """
    from ibdissect.diagnosis.connection_follower import ConnectionFollower  # rarely needed
    from ibdissect.diagnosis.verdicts import R_KEY

    follower, distinct, joins = ConnectionFollower(), Distinct(), reading.joins
    again = reading.reader.rereadable and not reading.reader.far
    masker = KeyNumbering(R_KEY)
    reading.joins = False
    try:
        for table in reading.tables(keys=False, progress=progress):
            follower.feed(distinct.of(table))
            if not again and not reading.show_keys:
                masker.feed(table)
            each(table)
        verdicts = follower.verdicts()
        if verdicts.names_keys:
            for table in reading.tables(keys=False) if again and not reading.show_keys else ():
                masker.feed(table)
            verdicts.key_name = partial(reading.key_name, masker=masker)
    finally:
        reading.joins = joins
    return follower.result(name, verdicts)
