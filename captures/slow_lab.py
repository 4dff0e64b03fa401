"""Builds slow-lab.pcap: connections of one host, of which some failed and some are slow.

    python captures/slow_lab.py captures/slow-lab.pcap

Everything is made here; nothing was recorded. 10.0.0.1 works with five others over RoCE v2, round trips take 5 to 6 us:

| connection with | what happens | cause |
|---|---|---|
| 10.0.0.2, queue pairs 0x201 and 0x202 | all is well; on the second one a packet is lost and sent again at once | healthy |
| 10.0.0.3, queue pairs 0x301 and 0x302 | the receive queue is empty again and again: RNR NAK, wait, send again | slow-by-rnr |
| 10.0.0.4, queue pair 0x401 | 1 KiB passes, a packet of 2 KiB vanishes eight times | path-mtu |
| 10.0.0.5, queue pair 0x501 | the last packets of messages are lost: only a timer notices | slow-by-timeout |
| 10.0.0.6 | refuses: reason 8, it has no such service | refused |
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ibdissect.wire import cm
from tests.diagnosis.lab import MS, SEND_FIRST, SEND_LAST, US, WRITE_ONLY, Lab

RNR_NAK, NAK = 0x20, 0x60
RNR_TIMER = 12
"""RNR timer code: 0.64 ms."""
NO_SUCH_SERVICE = 8
MTU_512, MTU_2048 = 2, 4
PORT = 0x1061DAC
"""Service of RDMA CM: TCP port 7596."""


class Session(Lab):
    """A connection of 10.0.0.1 with another host; `number` tells its ids and queue pairs from those of others."""

    def __init__(self, host: int, number: int) -> None:
        super().__init__(bytes([10, 0, 0, 1]), bytes([10, 0, 0, host]), 0x100 + number, 0x100 * host + number - 10 * host)
        self.ids = 0xA000 + number, 0xB000 + number

    def connect(self, time: int, psn: int = 100, *, refused: bool = False, mtu: int = MTU_2048) -> int:
        """REQ, REP and RTU, or REQ and REJ; returns the time after them."""
        near, far = self.ids
        self.req(time, local_communication_id=near, service_id=PORT, path_packet_payload_mtu=mtu, starting_psn=500)
        if refused:
            self.reject(time + 180 * US)
            return time
        self.rep(time + 150 * US, psn, local_communication_id=far, remote_communication_id=near, rnr_retry_count=7)
        self.short(time + 220 * US, cm.RTU_ID, cm.RTU, local_communication_id=near, remote_communication_id=far)
        return time + 300 * US

    def reject(self, time: int) -> None:
        near = self.ids[0]
        ids = {"local_communication_id": 0, "remote_communication_id": near}
        self.short(time, cm.REJ_ID, cm.REJ, back=True, reason=NO_SUCH_SERVICE, **ids)

    def close(self, time: int) -> None:
        near, far = self.ids
        self.short(time, cm.DREQ_ID, cm.DREQ, local_communication_id=near, remote_communication_id=far, remote_qpn=self.qb)
        self.short(time + 90 * US, cm.DREP_ID, cm.DREP, back=True, local_communication_id=far, remote_communication_id=near)

    def message(self, time: int, psn: int, **more: Any) -> int:
        """A request that is acknowledged at once."""
        self.ask(time, psn, **more)
        self.answer(time + (5 + psn % 2) * US, psn, msn=psn - 99)
        return time + 40 * US


def healthy(host: int, number: int, start: int, lost: int = 0) -> Session:
    made = Session(host, number)
    time = made.connect(start)
    for psn in range(100, 130):
        if psn == lost:  # this one is lost behind the capture; the next one is refused, and both come again
            made.ask(time, psn, 128)
            made.ask(time + US, psn + 1, 128)
            made.answer(time + 6 * US, psn, NAK, msn=psn - 100)
            time += 12 * US
        time = made.message(time, psn, size=128)
    made.close(time + 200 * US)
    return made


def without_buffers(host: int, number: int, start: int) -> Session:
    """Every third message finds no receive buffer, up to three times."""
    made = Session(host, number)
    time = made.connect(start)
    for psn in range(100, 130):
        for _ in range(psn % 3 == 0 and 1 + psn % 2 + (psn % 9 == 0)):
            made.ask(time, psn, 128)
            made.answer(time + 5 * US, psn, RNR_NAK | RNR_TIMER, msn=psn - 100)
            time += 700 * US
        time = made.message(time, psn, size=128)
    made.close(time + 300 * US)
    return made


def too_large(host: int, number: int, start: int) -> Session:
    """Up to 1 KiB passes; 2 KiB vanish on the way, and all is over after eight tries."""
    made = Session(host, number)
    time = made.connect(start)
    for psn in range(100, 110):
        time = made.message(time, psn, size=1024 if psn == 104 else 256, opcode=WRITE_ONLY)
    for _ in range(8):
        made.ask(time, 110, 2048, WRITE_ONLY)
        time += 17 * MS
    return made


def lost_tails(host: int, number: int, start: int) -> Session:
    """Messages of two packets, of which four lose the second one: nothing comes after it, so no NAK does either."""
    made = Session(host, number)
    time = made.connect(start, mtu=MTU_512)
    for psn in range(100, 140, 2):
        made.ask(time, psn, 512, SEND_FIRST, bth={"a": 0})
        made.ask(time + US, psn + 1, 100, SEND_LAST)
        if psn in (106, 114, 122, 130):
            time += 17 * MS
            made.ask(time, psn, 512, SEND_FIRST, bth={"a": 0})
            made.ask(time + US, psn + 1, 100, SEND_LAST)
        made.answer(time + 6 * US, psn + 1, msn=psn // 2 - 49)
        time += 60 * US
    made.close(time + 150 * US)
    return made


def everything() -> Lab:
    """All connections in one capture."""
    refused = Session(6, 60)
    refused.connect(2 * MS, refused=True)
    some = [
        healthy(2, 21, 0), healthy(2, 22, 4 * MS, lost=112), without_buffers(3, 31, MS), without_buffers(3, 32, 9 * MS),
        too_large(4, 41, 3 * MS), lost_tails(5, 51, 6 * MS), refused, healthy(2, 23, 190 * MS),
    ]  # fmt: skip
    whole = Lab()
    whole.frames = [frame for one in some for frame in one.frames]
    return whole


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(everything().pcap())
