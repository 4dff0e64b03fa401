"""Management datagrams: requests that were answered, records that were sent, connections that were set up.

For `tests/independent_counter.py`; it imports nothing of ibdissect.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.independent_packets import Packet

ANSWERS_TO = {1: (0x81,), 2: (0x81,), 6: (0x86,), 0x12: (0x92,), 0x13: (0x92, 0x93), 0x14: (0x94,), 0x15: (0x95,)}
WITH_SEGMENTS = {3, *range(0x30, 0x50)}
SEGMENT_KNOWN = 36
"""Bytes up to which a datagram was captured, if it counts as a request or an answer."""
REQ, REJ, REP, RTU, DREP = 0x10, 0x12, 0x13, 0x14, 0x16
SET_UPS = {"requested": REQ, "established": RTU, "rejected": REJ, "disconnected": DREP}


def records_of(packets: list[Packet]) -> Counter[int]:
    """Records of subnet administration by attribute, in answers in several segments of which all were seen."""
    found: Counter[int] = Counter()
    seen: dict[Any, dict[int, bytes]] = defaultdict(dict)
    for packet in packets:
        body = packet.body
        if packet.mad is None or packet.mad[0] != 3 or not packet.mad[1] & 0x80 or len(body) < 256 or body[24:26] != b"\1\1":
            continue
        key = packet.ends, body[8:16], packet.mad
        segments = seen[key]
        segments[int.from_bytes(body[28:32], "big")] = body
        last = next((number for number, one in segments.items() if one[26] & 4), 0)
        if last and len(segments) == last:
            size = 200 * (last - 1) + int.from_bytes(segments[last][32:36], "big") - 20
            step = 8 * int.from_bytes(segments[1][44:46], "big")
            found[packet.mad[2]] += size // step if step else 0
            del seen[key]
    return found


def agreed(packets: list[Packet]) -> set[frozenset[tuple[str, int]]]:
    """The two ends, each with its queue pair, of connections that were set up: a REQ, and the REP that names its communication id."""
    asked: dict[tuple[str, int], int] = {}
    found = set()
    for packet in packets:
        if packet.mad is not None and packet.mad[0] == 7 and len(packet.body) >= 70:
            body, number = packet.body[24:], int.from_bytes(packet.body[24:28], "big")
            if packet.mad[2] == 0x10:
                asked[packet.ends[0], number] = int.from_bytes(body[32:35], "big")
            elif packet.mad[2] == 0x13:
                other = packet.ends[1], int.from_bytes(body[4:8], "big")
                if other in asked:
                    found.add(frozenset(((packet.ends[0], int.from_bytes(body[12:15], "big")), (packet.ends[1], asked[other]))))
    return found


def requests_of(packets: list[Packet]) -> dict[tuple[int, int], dict[str, Any]]:
    """By class and attribute: requests that were answered and that were not, tries beyond the first, and from the last try to the answer
    the shortest and the longest time. A transaction is that of one asker, or of one directed route."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    open_: dict[Any, tuple[Packet, Packet, int]] = {}
    for packet in packets:
        if packet.mad is None or packet.mad[0] == 7 or len(packet.body) < SEGMENT_KNOWN:
            continue
        mgmt_class, method, attribute = packet.mad
        body = packet.body
        if mgmt_class in WITH_SEGMENTS and body[26] & 1 and body[25] > 1:
            continue  # an acknowledgement of segments
        route = body[7:8] + body[128:192] if mgmt_class == 0x81 else b""
        ends = packet.ends if method in ANSWERS_TO else packet.ends[::-1]
        key = mgmt_class, attribute, body[8:16], route, ends
        if method in ANSWERS_TO:
            first, _, tries = open_.get(key, (packet, packet, 0))
            open_[key] = first, packet, tries + 1
        elif key in open_:
            first, last, tries = open_[key]
            assert first.mad is not None
            if method in ANSWERS_TO[first.mad[1]]:
                _entry(found, first)["answered"] += 1
                _entry(found, first)["retries"] += tries - 1
                if packet.time >= last.time:
                    _entry(found, first)["times"].append(packet.time - last.time)
                del open_[key]
    for first, _, tries in open_.values():
        _entry(found, first)["unanswered"] += 1
        _entry(found, first)["retries"] += tries - 1
    return found


def _entry(found: dict[tuple[int, int], dict[str, Any]], packet: Packet) -> dict[str, Any]:
    assert packet.mad is not None
    return found.setdefault((packet.mad[0], packet.mad[2]), {"answered": 0, "unanswered": 0, "retries": 0, "times": []})


def set_ups_of(packets: list[Packet]) -> dict[str, int]:
    """Set-ups of connections, by the communication id of who asked: those with a REQ, and of these those with an RTU, a REJ, a DREP."""
    asked: dict[tuple[str, int], set[int]] = {}
    answered: dict[tuple[str, int], tuple[str, int]] = {}
    for packet in packets:
        if packet.mad is None or packet.mad[0] != 7 or len(packet.body) < 28:
            continue
        attribute, body = packet.mad[2], packet.body
        here, there = int.from_bytes(body[24:28], "big"), int.from_bytes(body[28:32], "big")
        if attribute == REQ:
            asked.setdefault((packet.ends[0], here), {REQ})
        elif attribute == REP and (packet.ends[1], there) in asked:
            answered[packet.ends[0], here] = packet.ends[1], there
            asked[packet.ends[1], there].add(REP)
        elif attribute in SET_UPS.values():
            for key in ((packet.ends[0], here), (packet.ends[1], there)):
                key = answered.get(key, key)
                if key in asked:
                    asked[key].add(attribute)
                    break
    return {name: sum(which in seen for seen in asked.values()) for name, which in SET_UPS.items()}
