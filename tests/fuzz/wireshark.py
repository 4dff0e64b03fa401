"""Broken packets that tshark calls malformed and ibdissect does not, or the other way round, and the reasons."""

from __future__ import annotations

import io
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ibdissect import Capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.engine.offsets import MALFORMED
from tests.craft import LINK_ERF, LINK_INFINIBAND

from .container import pcapng
from .mutate import Packet
from .seeds import Seed, in_erf

PATIENCE = 60
"""Seconds for a batch; tshark takes about 0.1 ms a packet."""
FIELDS = ("frame.number", "frame.protocols", "_ws.malformed", "_ws.expert.message", "_ws.col.Info")
_RD = range(0x40, 0x60)
_GUESSED = (":rpcordma", ":iser", ":nvme-rdma", ":smc", ":ipoib")


@dataclass(slots=True)
class Verdicts:
    """How often the two agree, and why they do not."""

    counts: Counter[str] = field(default_factory=Counter)
    """`both`, `neither`, `only ibdissect`, `only tshark`, `tshark crashed`, `tshark hung`, `not given to tshark`."""
    causes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, bytes] = field(default_factory=dict)
    """The first packet of every cause."""


def readable(packet: Packet) -> bool:
    """Whether tshark reads the file at all: it gives up on all of it at an ERF record without room for its header."""
    link, data, _ = packet
    return link != LINK_ERF or (len(data) >= 20 and not data[8] & 0x80)


def side_by_side(packets: Sequence[Packet], into: Verdicts) -> None:
    """Compare the verdicts on packets; link type 247, which tshark 4.0 does not read, is put behind an ERF header."""
    given = [_wrapped(packet) for packet in packets]
    whole = [packet for packet in given if readable(packet)]
    into.counts["not given to tshark"] += len(given) - len(whole)
    blob = pcapng(whole, links=tuple(sorted({packet[0] for packet in whole})))
    seen = _tshark(blob, into)
    with Capture(io.BytesIO(blob)) as capture:
        for table in capture.tables():
            for row in range(len(table)):
                number = table.chunk.first + row
                if number in seen:
                    _judge(table, row, seen[number], whole[number - 1], into)


def _wrapped(packet: Packet) -> Packet:
    link, data, wire = packet
    if link != LINK_INFINIBAND:
        return packet
    behind = in_erf(Seed(link, data, ()))
    return behind.link, behind.data, wire + len(behind.data) - len(data)


def _tshark(blob: bytes, into: Verdicts) -> dict[int, list[str]]:
    """What tshark says of every frame, by number."""
    words = ["tshark", "-n", "-T", "fields", "-E", "separator=|"]
    for name in FIELDS:
        words += ["-e", name]
    with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
        file.write(blob)
        file.flush()
        try:
            done = subprocess.run([*words, "-r", file.name], capture_output=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            into.counts["tshark hung"] += 1
            return {}
    if done.returncode < 0:
        into.counts["tshark crashed"] += 1
    lines = (line.split("|") for line in done.stdout.decode("utf-8", "replace").splitlines())
    return {int(line[0]): line for line in lines if len(line) >= len(FIELDS) and line[0].isdigit()}


def _judge(table: ChunkTable, row: int, line: list[str], packet: Packet, into: Verdicts) -> None:
    ours, theirs = int(table.located.malformed[row]), bool(line[2] or "[Malformed Packet]" in line[-1])
    if ours and theirs:
        into.counts["both"] += 1
    elif not ours and not theirs:
        into.counts["neither"] += 1
    else:
        into.counts["only ibdissect" if ours else "only tshark"] += 1
        cause = f"only ibdissect: {MALFORMED[ours]}" if ours else f"only tshark: {_why(table, row, line)}"
        into.causes[cause] += 1
        into.examples.setdefault(cause, packet[1])


def _why(table: ChunkTable, row: int, line: list[str]) -> str:
    """Why tshark calls a frame malformed that ibdissect does not."""
    located, chunk = table.located, table.chunk
    protocols, said, info = line[1], line[3], line[-1]
    names = {part for part in line[2].replace("[", "").split(",") if part.startswith("Malformed Packet: ")}
    in_ib = "Malformed Packet: IB]" in names or "Invalid Packet Length from LRH" in info
    if in_ib and chunk.caplen[row] < chunk.length[row]:
        return "the record is cut off by a snap length"
    if in_ib and int(located.opcode[row]) in _RD:
        return "OpCodes of RD are read as DC, or RESYNC without payload"
    if in_ib and info.startswith("RESERVED (Unknown Attribute)"):
        return "a datagram of no class it knows: reads past its end"
    if any(name in protocols for name in _GUESSED) and "infiniband" in protocols:
        return "a payload is taken for another protocol by its looks"
    if "length value" in said and "payload length" in said and "infiniband" in protocols:
        return "the UDP length disagrees with IP, in a packet that is cut off or a fragment"
    if "less than captured" in said:
        return "the record says that the packet was shorter than what was captured"
    if located.at("bth")[row] < 0:
        return "the frame holds no InfiniBand; another protocol is broken"
    if not in_ib and names - {"Malformed Packet: IB]"}:
        return "a protocol inside the payload is broken"
    if not in_ib:
        return "a remark of the Malformed group about Ethernet, IP or UDP"
    return "other"
