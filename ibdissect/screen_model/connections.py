"""Diagnosed connections of a capture, and the display filters for the frames of each or of a part of its time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import GID_SIZE, address_text, ends_at
from ibdissect.decode.counted_packets import Distinct
from ibdissect.decode.networks import Networks
from ibdissect.diagnosis.connection import Connection, ConnectionEnd, Diagnosis
from ibdissect.diagnosis.time_bars import episodes_in
from ibdissect.wire.headers import BTH

if TYPE_CHECKING:
    from .background_analysis import BackgroundAnalysis
    from .capture_model import CaptureModel

CM_QPN = 1
IDS = (
    "req", "rep.remotecommid", "rtu.localcommid",
    *(f"{name}.{side}commid" for name in ("mra", "rej", "dreq", "drsp") for side in ("local", "remote")),
)  # fmt: skip
"""Where messages of connection management have the asker's id."""
MAPPED = bytes(10) + b"\xff\xff"
"""What a GID begins with that holds an IPv4 address."""
AT_ONCE = 1024
"""Frames that are read at once to see where they were captured."""
STEP = 1 << 15
"""Frames that are followed at once, where the study has not reached the end."""


def diagnosed(study: BackgroundAnalysis, wanted: Callable[[], bool] = lambda: True) -> Diagnosis:
    """What `ibdissect diagnose` says of the frames so far: the study's own at the end of a capture; before it, they are read once more."""
    if study.finished:
        found = study.stories.diagnosis
        return found if found is not None else Diagnosis(study.model.reader.path, study.done, [], [], [])
    from ibdissect.diagnosis.connection_follower import ConnectionFollower

    follower, distinct, networks, done, frames = ConnectionFollower(), Distinct(), Networks(), 0, study.model.index.frames
    while done < frames and wanted():
        chunk = study.model.index.after(done, min(STEP, frames - done))
        if not len(chunk):
            break
        table = study.model.reading.table_of(chunk)
        table.once(networks.tell_apart)
        follower.feed(distinct.of(table))
        done = chunk.first + len(chunk) - 1
    return follower.result(study.model.reader.path)


class CapturedInterface(Record):
    """The interface of a merged capture at which a connection was captured."""

    id: int
    name: str


def points_of(connections: Sequence[Connection], table: Callable[[list[int]], ChunkTable]) -> dict[int, CapturedInterface]:
    """Where each connection was captured that another point captured, too, by its first frame; empty for a capture of one point.

    `table`: makes a table of some frames.
    """
    same: dict[frozenset[ConnectionEnd], list[Connection]] = defaultdict(list)
    for one in connections:
        same[frozenset(one.ends)].append(one)
    frames = sorted(one.first_frame for some in same.values() if len(some) > 1 for one in some)
    found: dict[int, CapturedInterface] = {}
    for at in range(0, len(frames), AT_ONCE):
        some = frames[at : at + AT_ONCE]
        chunk = table(some).chunk
        names, ids = chunk.interface_names(np.arange(len(some))), chunk.interface[: len(some)].tolist()
        found |= {frame: CapturedInterface(i, name or f"interface {i}") for frame, i, name in zip(some, ids, names, strict=True)}
    return found if len({point.id for point in found.values()}) > 1 else {}


def connection_filter(one: Connection, point: CapturedInterface | None = None) -> str:
    """The display filter for the frames of a connection: its data both ways, its set-up and end; `point`: as captured there only."""
    there = f"frame.interface_id == {point.id} && " if point is not None else ""
    near, far = one.ends
    ways = [f"{_way(a, b)} && infiniband.bth.destqp == 0x{b.qpn:06x}" for a, b in ((near, far), (far, near)) if b.qpn is not None]
    if one.set_up.id is not None:
        ids = " || ".join(f"infiniband.cm.{name} == 0x{one.set_up.id:08x}" for name in IDS)
        ways.append(f"(({_way(near, far)}) || ({_way(far, near)})) && ({ids})")
    ways.append(f"frame.number in {{{one.first_frame}, {one.last_frame}}}")  # whatever they are
    both = " || ".join(f"({way})" for way in ways)
    return f"{there}frame.number in {{{one.first_frame} .. {one.last_frame}}} && ({both})"


def slice_filter(one: Connection, part: str, model: CaptureModel, point: CapturedInterface | None = None) -> tuple[str, int]:
    """The display filter for the frames of a part of its time, and the frame where the longest episode begins.

    Parts without episodes have all frames of the connection.
    """
    found = [(each.end_ns - each.start_ns, *_frames(model, each.start_ns, each.end_ns)) for each in episodes_in(one, part)]
    if not found:
        return connection_filter(one, point), one.first_frame
    first = max(found, key=lambda each: (each[0], -each[1]))[1]
    ranges = ", ".join(f"{low} .. {high}" for low, high in joined([(low, high) for _, low, high in found]))
    return f"frame.number in {{{ranges}}} && ({connection_filter(one, point)})", first


def joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of frames in order; those that touch are one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def connection_of(
    connections: Sequence[Connection], table: ChunkTable, frame: int, points: Mapping[int, CapturedInterface] | None = None
) -> Connection | None:
    """The connection that the only frame of a table belongs to, which is frame `frame`. `points`: as of `points_of`."""
    if int(table.located.at("bth")[0]) < 0:
        return None
    source, destination = (_told(end.address) for end in ends_at(table, 0))
    qpn = int(table.of_rows(BTH.destqp)[0][0])
    near = [one for one in connections if one.first_frame <= frame <= one.last_frame]
    near = [one for one in near if {end.address for end in one.ends} == {source, destination}]
    if points:
        here = int(table.chunk.interface[0])
        near = [one for one in near if (point := points.get(one.first_frame)) is None or point.id == here]
    if qpn == CM_QPN:
        told = [one for one in near if frame in (one.first_frame, one.last_frame, *one.evidence)]
        return told[0] if told else near[0] if len(near) == 1 else None
    return next((one for one in near for end in one.ends if (end.address, end.qpn) == (destination, qpn)), None)


def _told(address: bytes) -> str:
    """The address as a diagnosis has it: IPv4 addresses in GIDs are IPv4 addresses."""
    return address_text(address[len(MAPPED) :] if len(address) == GID_SIZE and address.startswith(MAPPED) else address)


def _way(source: ConnectionEnd, destination: ConnectionEnd) -> str:
    return f"{_is(source, 'slid', 'src', 'sgid')} && {_is(destination, 'dlid', 'dst', 'dgid')}"


def _is(end: ConnectionEnd, lid: str, ip: str, gid: str) -> str:
    """The end in a filter. RoCE v1 carries IPv4 addresses in GIDs."""
    text = end.address
    if end.lid is not None:
        return f"infiniband.lrh.{lid} == {end.lid}"
    if ":" in text:
        return f"(ipv6.{ip} == {text} || infiniband.grh.{gid} == {text})"
    return f"(ip.{ip} == {text} || infiniband.grh.{gid} == ::ffff:{text})"


def _frames(model: CaptureModel, start_ns: int, end_ns: int) -> tuple[int, int]:
    """The frames of a time. Records stand in order of time, or nearly so."""
    numbers = range(1, model.index.frames + 1)
    low = bisect_left(numbers, start_ns, key=model.index.time_ns) + 1
    return min(low, model.index.frames), max(bisect_right(numbers, end_ns, key=model.index.time_ns), low)
