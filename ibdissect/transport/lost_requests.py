"""Requests of a stream that were lost or late, and READs that were answered in part. For rules about losses."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.engine.psn_gaps import FAR, MTUS, Gap, distance

from .psn_streams import Stream, Streams

MAX_READS = 16
"""READs that a requester has under way at most, as adapters allow."""


def _read_end(one: Stream, peer: Stream) -> int:
    """The last PSN of a stream's last READ: with the largest path MTU, which stands for an unknown one, there are fewest responses."""
    packets = max(1, -(-one.read_length // (max(one.mtu, peer.mtu) or MTUS[-1])))
    return int(one.read_psn + packets - 1)


def _answers_reads(one: Stream, peer: Stream, end: int) -> bool:
    """Whether what is answered last may belong to the last READ, which ends at `end`, or to those before it: not if it is of another
    connection of this queue pair.
    """
    return bool(-FAR <= distance(end, peer.high) <= FAR + MAX_READS * (end - one.read_psn + 1))


def _is_anew(one: Stream, peer: Stream, psn: int) -> bool:
    """Whether the queue pair that answers was used anew: its PSNs are too far behind a request, and behind what READs ask for."""
    if distance(psn, peer.high) <= FAR:
        return False
    end = _read_end(one, peer) if one.read_psn >= 0 else peer.high
    return not (one.read_psn >= 0 and _answers_reads(one, peer, end) and distance(psn, end) <= FAR)


def gaps(streams: Streams) -> Iterator[tuple[Stream, Gap, bool]]:
    """Gaps of RC and XRC requests that were not sent again, and whether only the capture missed them: they were acknowledged, perhaps
    before the queue pair that answers was used anew, or the requester repeated what follows them, or went on over another path.
    """
    for stream in streams.all:
        if stream.gaps and not stream.response and stream.ends.service != "UC" and (peer := streams.other(stream)) is not None:
            for gap in stream.gaps:
                seen = gap.passed or distance(gap.start, peer.high) <= 0 or _is_anew(stream, peer, gap.start)
                yield stream, gap, seen or streams.moved(stream, gap.start, gap.frame)


def in_order(streams: Streams) -> int:
    """Number of RC and XRC requests that follow the previous one; streams with gaps, or whose other side is not seen, do not count."""
    return sum(
        one.packets
        for (service, source, destination, response), some in streams.between.items()
        if service != "UC" and not response and (service, destination, source, True) in streams.between
        for mine in some.values() for one in mine
        if not one.gaps
    )  # fmt: skip


def answered_early(streams: Streams, within_ns: int) -> bool:
    """Whether any stream's first response was recorded before the request that it answers, by at most `within_ns`.

    A longer time proves nothing, nor does a refusal where the set-up is not captured: the requester may repeat what the other side received
    before the capture began.
    """
    for one in streams.all:
        peer = streams.other(one) if one.response else None
        if peer is None or peer.first_frame < one.first_frame or ((one.rnr or one.naks) and one.lane.setup is None):
            continue
        if distance(one.first_psn, peer.first_psn) >= 0 and peer.first_ns - one.first_ns <= within_ns:
            return True
    return False


def open_reads(streams: Streams) -> Iterator[tuple[Stream, int]]:
    """Streams whose last READ, `read_frame`, is not answered to its end, and the last PSN that was answered."""
    for one in streams.all:
        peer = streams.other(one) if one.read_psn >= 0 else None
        if peer is None:
            continue
        end = _read_end(one, peer)
        if distance(end, peer.high) <= 0 and (
            not peer.gaps
            or distance(one.cursor, max(end, peer.high) + 1) > 0  # a requester that goes on has all of it
            or not any(distance(gap.start, one.read_psn) >= 0 and not gap.passed for gap in peer.gaps)
        ):
            continue
        if not _answers_reads(one, peer, end):
            continue
        if streams.moved(one, one.read_psn, one.read_frame):
            continue
        if not (peer.naks or {}).keys() - {0}:  # a NAK with another code is an answer
            yield one, peer.high
