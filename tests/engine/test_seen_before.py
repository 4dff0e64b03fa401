"""Do compiled and interpreted steps find the same new pairs and hashes, and those that a set finds?"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ibdissect.engine import seen_before
from tests.engine.plain import plain

BOTH = (seen_before, plain("seen_before"))


def hashes(engine: Any, data: bytes, at: list[int], size: int) -> list[int]:
    found = np.empty(len(at), np.int64)
    engine.Marks(data).at(np.array(at, np.int64), size, found)
    return found.tolist()


def test_equal_bytes_have_equal_hashes() -> None:
    data = bytes(random.Random(3).randrange(3) for _ in range(400))
    for size in (1, 2, 7, 8, 16, 37):
        at = [*range(len(data) - size)]
        found = hashes(seen_before, data, at, size)
        assert found == hashes(plain("seen_before"), data, at, size) and min(found) >= 0
        assert len({*found}) == len({data[place : place + size] for place in at})


LONG = (("lrh", 2), ("grh", 16), ("ip4", 4), ("ip6", 16))
"""Headers in the order in which their addresses identify, and the size of these."""
PLACES = {"lrh": (6, 2), "grh": (8, 24), "ip4": (12, 16), "ip6": (8, 24)}
"""Where sender and receiver stand in each header."""


def window(luck: random.Random, rows: int) -> tuple[bytes, dict[str, Any], list[object]]:
    """Random headers of few addresses; the pair of each row, None without a BTH, "mad" with a MAD."""
    data, columns, pairs = bytearray(), {name: [-1] * rows for name in ("bth", "mad", *dict(LONG))}, list[object]()
    for row in range(rows):
        columns["bth"][row] = 0 if luck.random() < 0.9 else -1
        columns["mad"][row] = 0 if luck.random() < 0.1 else -1
        pair: object = ""
        for name, size in LONG:
            if luck.random() < 0.5:
                columns[name][row] = len(data)
                header = bytearray(40)
                ends = [bytes([luck.randrange(3), *bytes(size - 2), luck.randrange(2)]) for _ in range(2)]
                for at, end in zip(PLACES[name], ends, strict=True):
                    header[at : at + size] = end
                data += header
                pair = pair or (size, *ends)
        pairs.append(None if columns["bth"][row] < 0 else "mad" if columns["mad"][row] >= 0 else pair)
    return bytes(data), {name: np.array(at, np.int64) for name, at in columns.items()}, pairs


def test_the_first_packet_of_a_pair_is_new_once() -> None:
    luck = random.Random(1)
    windows = [window(luck, 200) for _ in range(3)]
    for most in (0, 1, 7, 1000):
        seen, wanted = set[object](), list[list[int]]()
        for _, _, pairs in windows:
            wanted.append([])
            for row, pair in enumerate(pairs):
                if pair is None or (pair != "mad" and (pair in seen or len(seen) >= most)):
                    continue
                seen |= {pair} - {"mad"}
                wanted[-1].append(row)
        for engine in BOTH:
            state = engine.NewPairs(most)
            assert [state.feed(data, columns) for data, columns, _ in windows] == wanted
    assert len(seen) > 50
