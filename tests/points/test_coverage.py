"""Pauses of a point that are holes: several packets passed, none was recorded."""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.points.coverage import CoverageGaps

HOLE = 4


@pytest.mark.parametrize("block", [10, 50, 130, 5_000])
def test_holes(block: int) -> None:
    """A sighting every 10 ns, except from 300 to 500 and from 900 to 1300. In the first pause one packet too few passed."""
    sightings = np.array([at for at in range(0, 2000, 10) if not (300 < at < 500 or 900 < at < 1300)])
    passed = np.array([*range(310, 310 + HOLE - 1), 955, 1000, 1100, 1299, 1405, 1505])
    assert len(passed) == HOLE - 1 + 6
    holes = CoverageGaps()
    for at in range(0, 2000, block):
        part = [column[(column >= at) & (column < at + block)] for column in (sightings, passed)]
        holes.feed(*part, at + block - 1)
    assert holes.found().tolist() == [[900], [1300]]
    assert len(holes._passed) < 5
