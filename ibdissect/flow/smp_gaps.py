"""Which exchanges of a subnet manager did the capture miss as a whole, although transaction ids count them?

A manager numbers its requests: the high half of the transaction id names the program, the low half counts. If the capture
pauses, and the count has gone on meanwhile, it lost requests together with their answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from msgspec import Struct as Record
from msgspec import field

from ibdissect.dropped import Dropped
from ibdissect.table.locate import Bool, Int
from ibdissect.table.table import ChunkTable
from ibdissect.wire.numbers import GET_RESP, PERMISSIVE, SMP_CLASSES

from .datagrams import ASKS, Datagrams
from .loss_times import SECOND_NS

MAX_PROGRAMS = 256
MAX_GAPS = 128
"""A program with so many steps does not send its requests in the order of their ids."""
RECENT = 4096
"""Ids remembered, to recognise those of other agents."""
COUNTED, RUN = 8, 2
"""A program counts by one if the capture shows so many ids for each step, and for so many steps at least."""
FARTHEST = 4096
"""A larger step is another run of the program."""
OWN_PORT = 8
"""Requests in a row that a manager may send to its own port; most captures do not show these."""
SAMPLES = 64
"""Times between ids whose median is the pace of a program."""
PATIENCE = 0.75
"""A pause must last this part of the time that the lost exchanges usually take."""
HALF, HOPS_AT = 32, 56
"""Bits of half an id; where `Datagrams.route` has the number of hops."""


class Step(Record):
    """The count went on by more than one."""

    low: int
    high: int
    """The ids before and after it."""
    from_ns: int
    until_ns: int
    pause_ns: int
    """The longest time without a packet in between."""
    late: int = 0
    """A bit for each id in between that another agent of the program used, or that was recorded later."""

    def shown(self, one: int) -> None:
        """The capture shows an id in between."""
        self.late |= 1 << (one - self.low)

    @property
    def lacking(self) -> int:
        """Number of ids that the capture does not show."""
        return self.high - self.low - 1 - self.late.bit_count()


class Program(Record):
    """The ids of one program since it began to count."""

    first: int
    highest: int
    """The highest id so far."""
    time_ns: int
    """When it was first seen."""
    pause_ns: int = 0
    """The longest time without a packet since then, in earlier chunks."""
    steps: list[Step] = field(default_factory=list)
    paces: list[int] = field(default_factory=list)
    """Some times between an id and the next, in ns."""
    to_itself: bool = False
    """The capture shows requests to its own port."""
    earlier: list[Step] = field(default_factory=list)
    """The latest of its `pauses` from before it began to count anew."""

    @property
    def disorderly(self) -> bool:
        """Whether it does not send its requests in the order of their ids: nothing more is learnt about it."""
        return len(self.steps) >= MAX_GAPS

    def goes_on(self, low: int, time_ns: int, pause_ns: int, known: Int) -> None:
        """The count goes on to `low`, after a pause; `known`: ids that other agents of the program may have used."""
        step = Step(self.highest, low, self.time_ns, time_ns, pause_ns)
        for other in set(known[(known > self.highest) & (known < low)].tolist()):
            step.shown(other)
        self.steps.append(step)

    def comes_late(self, low: int) -> None:
        """An id that is not higher than the highest one."""
        for step in () if self.disorderly else reversed(self.steps):
            if step.low < low < step.high:
                step.shown(low)
            if low >= step.low:
                break

    def pauses(self) -> Iterator[Step]:
        """The steps during which the capture paused; none if it does not send requests in the order of their ids."""
        steps = [step for step in self.steps if step.lacking]
        shown = self.highest - self.first + 1 - sum(step.lacking for step in steps)
        pace = sorted(self.paces)[len(self.paces) // 2] if self.paces else 0
        orderly = not self.disorderly and shown >= COUNTED * max(len(steps), RUN)
        for step in steps if orderly else ():
            if step.pause_ns >= PATIENCE * (step.lacking + 0.5) * pace:
                yield step

    def gaps(self) -> Iterator[Step]:
        """The steps that are certainly losses of the capture."""
        for step in (*self.earlier, *self.pauses()):
            if self.to_itself or step.lacking > OWN_PORT:
                yield step


class SmpGaps:
    """The transaction ids of subnet managers and of tools like them. One per capture; feed chunks in order, ask at any time."""

    def __init__(self) -> None:
        self.programs: dict[int, Program] = {}
        """By the high half of their ids; those with the latest ids are at the end."""
        self.dropped = Dropped("programs whose transaction ids have gaps")
        self.recent: Int = np.full(RECENT, -1, np.int64)
        """The latest ids: their low halves, as a program may have one count for several agents (libibmad)."""
        self._last_ns = 0

    def feed(self, table: ChunkTable) -> None:
        """Process a chunk."""
        times = table.chunk.time_ns
        if not len(times):
            return
        pauses = np.diff(times, prepend=self._last_ns or times[0])
        self._last_ns = int(times[-1])
        mads = table.once(Datagrams)
        lows = (mads.transaction & np.uint64((1 << HALF) - 1)).astype(np.int64)
        recent = np.concatenate([self.recent, lows])
        counts = np.isin(mads.mgmt_class, list(SMP_CLASSES)) & (ASKS[mads.method] | (mads.method == GET_RESP))
        index = np.flatnonzero(counts)
        index = index[np.sort(np.unique(mads.transaction[index], return_index=True)[1])]
        highs = mads.transaction[index] >> np.uint64(HALF)
        index = index[np.argsort(highs, kind="stable")]
        breaks = np.flatnonzero((np.diff(mads.transaction[index]) != 1) | (lows[index[1:]] == 0)) + 1
        latest: dict[int, int] = {}
        for start, stop in pairwise([0, *breaks.tolist(), len(index)]) if len(index) else ():
            self._count(mads, lows, index[start:stop], pauses, recent, latest)
        self.recent = recent[-RECENT:]
        self._forget(latest, int(table.chunk.first), self._last_ns)
        for high, program in self.programs.items():
            rest = pauses[latest[high] + 1 :] if high in latest else pauses
            program.pause_ns = max(0 if high in latest else program.pause_ns, int(rest.max(initial=0)))
        for high in _to_themselves(mads, counts):
            if high in self.programs:
                self.programs[high].to_itself = True

    def _forget(self, latest: dict[int, int], frame: int, time_ns: int) -> None:
        """Drop the programs that have been silent for longest."""
        for high in sorted(latest, key=latest.__getitem__):
            self.programs[high] = self.programs.pop(high)
        for high in [*self.programs][:-MAX_PROGRAMS]:
            gone = self.programs.pop(high)
            if gone.steps or gone.earlier:
                self.dropped.add(frame, time_ns)

    def _count(self, mads: Datagrams, lows: Int, index: Int, pauses: Int, recent: Int, latest: dict[int, int]) -> None:
        """Datagrams of one program whose ids ascend by one. `latest`: rows of the chunk at which programs reached their highest id."""
        start, high = int(index[0]), int(mads.transaction[index[0]]) >> HALF
        low, row, time_ns = int(lows[start]), int(mads.rows[start]), int(mads.times[start])
        program = self.programs.get(high)
        if program is None:
            program = self.programs[high] = Program(low, low, time_ns)
            latest[high] = row
        elif not program.first - FARTHEST <= low <= program.highest + FARTHEST:
            earlier = [*program.earlier, *program.pauses()][-MAX_GAPS:]
            program = self.programs[high] = Program(low, low, time_ns, to_itself=program.to_itself, earlier=earlier)
            latest[high] = row
        elif low > program.highest + 1 and not program.disorderly:
            before = program.pause_ns if high not in latest else 0
            pause = max(before, int(pauses[latest.get(high, -1) + 1 : row + 1].max()))
            program.goes_on(low, time_ns, pause, recent[start : start + RECENT])  # those before `start`
        elif low <= program.highest and program.steps:
            for late in lows[index].tolist():
                program.comes_late(late)
        fresh = index[max(program.highest + 1 - low, 0) :]
        if len(fresh):
            if len(program.paces) < SAMPLES and not program.disorderly:
                paces = np.diff(mads.times[fresh], prepend=program.time_ns)[int(lows[fresh[0]] != program.highest + 1) :]
                program.paces += paces[: SAMPLES - len(program.paces)].tolist()
            program.highest, program.time_ns = int(lows[fresh[-1]]), int(mads.times[fresh[-1]])
            latest[high] = int(mads.rows[fresh[-1]])

    def seconds(self) -> Iterator[tuple[int, int]]:
        """First and last second of each time in which exchanges were missed."""
        for program in self.programs.values():
            yield from ((step.from_ns // SECOND_NS, step.until_ns // SECOND_NS) for step in program.gaps())


def _to_themselves(mads: Datagrams, counts: Bool) -> list[int]:
    """The programs that sent a request to their own port, or got its answer."""
    local = (mads.source.low == mads.destination.low) & (mads.source.low != PERMISSIVE)
    local[mads.directed] = (mads.route[:, 0] >> np.uint64(HOPS_AT)) == 0
    return sorted({*(mads.transaction[local & counts] >> np.uint64(HALF)).tolist()})
