"""Which requests were lost or late, which READs were not completely answered, and how many requests are in order?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .recovery import MTUS, Gap, Stream, distance
from .streams import Streams


def gaps(streams: Streams) -> Iterator[tuple[Stream, Gap, bool]]:
    """Gaps of RC and XRC requests that were not sent again, and whether only the capture missed them: they were acknowledged, or the
    requester repeated what follows them, or went on over another path.
    """
    for slot, stream in streams.troubled.items():
        peer = streams.other(slot) if stream.gaps and stream.ends.service != "UC" else None
        if peer is not None and not stream.ends.response:
            answered = int(streams.state["high"][peer])
            for gap in stream.gaps:
                seen = gap.passed or distance(gap.start, answered) <= 0
                yield stream, gap, seen or streams.moved(slot, gap.start, gap.frame)


def in_order(streams: Streams) -> int:
    """Number of RC and XRC requests that follow the previous one; streams with gaps, or whose other side is not seen, do not count."""
    kept = [
        slot
        for slot, ends in enumerate(streams.ends)
        if ends.service != "UC" and not ends.response and (ends.service, ends.destination, ends.source, True) in streams.between
    ]
    troubled = [slot for slot in kept if slot in streams.troubled and streams.troubled[slot].gaps]
    packets = streams.state["packets"]
    return int(packets[kept].sum() - packets[troubled].sum())


def answered_early(streams: Streams, within_ns: int) -> bool:
    """Whether any stream's first response was recorded before the request that it answers, by at most `within_ns`.

    A longer time, or a refusal, proves nothing: the requester may repeat what the other side received before the capture began.
    """
    frames, times, psns, highs = (streams.state[name] for name in ("first_frame", "first_ns", "first_psn", "high"))
    for slot, ends in enumerate(streams.ends):
        peer = streams.other(slot) if ends.response and highs[slot] >= 0 else None
        if peer is not None and frames[slot] < frames[peer] and distance(int(psns[slot]), int(psns[peer])) >= 0:
            known = streams.troubled.get(slot)
            refused = known is not None and (known.counts.rnr or known.counts.naks)
            if not refused and times[peer] - times[slot] <= within_ns:
                return True
    return False


def open_reads(streams: Streams) -> Iterator[tuple[int, int, int]]:
    """Last READ of each stream whose response is incomplete: slot, frame, time."""
    state = streams.state
    for slot in np.flatnonzero(state["read_psn"] >= 0).tolist():
        peer = streams.other(slot)
        if peer is None:
            continue
        # With the largest path MTU, which stands for an unknown one, there are fewest responses.
        length, mtu = int(state["read_length"][slot]), int(max(state["mtu"][slot], state["mtu"][peer])) or MTUS[-1]
        end = int(state["read_psn"][slot]) + max(1, -(-length // mtu)) - 1
        begin, missing = int(state["read_psn"][slot]), streams.troubled.get(peer)
        answered = int(state["high"][peer])
        skipped = missing is not None and any(distance(gap.start, begin) >= 0 and not gap.passed for gap in missing.gaps)
        went_on = distance(int(state["cursor"][slot]), max(end, answered) + 1) > 0  # a requester that goes on has all of it
        if distance(end, answered) <= 0 and (went_on or not skipped):
            continue
        if streams.moved(slot, int(state["read_psn"][slot]), int(state["read_frame"][slot])):
            continue
        back = streams.troubled.get(peer)
        if back is None or not back.counts.naks.keys() - {0}:  # a NAK with another code is an answer
            yield slot, int(state["read_frame"][slot]), int(state["read_ns"][slot])
