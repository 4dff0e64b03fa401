"""Messages that requests and answers make. For `tests/independent_counter.py`; it imports nothing of ibdissect."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.independent_packets import ANSWERS, Packet

PSNS = 1 << 24
CONTINUES, OPEN = {1: "S", 2: "S", 3: "S", 0x16: "S", 7: "W", 8: "W", 9: "W"}, {0: "S", 1: "S", 6: "W", 7: "W"}
KINDS = {
    **dict.fromkeys((0, 1, 2, 3, 4, 5, 0x16, 0x17), "SEND"), **dict.fromkeys((6, 7, 8, 9, 10, 11), "WRITE"), 12: "READ", 0x13: "ATOMIC",
    0x14: "ATOMIC", 0x1C: "FLUSH", 0x1D: "ATOMIC WRITE",
}  # fmt: skip


def ahead(psn: int, of: int) -> int:
    return (psn - of + PSNS // 2) % PSNS - PSNS // 2


def uses(packet: Packet, mtu: int) -> int | None:
    """How many PSNs a request takes; None: unknown."""
    if packet.op != 12:
        return 1
    if packet.dma is None:
        return None
    return max(1, -(-packet.dma // mtu)) if mtu else 1 if packet.dma <= 256 else None


@dataclass
class Message:
    way: tuple[Any, ...]
    """Service, source, destination and destination queue pair."""
    kind: str
    first_frame: int
    bytes: int | None
    retries: int = 0
    naks: int = 0
    complete: bool = False
    ack_frame: int = 0
    latency: int | None = None


def sums_of(rows: list[Message]) -> dict[tuple[Any, ...], dict[str, int]]:
    """By way: how many, of which kinds, and sums."""
    found: dict[tuple[Any, ...], dict[str, int]] = {}
    for one in rows:
        entry = found.setdefault(one.way, Counter())
        for name, number in (("messages", 1), (one.kind, 1), ("complete", one.complete), ("bytes", one.bytes or 0),
                             ("unknown_sizes", one.bytes is None), ("retries", one.retries), ("naks", one.naks)):  # fmt: skip
            entry[name] += number
    return found


def messages_of(way: tuple[Any, ...], requests: list[Packet], answers: list[Packet], mtu: int) -> list[Message]:
    """The messages of one stream of requests; PSNs are counted on from the first one, so that they ascend."""
    found: list[Message] = []
    if not requests:
        return found
    position, last = PSNS, requests[0].psn
    first: dict[int, Packet] = {}
    sent: dict[int, list[Packet]] = {}
    data: dict[int, Packet] = {}
    atomics: dict[int, Packet] = {}
    refused: list[int] = []
    reached: list[tuple[int, Packet]] = []
    unread: list[tuple[int, Packet]] = []
    for packet in sorted(requests + answers, key=lambda packet: packet.frame):
        position, last = position + ahead(packet.psn, last), packet.psn
        if packet.op not in ANSWERS:
            first.setdefault(position, packet)
            sent.setdefault(position, []).append(packet)
        elif packet.op in (13, 14, 15, 16):
            data.setdefault(position, packet)
            reached.append((position, packet))
        elif packet.op == 18:
            atomics.setdefault(position, packet)
            reached.append((position, packet))
        elif packet.syndrome is None:
            unread.append((position, packet))
        elif packet.syndrome >> 5 in (0, 1, 3):
            negative = packet.syndrome >> 5 in (1, 3)
            refused += [position] if negative else []
            reached.append((position - negative, packet))
    places = sorted(first)
    index = 0
    while index < len(places):
        start = places[index]
        packet = first[start]
        kind = KINDS[packet.op]
        ack: Packet | None
        if kind == "READ":
            stop = start
            taken = uses(packet, mtu)
            end = start + taken if taken is not None else next((p for p in places[index + 1 :]), PSNS << 8)
            while stop in data and stop < end and data[stop].op not in (15, 16):
                stop += 1
            sizes = [data[p].size for p in range(start, min(end, start + 100000)) if p in data]
            size = sum(one or 0 for one in sizes) if None not in sizes else None
            inside = [p for p in places[index:] if p < end]
            came = [data[p] for p in range(start, stop + 1) if p in data]
            ack = max(came, key=lambda one: one.frame) if stop in data and data[stop].op in (15, 16) else None
            last_place, whole = end - 1, True
            retries = sum(len(sent[p]) for p in inside) - 1
            index += len(inside)
        else:
            after = index
            while (
                OPEN.get(first[places[after]].op) and after + 1 < len(places) and places[after + 1] == places[after] + 1
                and CONTINUES.get(first[places[after + 1]].op) == OPEN[first[places[after]].op]
            ):  # fmt: skip
                after += 1
            inside = places[index : after + 1]
            whole, last_place = packet.op not in CONTINUES and first[inside[-1]].op not in OPEN, inside[-1]
            if kind == "ATOMIC":
                ack = atomics.get(start)
            else:
                ack = min((one for upto, one in reached if upto >= last_place), key=lambda one: one.frame, default=None)
            sizes = [first[p].size for p in inside]
            size = 8 if kind == "ATOMIC" else sum(one or 0 for one in sizes) if None not in sizes else packet.dma
            retries = sum(len(sent[p]) - 1 for p in inside)
            index = after + 1
        begun = min((one for p in inside for one in sent[p]), key=lambda one: one.frame)
        row = Message(way, kind, begun.frame, size, retries, sum(start <= p <= last_place for p in refused))
        row.complete = whole and (way[0] == "UC" or ack is not None)
        before = [one for upto, one in unread if upto >= last_place and (ack is None or one.frame < ack.frame)]
        if ack is not None and whole and way[0] != "UC" and (not before or kind in ("READ", "ATOMIC")):
            row.ack_frame = ack.frame
            row.latency = ack.time - begun.time if ack.time >= begun.time else None
        found.append(row)
    return found
