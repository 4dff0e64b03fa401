"""Writes a large deterministic capture for measurements, with valid lengths, PSNs and CRCs, and without findings.

    python benchmarks/generate.py PACKETS OUT.pcap [--roce] [--connections N] [--seed N]

90 % RC data (WRITE, SEND, READ with their answers on N connections of two queue pairs each), 5 % UD, 5 % management datagrams
(SMP, PM, SA).
Native InfiniBand in ERF records (link type 197), or RoCE v2 over Ethernet with --roce (management becomes more UD).
"""

from __future__ import annotations

import argparse
import random
import struct
import zlib
from collections.abc import Iterator
from typing import IO

import anycrc

HOSTS, CONNECTIONS = 128, 1024
VCRC = anycrc.CRC(width=16, poly=0x100B, init=0xFFFF, refin=True, refout=True, xorout=0xFFFF)
START = 1_700_000_000
Packet = tuple[int, int, int, int, int, bytes, bytes, int]
"""source, destination, QP, P_Key, PSN, extended headers, payload, OpCode (bit 8: acknowledge request, bit 9: VL 15)"""


class Connection:
    """A pair of RC queue pairs; each knows the next PSN and MSN of its requester."""

    def __init__(self, number: int, rnd: random.Random) -> None:
        self.a, self.b = rnd.sample(range(1, HOSTS + 1), 2)
        self.qa, self.qb = 0x40 + 2 * number, 0x41 + 2 * number
        self.mtu = rnd.choices((256, 512, 1024, 2048), (45, 35, 12, 8))[0]
        self.p_key = rnd.choices((0xFFFF, 0x8001), (9, 1))[0]
        self.psn, self.msn = rnd.getrandbits(24), 0

    def message(self, rnd: random.Random, pool: bytes) -> Iterator[Packet]:
        """All packets of one message, including its answer."""
        kind = rnd.choices(("write", "send", "read"), (55, 25, 20))[0]
        count = min(1 + int(rnd.expovariate(0.9)), 40)
        tail = rnd.randint(1, self.mtu)
        self.msn = (self.msn + 1) & 0xFFFFFF
        aeth = struct.pack(">I", (0x1F << 24) | self.msn)
        length = (count - 1) * self.mtu + tail
        reth = struct.pack(">QII", 0x7F0000000000 + self.psn * 4096, 0x1000 + self.qb, length)
        first, middle, last, only = {"write": (6, 7, 8, 10), "send": (0, 1, 2, 4), "read": (13, 14, 15, 16)}[kind]
        if kind == "read":
            yield self.a, self.b, self.qb, self.p_key, self.psn, reth, b"", 0x10C
        for i in range(count):
            code = only if count == 1 else first if i == 0 else last if i == count - 1 else middle
            start = rnd.randrange(len(pool) - 4096)
            payload = pool[start : start + (tail if i == count - 1 else self.mtu)]
            psn = (self.psn + i) & 0xFFFFFF
            if kind == "read":
                yield self.b, self.a, self.qa, self.p_key, psn, b"" if code == middle else aeth, payload, code
            else:
                ask = 0x100 if i == count - 1 else 0
                yield self.a, self.b, self.qb, self.p_key, psn, reth if code in (6, 10) else b"", payload, code | ask
        self.psn = (self.psn + count) & 0xFFFFFF
        if kind != "read":
            yield self.b, self.a, self.qa, self.p_key, (self.psn - 1) & 0xFFFFFF, aeth, b"", 0x11


def datagram(rnd: random.Random, number: int, pool: bytes) -> Packet:
    """A UD SEND Only between ordinary queue pairs."""
    a, b = rnd.sample(range(1, HOSTS + 1), 2)
    start = rnd.randrange(len(pool) - 4096)
    payload = pool[start : start + rnd.choice((256, 512, 1024, 2044))]
    return a, b, 0x5000 + b, 0xFFFF, number & 0xFFFFFF, struct.pack(">II", 0xB1B, 0x6000 + a), payload, 0x64


