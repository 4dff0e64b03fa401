# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Who sends to whom: hosts, and the lanes from one to the queue pairs of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import i64, u64
else:
    if TYPE_CHECKING:
        i64 = u64 = int
    else:
        i64 = u64 = None


@cython.final
@cython.cclass
class Host:
    """An address: what it sent and what was sent to it."""

    def __init__(self, hi: u64, lo: u64, number: i64) -> None:
        self.hi, self.lo, self.number = hi, lo, number
        self.heard = self.first_time = self.last_time = self.last_frame = self.checked = self.wrong = 0


@cython.final
@cython.cclass
class Lane:
    """What `src` sends to queue pair `qpn` of `dst`; `requests` is the direction it asks in, `answers` the one it answers.

    `begun`, `begun_content`: PSN and hash of its first request; `front`: its highest PSN; `active`: when its last packet came;
    `over`: another connection has its queue pair.
    """

    def __init__(self, key: u64, pair: u64, src: Host, dst: Host, qpn: i64, network: i64, order: i64) -> None:
        self.key, self.pair, self.src, self.dst, self.qpn, self.network, self.order = key, pair, src, dst, qpn, network, order
        self.first_frame = self.last_frame = self.first_time = self.last_time = self.packets = self.side = 0
        self.pkey = self.pkeys = self.service = -1
        self.cnps = self.cnp_frame = self.cnp_last = self.checked = self.wrong = self.wrong_first = self.wrong_last = 0
        self.versions = self.version_frame = 0
        self.settled = False
        self.peer = self.requests = self.answers = self.setup = self.stream = None
        self.backlog, self.hits = [], None
        self.first_asked = self.newest = self.first_answer = self.newest_answer = -1
        self.reads, self.crowd, self.claimant, self.claim, self.rival = False, 0, None, 0, 0
        self.begun = self.front = -1
        self.active = 0
        self.begun_content = 0
        self.long_reads = self.over = False
