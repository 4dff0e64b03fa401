"""The contents of a capture, counted from its bytes: a second opinion about the numbers that `ibdissect` prints, without its code.

`python -m tests.independent_counter CAPTURE...` prints what it counts as JSON. Definitions: docs/numbers.md.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.independent_copies import copies
from tests.independent_management import agreed, records_of, requests_of, set_ups_of
from tests.independent_messages import OPEN, PSNS, Message, ahead, messages_of, sums_of, uses
from tests.independent_packets import ANSWERS, EXTENDED, FULL, Frame, Packet, frames

FAR = 1 << 16


@dataclass
class Stream:
    packets: int = 0
    payload_bytes: int = 0
    unknown_sizes: int = 0
    naks: int = 0
    nak_codes: Counter[int] = field(default_factory=Counter)
    rnr_naks: int = 0
    repeated: int = 0
    missing: int = 0
    late: int = 0
    repeated_responses: int = 0
    missing_responses: int = 0
    unread_answers: int = 0


def count(path: str) -> dict[str, Any]:
    every = list(frames(path))
    left_out = copies(every)
    found: dict[str, Any] = {
        "frames": len(every), "bytes": sum(one.length for one in every), "copies": len(left_out),
        "first_ns": min((one.time for one in every), default=0), "last_ns": max((one.time for one in every), default=0),
        "set_back": sum(b.time < a.time for a, b in pairwise(every)),
    }  # fmt: skip
    for name in ("opcodes", "p_keys", "queue_pairs", "conversations", "mads", "source_lids", "destination_lids"):
        found[name] = defaultdict(lambda: [0, 0])

    def add(name: str, key: Any, one: Frame) -> None:
        found[name][key][0] += 1
        found[name][key][1] += one.length

    marks: dict[tuple[tuple[str, str] | None, str], int] = Counter()
    for one in every:
        packet = one.packet
        if one.lids is not None:
            add("source_lids", one.lids[0], one)
            add("destination_lids", one.lids[1], one)
        if one.ends is not None:
            add("conversations", one.ends, one)
        if packet is not None:
            add("opcodes", packet.opcode, one)
            add("p_keys", packet.p_key, one)
            add("queue_pairs", packet.qp, one)
            if packet.mad is not None:
                add("mads", packet.mad, one)
    packets = [one.packet for one in every if one.packet is not None and one.number not in left_out]
    sighted: dict[int, set[str]] = {}
    for one in every:  # each packet once, whichever of its copies shows the mark
        before = sighted[one.number] = sighted[left_out[one.number]] if one.number in left_out else set()
        for mark in one.marks:
            marks[one.ends, mark] += mark not in before
        before.update(one.marks)
    found["marks"] = dict(marks)
    found["records"] = records_of(packets)
    streams: dict[tuple[Any, ...], list[Packet]] = defaultdict(list)
    for packet in packets:
        if packet.service in ("RC", "UC", "XRC") and packet.op in EXTENDED:
            streams[packet.service, *packet.ends, packet.qp, packet.op in ANSWERS].append(packet)
    mtus = _mtus(streams)
    partners = _partners(streams, agreed(packets))
    found["streams"] = {
        key: _named(_stream(key, some, mtus.get(key) or mtus.get(partners.get(key, ()), 0))) for key, some in streams.items()
    }  # fmt: skip
    found["rows"] = _messages(streams, partners, mtus) + _datagrams(packets)
    found["messages"] = sums_of(found["rows"])
    found["connections"] = _each_once(streams, partners, mtus)
    found["answered"], found["set_ups"] = requests_of(packets), set_ups_of(packets)
    return found


def _mtus(streams: dict[tuple[Any, ...], list[Packet]]) -> dict[tuple[Any, ...], int]:
    """The size of packets that are not the last of their message."""
    found = {}
    for key, some in streams.items():
        sizes = Counter(packet.size for packet in some if packet.op in FULL and packet.size in (256, 512, 1024, 2048, 4096))
        if sizes:
            found[key] = sizes.most_common(1)[0][0]
    return found


def _host(end: str) -> str:
    """An address; of IPv4 it is the same with RoCE v1, where it is written as IPv6."""
    return end.removeprefix("::ffff:")


def _partners(
    streams: dict[tuple[Any, ...], list[Packet]], agreed: set[frozenset[tuple[str, int]]]
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The stream of answers of each stream of requests and the reverse: as the set-up says, or with most PSNs in common."""
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    pairs = []
    for key, some in streams.items():
        if key[4]:
            continue
        mine = {packet.psn for packet in some}
        reads = [(packet.psn, packet.psn + max(1, -(-(packet.dma or 0) // 256))) for packet in some if packet.op == 12]
        for other, answers in streams.items():
            if other[4] and [*map(_host, other[:3])] == [*map(_host, (key[0], key[2], key[1]))]:
                common = sum(packet.psn in mine or any(a <= packet.psn < b for a, b in reads) for packet in answers)
                known = frozenset(((key[2], key[3]), (key[1], other[3]))) in agreed
                if common or known:
                    pairs.append((known, common / len(answers), common, key, other))
    for *_, key, other in sorted(pairs, key=lambda pair: pair[:3], reverse=True):
        if key not in found and other not in found:
            found[key], found[other] = other, key
    return found


def _in_sequence(some: list[Packet]) -> Iterator[Packet]:
    """Without damaged packets that are out of step; if the first one's ICRC is wrong, too, ICRCs say nothing."""
    sealed, last = some[0].sound, some[0].psn
    for i, packet in enumerate(some):
        if i and sealed and not packet.sound and ahead(packet.psn, last) not in (0, 1):
            continue
        last = packet.psn
        yield packet


def _stream(key: tuple[Any, ...], some: list[Packet], mtu: int) -> Stream:
    found = Stream(len(some), sum(packet.size or 0 for packet in some), sum(packet.size is None for packet in some))
    for packet in some:
        if packet.op == 17 and packet.syndrome is not None:
            found.naks += packet.syndrome >> 5 == 3
            found.nak_codes[packet.syndrome & 31] += packet.syndrome >> 5 == 3
            found.rnr_naks += packet.syndrome >> 5 == 1
        found.unread_answers += packet.op == 17 and packet.syndrome is None
    if key[4]:
        _responses(found, some)
        return found
    following, gaps, vague = None, set[int](), False
    sealed, cursor = some[0].sound, -1
    for packet in some:
        step = ahead(packet.psn, following) if following is not None else 0
        if cursor >= 0 and sealed and not packet.sound and packet.psn != cursor:
            continue  # damaged, and out of step
        cursor = (packet.psn + (uses(packet, mtu) or 1)) % PSNS
        if following is None or abs(step) > FAR:
            following, gaps, vague, step = packet.psn, set(), False, 0
        if step > 0 and not vague:
            found.missing += step
            gaps |= {(following + i) % PSNS for i in range(step)}
        elif step < 0:
            if packet.psn in gaps:
                gaps.discard(packet.psn)
                found.late += 1
            else:
                found.repeated += 1
        taken = uses(packet, mtu)
        if step >= 0:
            following, vague = (packet.psn + (taken or 1)) % PSNS, taken is None
        elif taken is not None and ahead((packet.psn + taken) % PSNS, following) > 0:
            following = (packet.psn + taken) % PSNS
    return found


def _named(one: Stream) -> dict[str, Any]:
    """Its numbers by name, NAKs by code, too."""
    return {**vars(one), **{str(code): number for code, number in one.nak_codes.items()}}


def _responses(found: Stream, some: list[Packet]) -> None:
    """Responses that were sent again, and those of READs that were skipped; NAKs are no step."""
    high: int | None = None
    following: int | None = None
    sealed, gaps = some[0].sound, set[int]()
    for packet in some:
        if packet.op == 17 and (packet.syndrome is None or packet.syndrome >> 5 in (1, 3)):
            continue
        if following is not None and sealed and not packet.sound and packet.psn != following:
            continue
        step = ahead(packet.psn, following) if following is not None else 0
        if packet.op in (14, 15) and 0 < step <= FAR:
            found.missing_responses += step
            if high is not None and following == (high + 1) % PSNS:
                gaps |= {(following + i) % PSNS for i in range(step)}
        if high is not None and ahead(packet.psn, high) <= 0:
            if packet.psn in gaps:
                gaps.discard(packet.psn)
                if following == (high + 1) % PSNS:
                    continue
            else:
                found.repeated_responses += 1
        if high is None or ahead(packet.psn, high) > 0:
            high = packet.psn
        following = (packet.psn + 1) % PSNS


def _each_once(
    streams: dict[tuple[Any, ...], list[Packet]], partners: dict[tuple[Any, ...], tuple[Any, ...]], mtus: dict[tuple[Any, ...], int]
) -> dict[str, int]:
    """Of all connections: messages whose last packet was captured, and the payload of requests and responses, each packet once. Where
    lengths of READs are cut off, nobody knows which of them is a part of one before."""
    found = {"messages": 0, "payload_bytes": 0}
    if any(packet.op == 12 and packet.dma is None for some in streams.values() for packet in some):
        return {}
    for key, some in streams.items():
        mtu = mtus.get(partners.get(key, ())) or mtus.get(key, 0)
        position, last, seen = PSNS, some[0].psn, set[int]()
        for packet in _in_sequence(some):
            position, last = position + ahead(packet.psn, last), packet.psn
            if position not in seen and packet.op != 17:
                seen.update(range(position, position + (uses(packet, mtu) or 1)))
                found["payload_bytes"] += packet.size or 0 if packet.op != 18 else 0
                found["messages"] += not key[4] and packet.op not in OPEN
    return found


def _datagrams(packets: list[Packet]) -> list[Message]:
    return [
        Message(("UD", *packet.ends, packet.qp), "SEND", packet.frame, packet.size, complete=True)
        for packet in packets if packet.opcode in (0x64, 0x65) and packet.qp > 1
    ]  # fmt: skip


def _messages(
    streams: dict[tuple[Any, ...], list[Packet]], partners: dict[tuple[Any, ...], tuple[Any, ...]], mtus: dict[tuple[Any, ...], int]
) -> list[Message]:
    found: list[Message] = []
    for key, some in streams.items():
        if not key[4]:
            other = partners.get(key, ())
            answers = list(_answers(streams.get(other, [])))
            found += messages_of(key[:4], list(_in_sequence(some)), answers, mtus.get(other) or mtus.get(key, 0))
    return found


def _answers(some: list[Packet]) -> Iterator[Packet]:
    yield from _in_sequence(some) if some else ()


def main(paths: list[str]) -> None:
    for path in paths:
        found = count(path)
        shown: dict[str, Any] = {}
        for name, of in found.items():
            shown[name] = {str(key): value for key, value in of.items()} if isinstance(of, dict) else of
        print(json.dumps({"capture": path, **shown}))


if __name__ == "__main__":
    main(sys.argv[1:])
