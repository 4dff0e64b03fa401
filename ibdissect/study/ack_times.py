"""How long did acknowledgements take in each conversation? From a request of RC or XRC to the first packet that answers its PSN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ibdissect.flow.exchanges import Times
from ibdissect.flow.reliable import Streams
from ibdissect.flow.stream_packets import packets
from ibdissect.table.locate import Int

from .capture_model import CaptureModel
from .conversations import STREAMS, Conversation

STEP = 1 << 16
WAYS = 2
"""Requests go from near to far (0), and from far to near (1)."""
PSN_BITS = 24


def ack_times(model: CaptureModel, streams: Streams, conversations: Sequence[Conversation]) -> dict[int, Times]:
    """Times by index of the conversation, as the capture point saw them; reads the capture once more.

    A PSN that was sent twice says nothing: nobody knows which of the two was answered. Answers are looked for among the same STEP
    frames and the next ones.
    """
    ways = _ways(streams, conversations)
    found: dict[int, Times] = {}
    before = np.empty((2, 0), np.int64)
    done = 0
    while ways and len(chunk := model.index.after(done, STEP)):
        done = chunk.first + len(chunk) - 1
        some = packets(model.reading.table_of(chunk))
        if some is None:
            continue
        sizes = np.diff(np.append(some.starts, len(some.rows)))
        way = np.repeat([ways.get(streams.slots.get(key, -1), -1) for key in some.key[some.starts].tolist()], sizes)
        ours = way >= 0
        key, time_ns, answers = (way[ours] << PSN_BITS) | some.psn[ours], chunk.time_ns[some.rows[ours]], some.response[ours]
        asked = np.stack((key[~answers], time_ns[~answers]))
        _match(np.concatenate((before, asked), axis=1), key[answers], time_ns[answers], found)
        before = asked[:, ~np.isin(asked[0], key[answers])]
    return found


def _ways(streams: Streams, conversations: Sequence[Conversation]) -> dict[int, int]:
    """Slot of a stream to twice the index of its conversation, plus the way its requests go."""
    keys: dict[tuple[object, ...], int] = {}
    for i, one in enumerate(conversations):
        if one.service in STREAMS and one.near_qp >= 0 and one.service != "UC":
            there, back = (one.near, one.far, one.far_qp), (one.far, one.near, one.near_qp)
            for way, (requests, responses) in enumerate(((there, back), (back, there))):
                keys[one.service, *requests, False] = keys[one.service, *responses, True] = WAYS * i + way
    ends = {slot: (one.service, one.source, one.destination, one.dest_qp, one.response) for slot, one in enumerate(streams.ends)}
    return {slot: keys[key] for slot, key in ends.items() if key in keys}


def _match(asked: Int, answers: Int, time_ns: Int, found: dict[int, Times]) -> None:
    """Add the times of `answers` to `found`. `asked`: keys and times of requests, int64[2, n]."""
    if not len(answers) or not asked.shape[1]:
        return
    keys, first, count = np.unique(asked[0], return_index=True, return_counts=True)
    got, answered = np.unique(answers, return_index=True)
    at = np.minimum(np.searchsorted(keys, got), len(keys) - 1)
    took = time_ns[answered] - asked[1][first[at]]
    sure = (keys[at] == got) & (count[at] == 1) & (took >= 0)
    conversation = got >> (PSN_BITS + 1)
    for one in np.unique(conversation[sure]).tolist():
        found.setdefault(one, Times(Counter())).add(took[sure & (conversation == one)])