def management(rnd: random.Random, number: int) -> Iterator[Packet]:
    """A request of the SM on LID 1 and its answer: Get of NodeInfo or PortCounters."""
    peer = rnd.randint(2, HOSTS)
    subnet = rnd.random() < 0.6
    mgmt_class, attribute = (0x01, 0x11) if subnet else (0x04, 0x12)
    qp, key, lane = (0, 0, 0x200) if subnet else (1, 0x80010000, 0)
    for source, destination, method in ((1, peer, 0x01), (peer, 1, 0x81)):
        mad = bytearray(256)
        struct.pack_into(">BBBBHHQHHI", mad, 0, 1, mgmt_class, 1, method, 0, 0, number, attribute, 0, 0)
        if subnet and method == 0x81:
            guid = 0x0002C90300000000 + peer
            struct.pack_into(">BBBBQQQHHIBBH", mad, 64, 1, 1, 1, 1, guid, guid, guid, 128, 0x1003, 0, 1, 0, 0x02C9)
        elif not subnet:
            mad[65] = 1
        yield source, destination, qp, 0xFFFF, number & 0xFFFFFF, struct.pack(">II", key, qp), bytes(mad), 0x64 | lane


def packets(count: int, seed: int, *, roce: bool, connections: int = CONNECTIONS) -> Iterator[Packet]:
    """`count` packets of the mix."""
    rnd = random.Random(seed)
    pool = rnd.randbytes(1 << 20)
    pairs = [Connection(i, rnd) for i in range(connections)]
    made = 0
    while made < count:
        # A message has about five packets, an exchange of management two.
        what = rnd.choices(("rc", "ud", "mad"), (18, 5, 0 if roce else 2.5))[0]
        if what == "rc":
            group = rnd.choice(pairs).message(rnd, pool)
        else:
            group = iter([datagram(rnd, made, pool)]) if what == "ud" else management(rnd, made)
        for packet in group:
            if made < count:
                yield packet
                made += 1


def transport(packet: Packet) -> bytes:
    """BTH to pad bytes."""
    _, _, qp, p_key, psn, extended, payload, flags = packet
    pad = -len(payload) % 4
    head = struct.pack(">BBHII", flags & 0xFF, 0x40 | pad << 4, p_key, qp, (flags >> 8 & 1) << 31 | psn)
    return head + extended + payload + bytes(pad)


def native(packet: Packet) -> bytes:
    """LRH to VCRC."""
    body = transport(packet)
    lane = 0xF0 if packet[7] & 0x200 else 0
    link = struct.pack(">BBHHH", lane, 2, packet[1], (12 + len(body)) // 4, packet[0])
    icrc = zlib.crc32(body[5:], zlib.crc32(b"\xff", zlib.crc32(body[:4], zlib.crc32(bytes([0xF0]) + link[1:]))))
    data = link + body + struct.pack("<I", icrc)
    return data + struct.pack("<H", VCRC.calc(data))


def ethernet(packet: Packet) -> bytes:
    """Ethernet, IPv4, UDP, BTH to ICRC."""
    body = transport(packet)
    addresses = bytes((10, 0, 0, packet[0], 10, 0, 0, packet[1]))
    total = 32 + len(body)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0x4000, 64, 17, 0) + addresses
    words = sum(struct.unpack(">10H", ip))
    check = ~((words & 0xFFFF) + (words >> 16)) & 0xFFFF
    udp = struct.pack(">HHHH", 0xC000 | packet[2] & 0x3FFF, 4791, total - 20, 0)
    pseudo = b"\xff" * 8 + ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + addresses + udp[:6] + b"\xff\xff"
    icrc = zlib.crc32(body[5:], zlib.crc32(b"\xff", zlib.crc32(body[:4], zlib.crc32(pseudo))))
    mac = b"\x02\0\0\0\0" + bytes([packet[1]]) + b"\x02\0\0\0\0" + bytes([packet[0]]) + b"\x08\0"
    return mac + ip[:10] + struct.pack(">H", check) + ip[12:] + udp + body + struct.pack("<I", icrc)


def write(file: IO[bytes], count: int, *, roce: bool, seed: int = 1, connections: int = CONNECTIONS) -> None:
    """Write a pcap of `count` packets."""
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1 if roce else 197))
    for number, packet in enumerate(packets(count, seed, roce=roce, connections=connections)):
        seconds, micros = divmod(number, 1_000_000)
        seconds += START
        if roce:
            frame = ethernet(packet)
        else:
            data = native(packet)
            stamp = seconds << 32 | (micros << 32) // 1_000_000
            frame = struct.pack("<Q", stamp) + struct.pack(">BBHHH", 21, 4, 16 + len(data), 0, len(data)) + data
        file.write(struct.pack("<IIII", seconds, micros, len(frame), len(frame)) + frame)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packets", type=int)
    parser.add_argument("out")
    parser.add_argument("--roce", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    options = parser.parse_args()
    with open(options.out, "wb") as file:
        write(file, options.packets, roce=options.roce, seed=options.seed, connections=options.connections)


if __name__ == "__main__":
    main()
