"""How is an open capture diagnosed, by the command and from Python alike?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ibdissect.table import ChunkTable

from .reading import Progress, Reading

if TYPE_CHECKING:
    from ibdissect.diagnosis.connection import Diagnosis


def diagnosed(
    reading: Reading, name: str, progress: Progress | None = None, each: Callable[[ChunkTable], None] = lambda table: None
) -> Diagnosis:
    """The diagnosis of a whole capture, `name` by name. `each`: is called after each window, and may raise to end it. CaptureError.

    Keys are numbered in a second pass, and only if a story tells of one, as `lint` does; of a pipe, in the only one.
    """
    from ibdissect.diagnosis.follow import ConnectionFollower  # rarely needed

    follower, joins, again = ConnectionFollower(), reading.joins, reading.reader.rereadable and not reading.reader.far
    reading.joins = False
    try:
        for table in reading.tables(keys=not again, progress=progress):
            follower.feed(table)
            each(table)
        verdicts = follower.verdicts()
        if verdicts.names_keys:
            if again and not reading.show_keys:
                reading.number_keys()
            verdicts.key_name = reading.key_name
    finally:
        reading.joins = joins
    return follower.result(name, verdicts)
