"""Steps of a ladder (flow graph) in order: who sent what to whom, with repetitions, refusals and losses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ibdissect.capture.gather import u24
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.locate import GOES_ON, IN_STREAM, IS_RESPONSE, LEAVES_OPEN
from ibdissect.decode.sa_tables import RMPP_END
from ibdissect.dissect.info_line import summaries
from ibdissect.dissect.shown_value import Presenter
from ibdissect.engine.psn_gaps import FAR, distance
from ibdissect.wire.headers import BTH, PSNS, RETH
from ibdissect.wire.mad import MAD, RMPP, RMPP_CLASSES
from ibdissect.wire.numbers import DATA
from ibdissect.wire.opcodes import OPERATION, READ_FIRST, READ_LAST, READ_MIDDLE, READ_ONLY, READ_REQUEST
from ibdissect.wire.text import printable

MAX_STEPS = 10_000
"""Steps kept."""
MAX_ENDS = 6
"""Ends that get a line of their own."""
READS = (READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY)
AGAIN, REFUSED, LOST, MALFORMED, OTHER = "again", "refused", "lost", "malformed", "other"
"""Marks of steps: sent before; a NAK, RNR NAK or rejection; PSNs or segments before it are missing; the packet is malformed; it has the PSN
of an earlier packet, but not its data: one of both is damaged, or the PSN was used for two messages.
"""

SHORT = (("RDMA ", ""), (" with Immediate", " imm"), ("Response", "resp."), ("Acknowledge", "ack."), ("Request", "req."))
"""Parts of names of operations, and what stands for them where there is little room."""


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One packet; texts are harmless."""

    frame: int
    time_ns: int
    source: str
    destination: str
    label: str
    mark: str = ""
    """One of the marks above, or empty."""
    note: str = ""
    """The mark in words: `3 packets before it are missing`."""


