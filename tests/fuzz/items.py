"""The bytes that a guided fuzzer turns, read as packets, as management datagrams, as a capture of them.

An input is a row of items: one byte that says what the item is, two bytes of length, and its bytes. A length beyond the end
takes what is there, so every input means something, and the steps of `mutate` can be applied to one of its packets.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from ibdissect.decode.locate import locate
from tests import craft
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND

from .container import PCAPNG_LINKS
from .mutate import STEPS, Packet
from .seeds import Seed, chunk_of

MOST = 24
"""Items taken of an input."""
SNAPPED = 0x40
ETHERNET, BACK = 0x80, 0x40
"""Of an item that is a datagram: over RoCE v2; from the second port to the first."""
RMPP_KINDS = ((0x03, 2), (0x03, 2), (0x06, 1), (0x10, 1), (0x30, 1), (0x09, 1))
"""Management class and class version by the low bits of an item."""
CM_ATTRIBUTES = (0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1B, 0x1C, 0x1D, 0x1E, 0x01)
Item = tuple[int, bytes]


def items(data: bytes) -> list[Item]:
    """The items of an input, at most `MOST`."""
    found, at = [], 0
    while at < len(data) and len(found) < MOST:
        size = int.from_bytes(data[at + 1 : at + 3], "big")
        found.append((data[at], data[at + 3 : at + 3 + size]))
        at += 3 + size
    return found


def joined(some: Iterable[Item]) -> bytes:
    """The input that means these items."""
    return b"".join(bytes([what]) + len(data).to_bytes(2, "big") + data for what, data in some if len(data) < 1 << 16)


def packet(what: int, data: bytes) -> Packet:
    """An item as a packet: its link type by the low bits, snapped by another."""
    return PCAPNG_LINKS[(what & 0x3F) % len(PCAPNG_LINKS)], data, len(data) + (60 if what & SNAPPED else 0)


def item(made: Packet) -> Item:
    """A packet as an item."""
    link, data, wire = made
    return PCAPNG_LINKS.index(link) | (SNAPPED if wire > len(data) else 0), data


def packets(data: bytes) -> list[Packet]:
    """The packets of an input."""
    return [packet(what, part) for what, part in items(data)]


def rmpp_packets(data: bytes) -> list[Packet]:
    """Datagrams of classes that use RMPP, between two ports."""
    return [_datagram(what, body, *RMPP_KINDS[(what & 0x0F) % len(RMPP_KINDS)]) for what, body in items(data)]


def cm_packets(data: bytes) -> list[Packet]:
    """Messages of connection management between two ports, mixed with data to queue pairs that they may have named."""
    made = []
    for what, body in items(data):
        if what & 0x20:
            opcode, qp = (body[0] if body else 4), int.from_bytes(body[1:4], "big")
            frame = craft.roce2(opcode, body[4:], headers=b"", bth={"destqp": qp}) if what & ETHERNET else _data(what, opcode, qp, body[4:])
            made.append((LINK_ETHERNET if what & ETHERNET else LINK_INFINIBAND, frame, len(frame)))
            continue
        whole = bytearray(256)
        whole[24 : 24 + len(body[:232])] = body[:232]
        whole[8:16] = bytes(7) + bytes([what >> 4 & 1])
        whole[16:18] = CM_ATTRIBUTES[what & 0x0F].to_bytes(2, "big")
        made.append(_datagram(what, bytes([1, 7, 2, 3]) + bytes(whole[4:]), 0x07, 2))
    return made


def _data(what: int, opcode: int, qp: int, payload: bytes) -> bytes:
    return craft.native(opcode, payload, bth={"destqp": qp}, **_ends(what))


def _ends(what: int) -> dict[str, int]:
    return {"slid": 2, "dlid": 1} if what & BACK else {"slid": 1, "dlid": 2}


def _datagram(what: int, body: bytes, mgmt_class: int, version: int) -> Packet:
    """A datagram of a class; its other bytes are the input's."""
    data = bytes([1, mgmt_class, version]) + body[3:256]
    if what & ETHERNET:
        ends = {"source": bytes([10, 0, 0, 2]), "destination": bytes([10, 0, 0, 1])} if what & BACK else {}
        deth = craft.GSI_KEY.to_bytes(4, "big") + (1).to_bytes(4, "big")
        frame = craft.roce2(0x64, data, headers=deth, bth={"destqp": 1, "m": 0}, ip=ends)
        return LINK_ETHERNET, frame, len(frame)
    frame = craft.ud(data, **_ends(what))
    return LINK_INFINIBAND, frame, len(frame)


def turned(data: bytes, others: Sequence[Seed], rnd: random.Random) -> bytes:
    """An input with one of its packets broken as `mutate` does, one taken out, put twice, moved, or a new one."""
    some = items(data)
    choice = rnd.randrange(8) if some else 0
    if choice == 0:
        seed = rnd.choice(others)
        some.insert(rnd.randrange(len(some) + 1), item((seed.link, seed.data, len(seed.data))))
    elif choice == 1:
        del some[rnd.randrange(len(some))]
    elif choice == 2:
        some.insert(rnd.randrange(len(some) + 1), rnd.choice(some))
    elif choice == 3:
        rnd.shuffle(some)
    else:
        place = rnd.randrange(len(some))
        what, part = some[place]
        link, _, _ = packet(what, part)
        body = bytearray(part)
        seed = Seed(link, part, heads(link, part))
        for _ in range(rnd.choice((1, 1, 2))):
            rnd.choice(STEPS)(rnd, body, seed, others)
        some[place] = what, bytes(body)
    return joined(some)


def heads(link: int, data: bytes) -> tuple[tuple[str, int], ...]:
    """Where headers start in a packet that has no header of its container."""
    if not data:
        return ()
    located = locate(chunk_of([(link, data)]))
    return tuple(sorted(((name, int(at[0])) for name, at in located.start.items() if at[0] >= 0), key=lambda one: one[1]))
