"""Frames that show a packet again. For `tests/independent_counter.py`; it imports nothing of ibdissect."""

from __future__ import annotations

from typing import Any

from tests.independent_packets import ANSWERS, Frame


def copies(every: list[Frame]) -> dict[int, int]:
    """Frames, and of which one before each is a copy. They hold the bytes of one of the eight before, from the IP header on: within 1 us
    (but for ACKs), requests within 3 us, others, too, where so far one of 32 was repeated so; within 5 ms if its sender numbers packets
    and nobody asked for it; management datagrams with the bytes of one that was sent less than half a millisecond before, but for what hops
    of a directed route change; packets that a router forwarded within a millisecond: with the same ICRC, and fewer hops left; and what a
    mirror of a switch showed (`passing`)."""
    found, repeated = dict[int, int](), 0
    sealed: dict[Any, tuple[int, int, int]] = {}
    datagrams: dict[Any, tuple[int, int]] = {}
    for index, one in enumerate(every):
        for other in every[max(0, index - 8) : index][::-1]:
            apart = abs(one.time - other.time)
            mine, theirs = one.packet, other.packet
            number = mine.number if mine is not None else None
            if apart > 3000 and number is not None and theirs is not None:
                if number == theirs.number:
                    if apart <= 5_000_000 and _same(one, other):
                        repeated += 1
                        found[one.number] = other.number
                    break
                if theirs.op == 17 and theirs.syndrome is not None and theirs.syndrome & 0x20:
                    break
            if apart <= 3000 and len(one.core) >= 16 and (one.data == other.data or _same(one, other)):
                if one.packet is None and len(one.data) < one.length:
                    break  # cut off before its PSN
                repeated += 1
                answer = one.packet is not None and one.packet.op == 17
                asks = one.packet is not None and one.packet.op not in ANSWERS
                if (apart <= 1000 and not answer) or asks or number is not None or repeated * 32 >= one.number:
                    found[one.number] = other.number
                break
        packet = one.packet
        if packet is not None and packet.seal is not None and one.number not in found:
            before = sealed.get(packet.seal)
            if before is not None and packet.hops < before[0] and abs(one.time - before[1]) <= 1_000_000:
                found[one.number] = before[2]
            sealed[packet.seal] = packet.hops, one.time, one.number
        if packet is not None and packet.mad is not None and len(packet.body) >= 36:
            body = packet.body[:256]
            if packet.mad[0] == 0x81:  # hop pointer and return path change at each hop
                body = body[:6] + body[7:192] + body[256:]
            content = packet.ends, packet.opcode, packet.p_key, packet.qp, packet.psn, len(packet.body), body
            before_ns, original = datagrams.get(content, (-(10**18), 0))
            if abs(one.time - before_ns) <= 500_000:
                found.setdefault(one.number, original)
            else:
                datagrams[content] = one.time, one.number
    return passing(every) | found


def _same(one: Frame, other: Frame) -> bool:
    """Whether two frames have the same bytes, as far as both were captured."""
    size = min(len(one.core), len(other.core))
    cut = len(one.core) != len(other.core)
    return size >= 16 and one.core[:size] == other.core[:size] and (not cut or one.core_length == other.core_length)


def passing(every: list[Frame]) -> dict[int, int]:
    """Packets that a mirror of a switch showed on their way in, and shows on their way out within 0.2 ms: those of a queue pair in order,
    once two of three packets came twice so. What a NAK asked for before that is known, and CNPs, prove nothing."""
    found = dict[int, int]()
    last: dict[Any, tuple[int, int, int, int]] = {}
    out: dict[Any, int] = {}
    asked: dict[Any, int] = {}
    seen = [0] * 4
    for one in every:
        packet = one.packet
        if packet is None or packet.mad is not None or (packet.opcode in (0x64, 0x65) and packet.qp <= 1):
            continue
        key, lane = (packet.ends, packet.flow), (packet.ends, packet.qp)
        number, time, origin, rank = last.get(key, (0, -(10**18), 0, -1))
        rank += 1
        if rank:
            usual = seen[rank % 4] >= 8 and seen[rank % 4] * 3 >= seen[0] * 2
            if abs(one.time - time) > 200_000 or rank > 3 or out.get((lane, rank), 0) >= origin:
                rank = 0
            elif usual:
                found[one.number] = number
            elif packet.opcode == 0x81 or asked.get(packet.ends, 0) > origin:
                rank = 0
            elif rank > 1 and seen[rank - 1] >= 8 and seen[rank - 1] * 3 >= seen[0] * 2:
                seen[rank] += 1
                seen[0] -= 1
                rank = 0
        if rank:
            out[lane, rank] = origin
        else:
            origin = one.number
        seen[rank] += 1
        if packet.op == 17 and packet.syndrome is not None and packet.syndrome & 0x20:
            asked[packet.ends[::-1]] = one.number
        last[key] = one.number, one.time, origin, rank
        if seen[0] >= 4096 and seen[1] * 3 < seen[0] * 2:
            break
    return found
