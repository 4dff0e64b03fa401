"""Scapy's text of a frame, with the layers derived from the declarations. Keys are removed before it dissects.

A receiver may find a packet where `locate` does not look, behind headers that it does not know. Scapy is one, so a layer of ours is shown
only where `locate` found its structure: nobody else would have hidden its keys.
"""

from __future__ import annotations

import gc
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from ibdissect.capture.chunk import (
    LINK_ERF,
    LINK_ETHERNET,
    LINK_INFINIBAND,
    LINK_LOOP,
    LINK_NULL,
    LINK_PPP,
    LINK_SLL,
    LINK_SLL2,
    LINKS_RAW_IP,
)
from ibdissect.decode import ChunkTable
from ibdissect.decode.find_structures import at_place
from ibdissect.decode.ignored_data import beside
from ibdissect.dissect.frame_trees import dissect_row
from ibdissect.dissect.shown_value import BESIDE, REVEALS, Presenter
from ibdissect.dissect.tree import Tree
from ibdissect.layers import ERF, LRH, Layer, layer
from ibdissect.wire.places import CmPayload, QKey
from ibdissect.wire.text import counted, printable

_LINE = re.compile(r"^(?P<indent>[\s|]*)(?P<name>\w+)(?P<middle>\s*=\s)(?P<value>.*)$")


def shown(table: ChunkTable, row: int, presenter: Presenter) -> str:
    """Scapy's `show()` of a row, without its colours."""
    gc.collect(0)  # the packets of the row before refer to each other, each of up to 1000 layers with a copy of the rest of the frame
    tree = dissect_row(table, row, presenter)
    data = bytearray(tree.data)
    chunk, ignored = table.chunk, table.once(beside)
    pseudo, offset = int(chunk.pseudo[row]), int(chunk.offset[row])
    for start, stop in tree.secret_bytes:
        places = np.arange(start, min(stop, len(data)))
        bits = ignored.of(offset + places) if ignored is not None else np.zeros(len(places), np.uint8)
        for at, unread in zip(places.tolist(), bits.tolist(), strict=True):
            data[at] &= 0xFF ^ (unread or 0xFF)  # a byte may hold bits of a request, too
    front = chunk.data[pseudo:offset].tobytes() if pseudo >= 0 else b""
    text = _text(table, row, front + bytes(data), hide=not presenter.show_keys)
    lines = [printable(line) for line in text.split("\n")]
    return "\n".join(_masked(lines, tree) if tree.secret_bytes else lines)


def _text(table: ChunkTable, row: int, data: bytes, *, hide: bool) -> str:
    """What Scapy prints of the bytes of a row, the ERF header included."""
    from scapy.packet import Raw

    try:
        packet = _first(int(table.chunk.link[row]), len(data))(data)
        left_out = _cut(packet, table, row, int(table.located.end[row]) - len(data)) if hide else 0
        _conversed(packet, table, row)
        text: str = packet.show(dump=True)
    except MemoryError:
        raise
    except Exception as error:  # whatever Scapy's own classes raise at hostile bytes
        return f"{Raw(data).show(dump=True)}(Scapy fails at this frame: {type(error).__name__})\n"
    if left_out:
        text += f"({counted(left_out, 'byte')} hidden: an InfiniBand packet behind headers that are not read, which may hold keys)\n"
    return text


def _cut(packet: Any, table: ChunkTable, row: int, at: int) -> int:
    """Remove the first layer of ours, and all behind it, that begins where no such structure was found; returns its bytes, 0 for none.
    `at`: where the packet starts in the chunk.
    """
    below: Any = None
    while packet:
        if below is not None and isinstance(packet, Layer) and (not isinstance(below, Layer) or isinstance(below, ERF)):
            found = table.occurrences(packet.declared)
            if not ((found.rows == row) & (found.at == at)).any():
                below.remove_payload()
                return len(packet.original)
        at += len(packet.raw_packet_cache) if packet.raw_packet_cache is not None else len(table.chunk.data)
        below, packet = packet, packet.payload
    return 0


def _conversed(packet: Any, table: ChunkTable, row: int) -> None:
    """Replace a raw payload by the layer that its connection implies: Scapy sees only one packet at a time."""
    from scapy.packet import Raw

    payload = int(table.located.at("payload")[row])
    if payload < 0 or Raw not in packet or packet[Raw].underlayer is None:
        return
    for place, struct in table.catalog.others:
        if isinstance(place, (CmPayload, QKey)):
            found = at_place(table, struct, place)
            if ((found.rows == row) & (found.at == payload)).any():
                raw = packet[Raw]
                raw.underlayer.payload = layer(struct)(raw.load, _underlayer=raw.underlayer)
                return


def _first(link: int, size: int) -> Any:  # Any: Scapy's classes have no useful type
    """The first packet class for a link type and frame size; Raw if short, as Scapy's own classes raise on a cut-off header."""
    if link == LINK_INFINIBAND:
        return LRH
    if link == LINK_ERF:
        return ERF
    from scapy.layers.inet6 import IPv46
    from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Ether, Loopback, LoopbackOpenBSD
    from scapy.layers.ppp import PPP
    from scapy.packet import Raw

    known = {
        LINK_ETHERNET: (Ether, 14), LINK_SLL: (CookedLinux, 16), LINK_SLL2: (CookedLinuxV2, 20), LINK_NULL: (Loopback, 4),
        LINK_LOOP: (LoopbackOpenBSD, 4), LINK_PPP: (PPP, 4), **dict.fromkeys(LINKS_RAW_IP, (IPv46, 40)),
    }  # fmt: skip
    first, least = known.get(link, (Raw, 0))
    return first if size >= least else Raw


def _masked(lines: list[str], tree: Tree) -> Iterator[str]:
    """Show removed keys as `m_key = M_Key#3`, and mark fields that are not part of a request, and checksums that would reveal a key.

    Scapy would show zeros. The values of a field are in the same order in `lines` and `tree`.
    """
    texts: dict[str, deque[str]] = defaultdict(deque)
    left_out = {node.field.name for node in tree.walk() if node.field is not None and node.text == BESIDE}
    for node in tree.walk():
        if node.field is not None and (node.field.secret or node.field.tells or node.field.name in left_out):
            texts[node.field.name].append(node.text if node.value is None or node.field.secret or node.field.tells else "")
    reveals, layer_name = any(node.text == REVEALS for node in tree.walk()), ""
    for line in lines:
        match = _LINE.match(line)
        if "###[" in line:
            layer_name = line.strip("|# []")
        elif match is not None:
            name = match["name"]
            if reveals and (name in ("icrc", "vcrc") or (name, layer_name) == ("chksum", "UDP")):
                line = f"{match['indent']}{name}{match['middle']}{REVEALS}"
            elif texts.get(name) and (text := texts[name].popleft()):
                line = f"{match['indent']}{name}{match['middle']}{text}"
        yield line
