"""Does the linter accuse nobody because a fabric changed while it was captured, and the capture is not whole either?"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from .compare import MEANT, findings_of
from .manipulations import MANIPULATIONS, Pcap
from .scenarios import SCENARIOS, Fabric, made

TRIES = 8


def cut(orderly: Pcap) -> Iterator[tuple[str, Pcap]]:
    """The capture with some packets missing, in many ways."""
    records = list(orderly.records)
    for name, manipulate in MANIPULATIONS.items():
        yield name, manipulate(orderly)
    for seed in range(TRIES):
        rnd = random.Random(seed)
        at, length = rnd.randrange(len(records)), rnd.randrange(5, 60)
        yield f"starts at {at}", orderly.with_records(records[at:])
        yield f"without {at} to {at + length}", orderly.with_records(records[:at] + records[at + length :])
        for percent in (5, 20):
            yield f"{percent} % lost, {seed}", orderly.with_records([one for one in records if rnd.random() * 100 >= percent])


@pytest.mark.slow
@pytest.mark.parametrize("happen", SCENARIOS)
def test_nobody_is_accused(happen: Callable[[Fabric], None]) -> None:
    orderly = made(happen)
    captures = [("whole", orderly), *cut(orderly)]
    found = {
        (how, one.code, one.frame, one.message)
        for how, capture in captures
        for one in findings_of(capture.packed())
        if one.severity != "info" and one.code not in MEANT
    }
    assert found == set()
