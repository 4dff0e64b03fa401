"""The messages of a RoCE v2 capture, found packet by packet from the bytes, without any code of the package but the reader."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

HALF, WHOLE = 1 << 23, 1 << 24
REQUESTS = {*range(0x0D), 0x13, 0x14, 0x16, 0x17, 0x1C, 0x1D}
FIRSTS, MIDDLES = {0x00, 0x06}, {0x01, 0x07}
LASTS = {0x02, 0x03, 0x08, 0x09, 0x16}
SENDS = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x16, 0x17}
WRITES = {*range(0x06, 0x0C)}
HEADERS = {0x03: 4, 0x05: 4, 0x06: 16, 0x09: 4, 0x0A: 16, 0x0B: 20, 0x0C: 16, 0x0D: 4, 0x0F: 4, 0x10: 4, 0x11: 4, 0x12: 12, 0x13: 28,
           0x14: 28, 0x16: 4, 0x17: 4, 0x1C: 20, 0x1D: 16}  # fmt: skip


class Packet(NamedTuple):
    frame: int
    source: bytes
    destination: bytes
    qp: int
    service: int
    operation: int
    psn: int
    payload: int
    syndrome: int
    va: int
    dma: int


class Message(NamedTuple):
    kind: str
    first: int
    ack: int
    size: int
    packets: int
    retries: int
    naks: int
    complete: bool


def parse(number: int, data: bytes) -> Packet | None:
    """A RoCE v2 packet over Ethernet; None for anything else, UD among it."""
    at = 14
    kind = data[12:14]
    if kind == b"\x81\x00":
        kind, at = data[16:18], 18
    if kind == b"\x08\x00":
        head, addresses = (data[at] & 15) * 4, (data[at + 12 : at + 16], data[at + 16 : at + 20])
        if data[at + 9] != 17:
            return None
    elif kind == b"\x86\xdd":
        head, addresses = 40, (data[at + 8 : at + 24], data[at + 24 : at + 40])
        if data[at + 6] != 17:
            return None
    else:
        return None
    udp = at + head
    if data[udp + 2 : udp + 4] != b"\x12\xb7":
        return None
    bth = udp + 8
    end = udp + int.from_bytes(data[udp + 4 : udp + 6], "big") - 4
    service, operation = data[bth] & 0xE0, data[bth] & 0x1F
    if service not in (0x00, 0x20):
        return None
    headers = HEADERS.get(operation, 0)
    syndrome = data[bth + 12] if operation in (0x0D, 0x0F, 0x10, 0x11, 0x12) else 0
    payload = end - (data[bth + 1] >> 4 & 3) - (bth + 12 + headers)
    qp, psn = int.from_bytes(data[bth + 5 : bth + 8], "big"), int.from_bytes(data[bth + 9 : bth + 12], "big")
    va, dma = (int.from_bytes(data[bth + a : bth + b], "big") if operation == 0x0C else 0 for a, b in ((12, 20), (24, 28)))
    return Packet(number, *addresses, qp, service, operation, psn, payload, syndrome, va, dma)


@dataclass
class Stream:
    service: int
    packets: dict[int, list[Packet]] = field(default_factory=lambda: defaultdict(list))
    """By unwrapped PSN."""
    last: int | None = None

    def add(self, packet: Packet) -> None:
        if self.last is None:
            self.last = packet.psn + WHOLE
        else:
            self.last += (packet.psn - self.last + HALF) % WHOLE - HALF
        self.packets[self.last].append(packet)


def messages(frames: list[tuple[int, bytes]], damaged: set[int]) -> list[Message]:
    """All messages of RC and UC whose PSNs stay in one range, in order of their first frame. Damaged packets with odd PSNs do not count."""
    latest: dict[tuple[bytes, bytes, int, bool], int] = {}
    requests: dict[tuple[bytes, bytes, int, int], Stream] = {}
    responses: dict[tuple[bytes, bytes, int], Stream] = {}
    for number, data in frames:
        packet = parse(number, data)
        if packet is None:
            continue
        way = packet.source, packet.destination, packet.qp, packet.operation in REQUESTS
        before, latest[way] = latest.get(way, packet.psn), packet.psn
        if number in damaged and packet.psn - before not in (0, 1):
            continue
        if packet.operation in REQUESTS:
            requests.setdefault((packet.source, packet.destination, packet.qp, packet.service), Stream(packet.service)).add(packet)
        else:
            responses.setdefault((packet.source, packet.destination, packet.qp), Stream(packet.service)).add(packet)
    found = []
    for (source, destination, _, service), stream in requests.items():
        back: dict[int, list[Packet]] = {}
        for (there, here, _), other in responses.items():
            if (there, here) != (destination, source) or service:
                continue
            sent = {place % WHOLE for place in stream.packets}
            shift = min(stream.packets) - min(other.packets)
            shift = round(shift / WHOLE) * WHOLE
            if any(place % WHOLE in sent for place in other.packets):
                assert not back, "two streams of responses fit"
                back = {place + shift: packets for place, packets in other.packets.items()}
        found += _of_stream(stream, back)
    return sorted(found, key=lambda one: one.first)


def _of_stream(stream: Stream, back: dict[int, list[Packet]]) -> list[Message]:
    found: list[Message] = []
    places = sorted(stream.packets)
    while places:
        start = places[0]
        head = stream.packets[start][0]
        end = start
        if head.operation in FIRSTS | MIDDLES:
            while end + 1 in stream.packets and stream.packets[end + 1][0].operation in MIDDLES | LASTS:
                end += 1
                if stream.packets[end][0].operation in LASTS:
                    break
        again = {place for place in places if _asks_for_rest(stream.packets[place][0], head, place - start)}
        limit = next((place for place in places if place > end and place not in again), 1 << 60)
        if head.operation == 0x0C:
            tails = [place for place, some in back.items() if start <= place < limit and any(p.operation in (0x0F, 0x10) for p in some)]
            end = min(tails, default=limit - 1)
        mine = [packet for place in places if start <= place <= end for packet in stream.packets[place]]
        answers = [packet for place, packets in back.items() if start <= place <= end for packet in packets]
        found.append(_message(stream, back, start, end, mine, answers))
        places = [place for place in places if place > end]
    return found


def _asks_for_rest(packet: Packet, head: Packet, packets: int) -> bool:
    """Whether a READ asks again for the last part of what `head` asked for."""
    reads = packet.operation == head.operation == 0x0C and packets > 0
    return reads and 0 < packet.va - head.va == head.dma - packet.dma and packet.dma > 0 and (packet.va - head.va) % packets == 0


def _message(stream: Stream, back: dict[int, list[Packet]], start: int, end: int, mine: list[Packet], answers: list[Packet]) -> Message:
    operation = mine[0].operation
    firsts = [some[0] for place, some in sorted(stream.packets.items()) if start <= place <= end] if operation != 0x0C else mine[:1]
    others = {0x0C: "READ", 0x13: "ATOMIC", 0x14: "ATOMIC", 0x1C: "FLUSH", 0x1D: "ATOMIC WRITE"}
    kind = "SEND" if operation in SENDS else "WRITE" if operation in WRITES else others[operation]
    size, ack, whole = sum(packet.payload for packet in firsts), 0, True
    if operation == 0x0C:
        data = {place: [p for p in packets if p.operation in range(0x0D, 0x11)] for place, packets in back.items() if start <= place <= end}
        arrived = {place: packets[0] for place, packets in data.items() if packets}
        size = sum(packet.payload for packet in arrived.values())
        whole = len(arrived) == end - start + 1 and arrived[end].operation in (0x0F, 0x10)
        ack = max((packet.frame for packet in arrived.values()), default=0)
    elif kind == "ATOMIC":
        size, ack = 8, min((p.frame for p in back.get(start, ()) if p.operation == 0x12), default=0)
    else:
        multi = operation in FIRSTS | MIDDLES | LASTS
        whole = not multi or (operation in FIRSTS and firsts[-1].operation in LASTS)
        ack = min((p.frame for place, packets in back.items() for p in packets if place - (p.syndrome >> 5 in (1, 3)) >= end), default=0)
    complete = whole and (ack > 0 or stream.service == 0x20)
    return Message(
        kind, min(packet.frame for packet in mine), ack if complete else 0, size, len(mine) + len(answers),
        len(mine) - (1 if kind == "READ" else len(firsts)), sum(p.syndrome >> 5 in (1, 3) for p in answers), complete,
    )  # fmt: skip


def counts(found: list[Message]) -> Counter[str]:
    return Counter(one.kind for one in found)
