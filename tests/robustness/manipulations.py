"""Manipulations as real captures have them: each makes one of an orderly capture, and says which frame was which."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

SECOND = 1_000_000_000
ERF, ETHERNET = 197, 1


@dataclass(frozen=True)
class Record:
    """One record of a pcap file."""

    origin: int
    """Frame number in the orderly capture; 0 for a frame that was added."""
    time_ns: int
    data: bytes
    length: int


@dataclass(frozen=True)
class Pcap:
    """A pcap file as its records."""

    link: int
    records: tuple[Record, ...]

    def with_records(self, records: Iterator[Record] | list[Record]) -> Pcap:
        return replace(self, records=tuple(records))

    def origins(self) -> list[int]:
        """By place, from 0: which frame of the orderly capture a frame is."""
        return [record.origin for record in self.records]

    def packed(self) -> bytes:
        """The file's bytes: little-endian, nanoseconds."""
        parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, self.link)]
        for record in self.records:
            seconds, rest = divmod(record.time_ns, SECOND)
            parts += [struct.pack("<IIII", seconds, rest, len(record.data), record.length), record.data]
        return b"".join(parts)


def read(path: Path) -> Pcap:
    """A classic pcap file. ValueError for anything else."""
    return read_bytes(path.read_bytes(), str(path))


def read_bytes(raw: bytes, path: str = "it") -> Pcap:
    """The same of a file in memory."""
    for order in "<>":
        magic = struct.unpack_from(order + "I", raw)[0]
        if magic in (0xA1B2C3D4, 0xA1B23C4D):
            break
    else:
        raise ValueError(f"{path} is not a pcap file")
    unit = 1000 if magic == 0xA1B2C3D4 else 1
    link = struct.unpack_from(order + "I", raw, 20)[0] & 0xFFFF
    records, at = [], 24
    while at + 16 <= len(raw):
        seconds, rest, kept, length = struct.unpack_from(order + "IIII", raw, at)
        if at + 16 + kept > len(raw):
            break
        time_ns = seconds * SECOND + rest * unit
        if link == ERF and kept >= 16:  # its own time counts
            stamp = struct.unpack_from("<Q", raw, at + 16)[0]
            time_ns = (stamp >> 32) * SECOND + ((stamp & 0xFFFFFFFF) * SECOND + (1 << 31) >> 32)
        records.append(Record(len(records) + 1, time_ns, raw[at + 16 : at + 16 + kept], length))
        at += 16 + kept
    return Pcap(link, tuple(records))


