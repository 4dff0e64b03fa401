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
        engine.Senders(data).numbers(columns, found)
        assert found.tolist() == wanted


def roce(luck: random.Random, rows: int, senders: int) -> tuple[bytes, dict[str, Any], list[object]]:
    """Packets of few senders, and what is new of each once: None of datagrams, special queue pairs and what has no UDP header."""
    data, keys = bytearray(), list[object]()
    columns: dict[str, list[int]] = {name: [] for name in ("bth", "udp", "lrh", "grh", "ip4", "ip6", "networks")}
    for _ in range(rows):
        at = len(data)
        source, port, network = luck.randrange(senders), luck.choice((7, 0xFFFF)), luck.choice((0, 3))
        qpn, opcode = luck.choice((0, 1, 2, 0xFFFFFF)), luck.choice((4, 0x24, 0xA4, 0x44, 0x64, 0x81))
        data += bytes(12) + source.to_bytes(4, "big") + bytes([9, 9, 9, 9]) + port.to_bytes(2, "big") + bytes(6)
        data += bytes([opcode, 0, 0, 0, 0]) + qpn.to_bytes(3, "big") + bytes(4)
        udp, bth = (place if luck.random() < 0.95 else -1 for place in (at + 20, at + 28))
        for name, value in zip(columns, (bth, udp, -1, -1, at, -1, network), strict=True):
            columns[name].append(value)
        connected = udp >= 0 and bth >= 0 and opcode in (4, 0x24, 0xA4) and qpn > 1
        keys.append((source, port, qpn, network) if connected else None)
    return bytes(data), {name: np.array(column, np.int64) for name, column in columns.items()}, keys


def test_the_first_packet_of_a_connection_is_new_until_all_are_forgotten() -> None:
    luck = random.Random(2)
    windows = [roce(luck, 300, senders) for senders in (20, 2, 40)]
    for most in (300, 400, 1000):
        seen, wanted = set[object](), list[list[int]]()
        for _, _, keys in windows:
            if len(seen) + 300 > most:
                seen = set()
            wanted.append([])
            for row, key in enumerate(keys):
                if key is not None and key not in seen:
                    seen.add(key)
                    wanted[-1].append(row)
        for engine in BOTH:
            state = engine.NewConnections(most)
            assert [state.feed(data, columns) for data, columns, _ in windows] == wanted
    assert len(wanted[0]) > 50 > len(wanted[1])
