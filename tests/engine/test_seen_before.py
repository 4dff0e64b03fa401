"""Compiled and interpreted steps find the same new numbers and hashes, and those that a set finds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

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


def sent(luck: random.Random, rows: int) -> tuple[bytes, dict[str, Any], list[int]]:
    """Packets with an IPv4 header and a BTH, one of them, or none, and the number of each as `Senders.numbers` has it."""
    data, wanted = bytearray(), []
    columns: dict[str, list[int]] = {name: [] for name in ("ip4", "bth", "limit", "taps")}
    for _ in range(rows):
        ip, bth = (at if luck.random() < 0.9 else -1 for at in (len(data), len(data) + 20))
        source, number, tap = luck.randbytes(4), luck.choice((0, 1, 0xFFFF)), luck.choice((0, 1, 0x8001))
        opcode, syndrome = luck.choice((4, 0x11, 0x51, 0x12)), luck.choice((0x1F, 0x20, 0x60, 0x40))
        data += bytes(4) + number.to_bytes(2, "big") + bytes(6) + source + bytes(4) + bytes([opcode, *bytes(11), syndrome, 0, 0, 0])
        limit = len(data) - luck.choice((0, 1))
        for name, value in zip(columns, (ip, bth, limit, tap), strict=True):
            columns[name].append(value)
        mark = ((tap & 0x7FFF) << 48 | int.from_bytes(source, "big") << 16 | number) if number else 0
        if ip < 0 or bth < 0:
            mark = 0
        elif opcode & 0x1F == 0x11 and limit == len(data) and syndrome & 0x20:
            mark = min(-mark, -1)
        wanted.append(mark)
    return bytes(data), {name: np.array(column, np.uint16 if name == "taps" else np.int64) for name, column in columns.items()}, wanted


def test_numbers_of_senders() -> None:
    data, columns, wanted = sent(random.Random(5), 400)
    assert len({number == 0 for number in wanted}) == 2 and -1 in wanted and min(wanted) < -1
    for engine in BOTH:
        found = np.empty(400, np.int64)
        engine.IPv4Senders(data).numbers(columns, found)
        assert found.tolist() == wanted


@pytest.mark.parametrize("renewed", [False, True])
def test_a_number_is_new_once(renewed: bool) -> None:
    luck = random.Random(2)
    columns = [[luck.choice((-7, 1, 2, 1 << 62, luck.randrange(kinds))) for _ in range(300)] for kinds in (50, 2, 400)]
    for most in (0, 1, 300, 301, 400, 1000):
        seen, wanted = set[int](), list[list[int]]()
        for column in columns:
            if renewed and len(seen) + len(column) > most:
                seen = set()
            wanted.append([])
            for i, number in enumerate(column):
                if (number or 1) not in seen and len(seen) < most:
                    seen.add(number or 1)
                    wanted[-1].append(i)
        for engine in BOTH:
            state = engine.NewNumbers(most)
            assert [state.feed(np.array(column, np.int64), renewed) for column in columns] == wanted
    assert len(wanted[0]) > 20 > len(wanted[1])


def test_what_is_left_to_judge() -> None:
    luck = random.Random(5)
    windows = [[luck.randrange(900) for _ in range(150)] for _ in range(40)]
    faulty = {*range(1, 900, 41)}
    for most in (150, 400, 5000):
        for engine in BOTH:
            state, known, blamed, repeated = engine.Judged(most), set[int](), set[int](), 0
            for contents in windows:
                found = np.zeros(len(contents), np.uint8)
                state.left(np.array(contents, np.int64), found)
                left = [content == 0 or content not in known or content in blamed for content in contents]
                assert found.tolist() == left
                if len(known) + sum(judged for content, judged in zip(contents, left, strict=True) if content) > most:
                    known, blamed = set(), set()
                known |= {content for content, judged in zip(contents, left, strict=True) if judged and content}
                at_fault = [content for content, judged in zip(contents, left, strict=True) if judged and content in faulty]
                state.blame(np.array(at_fault, np.int64))
                blamed |= {*at_fault}
                repeated += left.count(False)
            assert repeated > 500 or most == 150


def test_what_is_judged_in_any_case_takes_no_room() -> None:
    for engine in BOTH:
        state = engine.Judged(2)
        for seen in (False, True, True):
            found = np.zeros(5, np.uint8)
            state.left(np.array([0, 7, 0, 8, 0], np.int64), found)
            assert found.tolist() == ([1, 0, 1, 0, 1] if seen else [1] * 5)


def test_nothing_is_remembered_without_room() -> None:
    for engine in BOTH:
        state = engine.Judged(0)
        for _ in range(2):
            found = np.zeros(2, np.uint8)
            state.left(np.array([7, 8], np.int64), found)
            state.blame(np.array([7], np.int64))
            assert found.tolist() == [1, 1]
