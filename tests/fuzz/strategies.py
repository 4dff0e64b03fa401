"""Packets that hypothesis makes of those that exist: of captures, and one of every declaration. `declared` draws new ones."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from .mutate import STEPS, Packet
from .seeds import Seed, of_captures, of_declarations

CAPTURES = Path(__file__).resolve().parents[2] / "captures"


@cache
def starts() -> tuple[Seed, ...]:
    """Packets to start from: those of the repository's captures, and one of each declaration."""
    return (*of_captures(sorted(path for path in CAPTURES.iterdir() if ".pcap" in path.name), 40), *of_declarations())


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    """A packet with some of the steps of `mutate` applied, which shrinks to fewer steps and simpler packets."""
    every = starts()
    seed = every[draw(st.integers(0, len(every) - 1))]
    data = bytearray(seed.data)
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=5)):
        step(random.Random(draw(st.integers(0, 1 << 16))), data, seed, every)
    cut = draw(st.one_of(st.just(0), st.integers(0, 64)))
    return seed.link, bytes(data), len(data) + cut
