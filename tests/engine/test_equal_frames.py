"""Frames that repeat one of the last few are found, compiled and interpreted."""

from __future__ import annotations

import random

import numpy as np

from ibdissect.engine import equal_frames
from tests.cases import every
from tests.engine.plain import plain

BOTH = (equal_frames, plain("equal_frames"))


def test_frames_that_repeat_a_near_one() -> None:
    """Against a comparison of each with the frames before it, of random frames with few different bytes, and clocks that go back."""
    luck, found = random.Random(5), 0
    for rising in (True, False):
        pool = [bytes(luck.randrange(2) for _ in range(20)) for _ in range(3)] + [b"12345678" * 4, b"90345678" + b"12345678" * 3]
        frames = [luck.choice(pool) for _ in range(300)]
        data = np.frombuffer(b"".join(frames), np.uint8)
        sizes = np.array([len(one) for one in frames], np.int64)
        starts = np.cumsum(sizes) - sizes
        begins = starts + np.array([luck.choice((0, 2)) if len(one) == 32 else luck.choice((0, 4, 5)) for one in frames])
        times = np.cumsum([luck.choice((0, 400, 1000, 3000, 3001, 1) if rising else (-900, 1200, 3001, -3001)) for _ in frames])
        wanted = []
        for row in range(len(frames)):
            for behind in range(1, min(equal_frames.APART, row) + 1):
                later, one, other = abs(int(times[row] - times[row - behind])), frames[row], frames[row - behind]
                mine, theirs = one[begins[row] - starts[row] :], other[begins[row - behind] - starts[row - behind] :]
                if later <= equal_frames.AT_MOST_NS and mine == theirs and len(mine) >= equal_frames.SHORTEST:
                    wanted.append((row, behind, later, len(one) if one == other else len(mine)))
                    break
        for engine in BOTH:
            assert engine.near(data, times, starts, sizes, begins, starts + sizes - begins, np.zeros(len(frames), np.int64)) == wanted
        found += len({size for *_, size in wanted})
    assert found >= 6


@every(
    ("numbers", "step_ns", "wanted"),
    [
        ((7, 8, 7), 2_500_000, [(2, 2)]),  # the network doubled it and held it back
        ((7, 8, 7), 2_500_001, []),
        ((7, 7, 7), 2_500_000, []),  # its sender numbers nothing
        ((0, 8, 0), 2_500_000, []),
        ((7, -8, 7), 2_500_000, []),  # a NAK asked for it
        ((-7, 8, -7), 2_500_000, [(2, 2)]),
        ((-1, 8, -1), 2_500_000, []),
        ((7, 8, 9), 2_500_000, []),
        ((7, -8, 9), 1500, [(2, 2)]),  # so soon that nobody can have asked
    ],
)
def test_numbered_frames_that_repeat_one(numbers: tuple[int, ...], step_ns: int, wanted: list[tuple[int, int]]) -> None:
    frames = [b"the first packet", b"the other packet", b"the first packet"]
    data, begins = np.frombuffer(b"".join(frames), np.uint8), np.arange(3) * 16
    for engine in BOTH:
        for back in (0, 1):  # a clock that was set back between others changes nothing
            times = np.arange(4) * step_ns - np.array([0, 0, 0, back * 10**9])
            starts, sizes = np.append(begins, 16), np.full(4, 16)
            found = engine.near(data, times, starts, sizes, starts, sizes, np.array([*numbers, 0], np.int64))
            assert [(row, behind) for row, behind, *_ in found if row < 3] == wanted