def _erf_time(time_ns: int) -> bytes:
    return struct.pack("<Q", (time_ns // SECOND << 32) | ((time_ns % SECOND << 32) // SECOND))


def at_time(record: Record, time_ns: int, link: int) -> Record:
    """The record at another time: an ERF record carries its time itself."""
    data = _erf_time(time_ns) + record.data[8:] if link == ERF and len(record.data) >= 16 else record.data
    return replace(record, time_ns=time_ns, data=data)


def starts_at(percent: int) -> Callable[[Pcap], Pcap]:
    """The capture was started in the middle of things."""
    return lambda pcap: pcap.with_records(list(pcap.records[len(pcap.records) * percent // 100 :]))


def loses(percent: float) -> Callable[[Pcap], Pcap]:
    """Single packets are missing, evenly."""

    def lose(pcap: Pcap) -> Pcap:
        rnd = random.Random(f"loss {percent}")
        return pcap.with_records([record for record in pcap.records if rnd.random() * 100 >= percent])

    return lose


def loses_bursts(pcap: Pcap) -> Pcap:
    """Now and then many packets in a row are missing: the disk was slow."""
    rnd, kept, skip = random.Random("bursts"), [], 0
    for record in pcap.records:
        if not skip and rnd.random() < 0.005:
            skip = rnd.randint(5, 60)
        if skip:
            skip -= 1
        else:
            kept.append(record)
    return pcap.with_records(kept)


def pauses(milliseconds: int) -> Callable[[Pcap], Pcap]:
    """For so long nothing was recorded, at several places with traffic: a ring buffer was full."""

    def pause(pcap: Pcap) -> Pcap:
        rnd, kept, until = random.Random("pauses"), [], 0
        starts = {rnd.randrange(len(pcap.records) or 1) for _ in range(5)}
        for i, record in enumerate(pcap.records):
            if i in starts:
                until = record.time_ns + milliseconds * 1_000_000
            if record.time_ns >= until:
                kept.append(record)
        return pcap.with_records(kept)

    return pause


def hides_an_end(place: int) -> Callable[[Pcap], Pcap]:
    """One host sends and receives over another way: none of its packets with addresses is in the capture."""

    def hide(pcap: Pcap) -> Pcap:
        ends = [_ends(record, pcap.link) for record in pcap.records]
        talkers = [one for one, _ in Counter(one for both in ends if both for one in both).most_common()]
        hidden = talkers[place] if place < len(talkers) else b""
        if not any(both and hidden not in both for both in ends):
            return pcap  # nothing would be left
        return pcap.with_records([record for record, both in zip(pcap.records, ends, strict=True) if not both or hidden not in both])

    return hide


def hides_answers(*classes: int) -> Callable[[Pcap], Pcap]:
    """The answers of some management classes are missing, as behind a capture filter."""
    answers = [(one, True) for one in classes]

    def hide(pcap: Pcap) -> Pcap:
        return pcap.with_records([record for record in pcap.records if _mad(record, pcap.link) not in answers])

    return hide


def _mad(record: Record, link: int) -> tuple[int, bool] | None:
    """Management class of a datagram, and whether it is an answer; None for other packets. Native packets, and RoCE over IPv4."""
    data, at = (record.data[16:] if link == ERF else record.data), 8
    if link == ETHERNET:
        at = 42 if data[12:14] == b"\x08\0" and data[36:38] == b"\x12\xb7" else len(data)
    elif len(data) > 1 and data[1] & 3 == 3:
        at += 40
    if len(data) < at + 24 or data[at] != 0x64 or int.from_bytes(data[at + 5 : at + 8], "big") > 1:
        return None
    return data[at + 21], data[at + 23] >= 0x80


def swaps_neighbours(pcap: Pcap) -> Pcap:
    """Neighbours within 0.5 ms change places, each keeps its slot's time: a capture from several receive queues."""
    rnd, records, i = random.Random("swap"), list(pcap.records), 0
    while i + 1 < len(records):
        one, two = records[i], records[i + 1]
        if two.time_ns - one.time_ns < 500_000 and rnd.random() < 0.1:
            records[i], records[i + 1] = at_time(two, one.time_ns, pcap.link), at_time(one, two.time_ns, pcap.link)
            i += 1
        i += 1
    return pcap.with_records(records)


def shuffles(late_us: int) -> Callable[[Pcap], Pcap]:
    """Packets come up to so much late, each in its slot's time: a capture from many receive queues that are emptied in turn."""

    def shuffle(pcap: Pcap) -> Pcap:
        rnd = random.Random("shuffle")
        order = sorted(pcap.records, key=lambda record: record.time_ns + rnd.randrange(late_us * 1000))
        return pcap.with_records([at_time(late, slot.time_ns, pcap.link) for late, slot in zip(order, pcap.records, strict=True)])

    return shuffle


def mirrors_apart(pcap: Pcap) -> Pcap:
    """Two mirrors of the same packets into one file; the clock of the second is 150 us behind, and it loses every tenth packet."""
    rnd = random.Random("mirrors")
    other = [at_time(record, record.time_ns + 150_000 + rnd.randrange(500), pcap.link) for record in pcap.records if rnd.random() > 0.1]
    return pcap.with_records(sorted([*pcap.records, *other], key=lambda record: record.time_ns))


def loses_ways(pcap: Pcap) -> Pcap:
    """A mirror that shows one direction of half of the flows: packets go one way over one switch and back over another."""

    def shown(record: Record) -> bool:
        ends = _ends(record, pcap.link)
        return ends is None or zlib.crc32(b"".join(sorted(ends))) & 1 == 0 or ends[0] < ends[1]

    return pcap.with_records([record for record in pcap.records if shown(record)])


def wraps(pcap: Pcap) -> Pcap:
    """PSNs pass their highest value, nobody saw the connections being set up, and 2 % of the packets are lost. RoCE only."""
    rnd, kept = random.Random("wrap"), []
    packets = [(record, at) for record, at in _roce(pcap) if at and rnd.random() >= 0.02]
    numbers = [int.from_bytes(record.data[at + 9 : at + 12], "big") for record, at in packets]
    middle = sorted(numbers)[len(numbers) // 2] if numbers else 0
    for (record, at), number in zip(packets, numbers, strict=True):
        psn = (number - middle & 0xFFFFFF).to_bytes(3, "big")
        kept.append(replace(record, data=record.data[: at + 9] + psn + record.data[at + 12 : -4] + bytes(4)))
    return pcap.with_records(kept)


def tags(pcap: Pcap) -> Pcap:
    """Frames carry a VLAN tag, and nobody saw the connections being set up. RoCE only."""
    tagged = [(record, record.data[:12] + b"\x81\0\x60\x64" + record.data[12:]) for record, _ in _roce(pcap)]
    return pcap.with_records([replace(record, data=data, length=record.length + 4) for record, data in tagged])


def _ends(record: Record, link: int) -> tuple[bytes, bytes] | None:
    """Sender and receiver: LIDs, or IP addresses."""
    data = record.data[16:] if link == ERF else record.data
    if link in (ERF, 247):
        return (data[6:8], data[2:4]) if len(data) >= 8 and data[6:8] != b"\xff\xff" else None
    if link == ETHERNET and data[12:14] == b"\x08\0" and len(data) >= 34:
        return data[26:30], data[30:34]
    return None


def _roce(pcap: Pcap) -> Iterator[tuple[Record, int]]:
    """The frames of a RoCE capture without connection management, and where the BTH of each starts; 0: it has none."""
    for record in pcap.records if pcap.link == ETHERNET else ():
        at = {b"\x08\0": 42, b"\x86\xdd": 62}.get(record.data[12:14], 0)
        at = at if record.data[at - 6 : at - 4] == b"\x12\xb7" and len(record.data) >= at + 20 else 0
        if not at or record.data[at + 5 : at + 8] != b"\0\0\1":
            yield record, at


def doubles(pcap: Pcap) -> Pcap:
    """Every packet was mirrored twice, microseconds apart."""
    return pcap.with_records([one for record in pcap.records for one in (record, at_time(record, record.time_ns + 2000, pcap.link))])


def doubles_some(pcap: Pcap) -> Pcap:
    """Some packets were mirrored twice."""
    rnd, records = random.Random("double"), []
    for record in pcap.records:
        records.append(record)
        if rnd.random() < 0.05:
            records.append(at_time(record, record.time_ns + 2000, pcap.link))
    return pcap.with_records(records)


def cuts_at(snap: int) -> Callable[[Pcap], Pcap]:
    """A snap length."""

    def cut(pcap: Pcap) -> Pcap:
        kept = snap + (16 if pcap.link == ERF else 0)
        return pcap.with_records([replace(record, data=record.data[:kept]) for record in pcap.records])

    return cut


def jumps(pcap: Pcap) -> Pcap:
    """The clock was set: forward by 90 s, later back by 95 s."""
    n = len(pcap.records)
    offset = [0 if i < n // 3 else 90 * SECOND if i < 2 * n // 3 else -5 * SECOND for i in range(n)]
    moved = zip(pcap.records, offset, strict=True)
    return pcap.with_records([at_time(record, record.time_ns + shift, pcap.link) for record, shift in moved])


def has_one_time(pcap: Pcap) -> Pcap:
    """The tool that wrote the capture knew no times."""
    first = pcap.records[0].time_ns if pcap.records else 0
    return pcap.with_records([at_time(record, first, pcap.link) for record in pcap.records])


def samples(rate: int) -> Callable[[Pcap], Pcap]:
    """A switch that mirrors one packet of so many."""
    return lambda pcap: pcap.with_records(list(pcap.records[::rate]))


def overlaps(pcap: Pcap) -> Pcap:
    """Two files that overlap were written one behind the other: a fifth of the packets is there twice, with its own times."""
    n = len(pcap.records)
    return pcap.with_records([*pcap.records[: n * 3 // 5], *pcap.records[n * 2 // 5 :]])


def loses_large(size: int) -> Callable[[Pcap], Pcap]:
    """Frames above the size that the capturing card takes are missing."""
    return lambda pcap: pcap.with_records([record for record in pcap.records if record.length <= size])


def idles(pcap: Pcap) -> Pcap:
    """An hour without a packet in the middle."""
    half = len(pcap.records) // 2
    late = [at_time(record, record.time_ns + 3600 * SECOND, pcap.link) for record in pcap.records[half:]]
    return pcap.with_records([*pcap.records[:half], *late])


def plays_again(pause: int) -> Callable[[Pcap], Pcap]:
    """The hosts rebooted in the middle, and so many seconds later everything began anew, with the same numbers."""

    def play(pcap: Pcap) -> Pcap:
        head = pcap.records[: max(1, len(pcap.records) * 3 // 5)]
        later = head[-1].time_ns - pcap.records[0].time_ns + pause * SECOND
        return pcap.with_records([*head, *[at_time(record, record.time_ns + later, pcap.link) for record in pcap.records]])

    return play


def loses_half(which: bool) -> Callable[[Pcap], Pcap]:
    """Every second management answer, or request, is missing."""

    def lose(pcap: Pcap) -> Pcap:
        mads = [_mad(record, pcap.link) for record in pcap.records]
        mine = [i for i, mad in enumerate(mads) if mad is not None and mad[1] is which]
        lost = set(mine[::2])
        return pcap.with_records([record for i, record in enumerate(pcap.records) if i not in lost])

    return lose


def _sender(record: Record, link: int) -> bytes | None:
    """Something that tells the two directions apart: source LID, or source IP or MAC address."""
    data = record.data[16:] if link == ERF else record.data
    if link in (ERF, 247):
        return data[6:8] if len(data) >= 8 else None
    return data[6:12] if link == 1 and len(data) >= 14 else None


def one_direction(which: int) -> Callable[[Pcap], Pcap]:
    """A tap on one fibre: only what the ports of one side send. Directed-route packets (no LIDs) are split by their D bit."""

    def halve(pcap: Pcap) -> Pcap:
        def side(record: Record) -> int:
            data = record.data[16:] if pcap.link == ERF else record.data
            sender = _sender(record, pcap.link)
            if pcap.link in (ERF, 247) and sender == b"\xff\xff" and len(data) > 8 + 12 + 8 + 3:
                return data[8 + 12 + 8 + 3] >> 7  # method: answers have the high bit
            return sum(sender) & 1 if sender else 0

        return pcap.with_records([record for record in pcap.records if side(record) == which])

    return halve


OUIS = [bytes.fromhex(oui) for oui in ("0002c9", "248a07", "506b4b", "98039b", "e41d2d", "b8599f")]
"""Makers of adapters and switches, as GUIDs in the captures begin."""
"""Maker's id in the GUIDs of simulated subnets, and another maker's."""


def of_another_subnet(pcap: Pcap) -> Pcap:
    """The same traffic between other devices: their GUIDs differ, and the checksums (ICRC and VCRC), which would be wrong, are missing."""
    if pcap.link != ERF:
        return pcap
    makers = re.compile(b"|".join(map(re.escape, OUIS)))
    other = [(record, makers.sub(lambda found: found[0][:2] + b"\x55", record.data)) for record in pcap.records]
    return pcap.with_records([replace(one, data=data[:-6] + bytes(6)) if data != one.data else one for one, data in other])


def interleaved_with(other: Pcap) -> Callable[[Pcap], Pcap]:
    """Another subnet's capture in the same file."""

    def interleave(pcap: Pcap) -> Pcap:
        if not pcap.records or not other.records or other.link != pcap.link:
            return pcap
        shift = pcap.records[0].time_ns - other.records[0].time_ns
        guests = [replace(at_time(record, record.time_ns + shift, pcap.link), origin=0) for record in other.records]
        return pcap.with_records(sorted([*pcap.records, *guests], key=lambda record: record.time_ns))

    return interleave


MANIPULATIONS: dict[str, Callable[[Pcap], Pcap]] = {
    "starts at 25 %": starts_at(25), "starts at 50 %": starts_at(50), "starts at 75 %": starts_at(75),
    "1 % lost": loses(1), "5 % lost": loses(5), "20 % lost": loses(20), "bursts lost": loses_bursts,
    "neighbours swapped": swaps_neighbours, "doubled": doubles, "some doubled": doubles_some,
    "shuffled": shuffles(100), "shuffled far": shuffles(2000),
    "mirrors apart": mirrors_apart, "ways lost": loses_ways, "PSNs wrap": wraps, "tagged": tags,
    "one direction": one_direction(0), "other direction": one_direction(1),
    "snap 54": cuts_at(54), "snap 68": cuts_at(68), "snap 96": cuts_at(96), "snap 128": cuts_at(128),
    "pauses of 5 ms": pauses(5), "pauses of 50 ms": pauses(50), "pauses of 500 ms": pauses(500),
    "first end hidden": hides_an_end(0), "second end hidden": hides_an_end(1), "third end hidden": hides_an_end(2),
    "SMPs unanswered": hides_answers(1, 0x81), "SA unanswered": hides_answers(3), "PM unanswered": hides_answers(4),
    "CM unanswered": hides_answers(7),
    "rebooted": plays_again(1), "rebooted after a while": plays_again(30),
    "half of the answers": loses_half(True), "half of the requests": loses_half(False),
    "overlapping": overlaps, "one of ten": samples(10), "large lost": loses_large(1518),
    "clock set": jumps, "one time": has_one_time, "an hour idle": idles,
}  # fmt: skip
