"""Small captures of connections, written packet by packet: who sends what, when. A sends requests to B's queue pair, B answers to A's."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from ibdissect.decode.counted_packets import Distinct
from ibdissect.diagnosis.connection import Connection, ConnectionTimes, Diagnosis
from ibdissect.diagnosis.connection_follower import ConnectionFollower
from ibdissect.diagnosis.json_objects import json_text
from ibdissect.diagnosis.text import lines
from ibdissect.pipeline.reading import open_reading
from ibdissect.wire import cm
from ibdissect.wire.text import plain
from tests.craft import build, mad, roce2

US, MS, SEC = 1000, 1_000_000, 1_000_000_000
START = 1_700_000_000 * SEC
A, B, C = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), bytes([10, 0, 0, 3])
QA, QB = 0x111, 0x222
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0x00, 0x01, 0x02, 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY, READ = 0x06, 0x07, 0x08, 0x0A, 0x0C
RESPONSE_ONLY, ACK, CNP = 0x10, 0x11, 0x81
TIMEOUT = 20 * MS


class Lab:
    """Frames with their times, in any order until they are written."""

    def __init__(self, a: bytes = A, b: bytes = B, qa: int = QA, qb: int = QB) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.a, self.b, self.qa, self.qb = a, b, qa, qb
        self.identification = 0

    def put(self, time: int, source: bytes, target: bytes, opcode: int, qpn: int, psn: int, **more: Any) -> None:
        """A packet; `more` as for craft.roce2."""
        self.identification += 1
        ip = {"source": source, "destination": target, "identification": self.identification & 0xFFFF, **more.pop("ip", {})}
        bth = {"destqp": qpn, "psn": psn & 0xFFFFFF, **more.pop("bth", {})}
        self.frames.append((time, roce2(opcode, bth=bth, ip=ip, **more)))

    def ask(self, time: int, psn: int, size: int = 64, opcode: int = SEND_ONLY, fill: int = 0x41, dma: int = 0, **more: Any) -> None:
        """A request of A."""
        ext = {"RETH": {"va": 0x1000, "r_key": 7, "dmalen": dma or size}} if opcode in (WRITE_FIRST, WRITE_ONLY, READ) else {}
        bth = {"a": 1, **more.pop("bth", {})}
        self.put(
            time, self.a, self.b, opcode, self.qb, psn, payload=bytes([fill]) * (0 if opcode == READ else size), ext=ext, bth=bth, **more
        )

    def answer(self, time: int, psn: int, syndrome: int = 31, msn: int = 0, opcode: int = ACK, size: int = 0, **more: Any) -> None:
        """An answer of B; syndrome 0x60 is a NAK, 0x20 an RNR NAK."""
        ext = {"AETH": {"syndrome": syndrome, "msn": msn}}
        self.put(time, self.b, self.a, opcode, self.qa, psn, payload=bytes(size), ext=ext, **more)

    def good(self, time: int, psn: int, number: int = 1, step: int = 100 * US, **more: Any) -> int:
        """Requests that are acknowledged after 5 us each; returns the time after them."""
        for i in range(number):
            self.ask(time, psn + i, **more)
            self.answer(time + 5 * US, psn + i, msn=psn + i)
            time += step
        return time

    def cnp(self, time: int) -> None:
        """B tells A of congestion."""
        self.put(time, self.b, self.a, CNP, self.qa, 0, headers=bytes(16), bth={"becn": 1})

    def manage(self, time: int, attribute: int, body: bytes, *, back: bool = False) -> None:
        """A message of connection management."""
        source, target = (self.b, self.a) if back else (self.a, self.b)
        ext = {"DETH": {"q_key": 0x80010000, "srcqp": 1}}
        self.put(time, source, target, 0x64, 1, self.identification, payload=mad(7, 3, attribute, body), ext=ext)

    def req(self, time: int, number: int = 1, **more: Any) -> None:
        values = {
            "local_communication_id": 0xA0, "local_qpn": self.qa, "starting_psn": 500, "service_id": 0x1061144, "partition_key": 0xFFFF,
            "path_packet_payload_mtu": 3, "retry_count": 7, "rnr_retry_count": 6, "max_cm_retries": 3, "remote_cm_response_timeout": 14,
            "primary_local_ack_timeout": 12, **more,
        }  # fmt: skip
        for i in range(number):
            self.manage(time + i * 100 * MS, cm.REQ_ID, build(cm.REQ, **values))

    def rep(self, time: int, psn: int = 100, **more: Any) -> None:
        values = {"local_communication_id": 0xB0, "remote_communication_id": 0xA0, "local_qpn": self.qb, "starting_psn": psn, **more}
        self.manage(time, cm.REP_ID, build(cm.REP, **values), back=True)

    def short(self, time: int, attribute: int, kind: Any, *, back: bool = False, **more: Any) -> None:
        """RTU, REJ, MRA, DREQ, DREP."""
        both = (0xB0, 0xA0) if back else (0xA0, 0xB0)
        values = {"local_communication_id": both[0], "remote_communication_id": both[1], **more}
        self.manage(time, attribute, build(kind, **values), back=back)

    def up(self, time: int = 0, psn: int = 100, rnr_retries: int = 6, **more: Any) -> int:
        """REQ, REP, RTU; returns the time after them. `rnr_retries`: those of A, which the REP says."""
        self.req(time, **more)
        self.rep(time + 100 * US, psn, rnr_retry_count=rnr_retries)
        self.short(time + 200 * US, cm.RTU_ID, cm.RTU)
        return time + 300 * US

    def down(self, time: int, *, answered: bool = True) -> None:
        self.short(time, cm.DREQ_ID, cm.DREQ, remote_qpn=self.qb)
        if answered:
            self.short(time + 100 * US, cm.DREP_ID, cm.DREP, back=True)

    def pcap(self, snap: int = 65535) -> bytes:
        out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snap, 1)]
        for time, frame in sorted(self.frames, key=lambda one: one[0]):
            seconds, ns = divmod(START + time, SEC)
            out.append(struct.pack("<IIII", seconds, ns, min(snap, len(frame)), len(frame)) + frame[:snap])
        return b"".join(out)

    def diagnosis(self, snap: int = 65535) -> Diagnosis:
        return diagnosis(self.pcap(snap))

    def only(self, snap: int = 65535) -> Connection:
        """The single connection of the capture."""
        (found,) = self.diagnosis(snap).connections
        return found


def diagnosis(data: bytes, follower: ConnectionFollower | None = None) -> Diagnosis:
    """The diagnosis of a capture in memory."""
    follower, distinct = follower or ConnectionFollower(), Distinct()
    with open_reading(io.BytesIO(data)) as reading:
        reading.joins = False
        for table in reading.tables(keys=False):
            follower.feed(distinct.of(table))
    return follower.result("lab")


def joined(*labs: Lab) -> Lab:
    """Several connections in one capture."""
    found = Lab()
    for lab in labs:
        found.frames += lab.frames
    return found


def as_json(diagnoses: Sequence[Diagnosis]) -> Any:
    """What `diagnose --format json` prints."""
    return json.loads("".join(json_text(diagnoses)))


def told(found: Diagnosis, top: int = 20, *, every: bool = False) -> str:
    """The text of `ibdissect diagnose` about it."""
    return "\n".join(lines(found, plain, top, every=every))


def spent(one: Connection, span: int, **parts: int) -> Connection:
    """The connection as if its time had been spent so; parts that are not named took none."""
    return msgspec.structs.replace(one, times=ConnectionTimes(span, **parts))
