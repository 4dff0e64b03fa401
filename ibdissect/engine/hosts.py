# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Who sends to whom: hosts, the lanes from one to the queue pairs of another, and which lanes have a number in common."""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64, u64
else:
    from .common import i64, u64


@cython.final
@cython.cclass
class Host:
    """An address in a network (`decode.networks`): what it sent and what was sent to it."""

    def __init__(self, hi: u64, lo: u64, network: i64, number: i64) -> None:
        self.hi, self.lo, self.network, self.number = hi, lo, network, number
        self.heard = self.first_time = self.last_time = self.last_frame = self.checked = self.wrong = 0


@cython.final
@cython.cclass
class Lane:
    """What `src` sends to queue pair `qpn` of `dst`; `requests` is the direction it asks in, `answers` the one it answers.

    `begun`, `begun_content`: PSN and hash of its first request; `front`: its highest PSN; `active`: when its last packet came;
    `over`: another connection has its queue pair; `way`, `back`: numbers of who sends to whom, as `Pairing` has them.
    """

    def __init__(self, key: u64, src: Host, dst: Host, qpn: i64, network: i64, order: i64) -> None:
        self.key, self.src, self.dst, self.qpn, self.network, self.order = key, src, dst, qpn, network, order
        self.first_frame = self.last_frame = self.first_time = self.last_time = self.packets = self.side = 0
        self.pkey = self.service = -1
        self.cnps = self.cnp_frame = self.cnp_last = self.checked = self.wrong = self.wrong_first = self.wrong_last = 0
        self.versions = 0
        self.settled = False
        self.peer = self.requests = self.answers = self.setup = self.stream = None
        self.backlog, self.hits = [], None
        self.first_asked = self.newest = self.first_answer = self.newest_answer = -1
        self.reads, self.crowd, self.claimant, self.claim, self.rival = False, 0, None, 0, 0
        self.begun = self.front = self.way = self.back = -1
        self.active = 0
        self.begun_content = 0
        self.long_reads = self.over = False


# -- lanes by a number


def join(index: dict[int, Any], key: i64, lane: Lane) -> cython.int:
    """Add a lane under a key, alone as it is, several in a dict; 1 if it was not there."""
    known = index.get(key)
    if known is None:
        index[key] = lane
    elif known is lane or (type(known) is dict and lane in known):
        return 0
    elif type(known) is dict:
        known[lane] = None
    else:
        index[key] = {known: None, lane: None}
    return 1


def living(known: dict[Any, None]) -> Any:
    """What the lanes of a key are without those that are over: one as it is, several in a dict, None if there are none."""
    live = {lane: None for lane in known if not lane.over}
    return live if len(live) > 1 else next(iter(live), None)


def leave(index: dict[int, Any], key: i64, lane: Lane) -> cython.int:
    """Take a lane away again."""
    known = index.get(key)
    if type(known) is dict:
        known.pop(lane, None)
        if not known:
            del index[key]
    elif known is lane:
        del index[key]
    return 0