class Ladder:
    """The steps of the packets it is fed with, in order of the capture."""

    def __init__(self, presenter: Presenter, repeated: Container[int] = ()) -> None:
        """`repeated`: frames known to repeat requests, such as a READ of the rest; other repetitions are found here."""
        self.presenter, self.repeated = presenter, repeated
        self.steps: list[LadderStep] = []
        self.left_out = 0
        """Packets beyond MAX_STEPS."""
        self._next: dict[tuple[str, str, int], tuple[int, int]] = {}
        """The PSN after the highest one of each stream of requests, and how many bytes were read there: 0 if it was no READ."""
        self._answers: dict[tuple[str, str, int], tuple[int, bool]] = {}
        """The PSN after the last response of each stream, and whether more responses of the same READ must follow it."""
        self._mtu: dict[frozenset[str], int] = {}
        """Bytes in a packet with others behind it, by ends."""
        self._segments: dict[tuple[str, str, int, int], int] = {}
        """The next segment of each RMPP transfer."""
        self._seen: set[tuple[object, ...]] = set()
        self._sent: dict[tuple[str, str, int, int], tuple[int, bytes]] = {}
        """Opcode and data of requests, by their way and PSN."""

    @property
    def ends(self) -> list[str]:
        """Sources and destinations in order of their first packet; at most MAX_ENDS."""
        return list(dict.fromkeys(end for step in self.steps for end in (step.source, step.destination) if end))[:MAX_ENDS]

    def feed(self, table: ChunkTable, rows: Int, frames: Sequence[int] = ()) -> None:
        """Add some packets of a chunk; `frames`: their numbers, where the rows of the table do not follow each other."""
        room = MAX_STEPS - len(self.steps)
        self.left_out += max(len(rows) - room, 0)
        rows = np.asarray(rows[: max(room, 0)])
        if not len(rows):
            return
        located, chunk = table.located, table.chunk
        lines, mads = summaries(table, rows, self.presenter), located.at("mad")
        bth = np.maximum(located.at("bth")[rows], 0)
        in_stream = (bth > 0) & IN_STREAM[located.opcode[rows]] & (bth + BTH.size <= located.limit[rows])
        qps, psns = (u24(chunk.data, np.where(in_stream, bth, 0) + at) for at in (5, 9))
        read, _ = table.of_rows(RETH.dmalen)
        for i, row in enumerate(rows.tolist()):
            label, way = printable(lines.info[i]), (printable(lines.source[i]), printable(lines.destination[i]))
            if located.malformed[row]:
                mark, note = MALFORMED, "malformed"
            elif in_stream[i]:
                opcode = int(located.opcode[row])
                if LEAVES_OPEN[opcode]:
                    self._mtu[frozenset(way)] = int(located.payload_end[row] - located.at("payload")[row])
                stream, psn = (*way, int(qps[i])), int(psns[i])
                if IS_RESPONSE[opcode]:
                    mark, note = self._of_response(stream, psn, opcode, label)
                else:
                    data = chunk.data[located.at("payload")[row] : located.payload_end[row]].tobytes()
                    mark, note = self._of_request(stream, psn, opcode, data, int(read[row]))
            elif mads[row] >= 0:
                mark, note = self._of_mad(way, chunk.data[mads[row] : located.payload_end[row]].tobytes(), label)
            else:
                mark, note = "", ""
            number = frames[i] if frames else chunk.first + row
            if not mark and number in self.repeated:
                mark, note = AGAIN, "sent again"
            self.steps.append(LadderStep(number, int(chunk.time_ns[row]), *way, label, mark, note))

    def _of_response(self, way: tuple[str, str, int], psn: int, opcode: int, label: str) -> tuple[str, str]:
        """Mark of a response: a NAK, or one of a READ before which others are missing, or that came before."""
        if "NAK" in label.split(" QP ")[0]:
            return REFUSED, "refused"
        goes_on, operation = bool(GOES_ON[opcode]), opcode & OPERATION
        expected, is_open = self._answers.get(way, (psn, goes_on))
        ahead = distance(psn, expected)
        again = -FAR < ahead < 0 and (way, psn, operation) in self._seen
        if operation in READS:
            self._seen.add((way, psn, operation))
        if ahead >= 0 or ahead <= -FAR or not again:
            self._answers[way] = (psn + 1) % PSNS, bool(LEAVES_OPEN[opcode])
        if again:
            return AGAIN, "sent again"
        if (goes_on or is_open) and 0 < ahead < FAR:
            return LOST, _missing(ahead, "response")
        return "", ""

    def _of_request(self, way: tuple[str, str, int], psn: int, opcode: int, data: bytes, read: int) -> tuple[str, str]:
        """Mark of a request of RC, UC or XRC."""
        expected, before = self._next.get(way, (psn, 0))
        mtu = self._mtu.get(frozenset(way[:2]), 0)
        if before and mtu:  # a READ uses a number for each of its responses
            expected, before = (expected - 1 + -(-before // mtu)) % PSNS, 0
        ahead = distance(psn, expected)
        sent, earlier = (opcode, data), self._sent.get((*way, psn)) if -FAR < ahead < 0 else None
        if earlier is not None:
            is_read = (opcode & OPERATION) == READ_REQUEST  # which may ask for the rest
            return (AGAIN, "sent again") if is_read or earlier == sent else (OTHER, "PSN as before, other data")
        self._sent[(*way, psn)] = sent
        if ahead >= 0 or ahead <= -FAR:
            self._next[way] = (psn + 1) % PSNS, read if (opcode & OPERATION) == READ_REQUEST else 0
        return (LOST, _missing(ahead, "packet")) if 0 < ahead < FAR and not before else ("", "")

    def _of_mad(self, way: tuple[str, str], mad: bytes, label: str) -> tuple[str, str]:
        """Mark of a management datagram: one that came before, bit for bit, or a segment of RMPP after a gap."""
        if (way, mad) in self._seen:
            return AGAIN, "sent again"
        self._seen.add((way, mad))
        if label.startswith(("ConnectReject", "REJ")):
            return REFUSED, "rejected"
        head, rmpp = (MAD(mad), RMPP(mad, MAD.size)) if len(mad) >= RMPP_END else (None, None)
        if head is not None and rmpp is not None and head.mgmt_class in RMPP_CLASSES and rmpp.rmpp_version and rmpp.rmpp_type == DATA:
            key, segment = (*way, head.mgmt_class, head.transaction_id), int(rmpp.data1)
            expected = self._segments.get(key, 1)
            self._segments[key] = max(expected, segment + 1)
            if segment > expected:
                return LOST, _missing(segment - expected, "segment")
        return "", ""


def shorter(label: str, room: int) -> str:
    """A label in at most `room` characters: it loses the queue pair, what follows the PSN and syllables of the operation before the PSN."""
    if len(label) <= room:
        return label
    label = without_qp(label)
    if (found := re.match(r"(.*?) ?(PSN \d+)\b", label)) is None or len(found[0]) + 2 <= room:
        return label if len(label) <= room else label[: max(room - 1, 0)].rstrip() + "…"
    operation, psn = found.groups()
    left = room - len(psn) - 1
    for whole, part in SHORT:
        if len(operation) > left:
            operation = operation.replace(whole, part)
    if left > 1:
        return f"{operation} {psn}" if len(operation) <= left else f"{operation[: left - 1].rstrip()}… {psn}"
    number = psn.removeprefix("PSN ")
    shown = psn if len(psn) <= room else number
    return shown if len(shown) <= room else "…"[: room - 1] + shown[len(shown) - max(room - 1, 1) :]


def without_qp(label: str) -> str:
    """A label without the queue pair: PSN and length say more, as most ladders show one connection."""
    return re.sub(r" QP 0x\w{6}", "", label, count=1)


def short_ends(ends: Iterable[str]) -> dict[str, str]:
    """Names of ends (`host07 HCA-1 port 1`), without port and adapter if the node has only one of them here."""
    parts = {end: found.groups("") for end in ends if (found := re.fullmatch(r"(.+?)( HCA-\d+)?( port \d+)?", end))}
    adapters, ports = defaultdict[str, set[str]](set), defaultdict[tuple[str, str], set[str]](set)
    for node, adapter, port in parts.values():
        adapters[node].add(adapter)
        ports[node, adapter] |= {port} - {""}
    return {
        end: node + (adapter if len(adapters[node]) > 1 else "") + (port if len(ports[node, adapter]) > 1 else "")
        for end, (node, adapter, port) in parts.items()
    }


def _missing(count: int, what: str) -> str:
    return f"{count} {what} before it is missing" if count == 1 else f"{count} {what}s before it are missing"
