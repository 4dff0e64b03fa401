"""Exchanges of a subnet manager that the capture missed as a whole, although transaction ids count them.

A manager numbers its requests: the high half of the transaction id names the program, the low half counts. If nothing is captured for a
while but the count goes on, the capture lost requests together with their answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from msgspec import Struct as Record
from msgspec import field

from ibdissect.bounded import BoundedDict, Dropped
from ibdissect.capture.gather import flags
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.equal_rows import SPREAD, U64, run_starts
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import ProgramId
from ibdissect.wire.numbers import GET_RESP, PERMISSIVE, SMP_CLASSES

from .datagrams import ASKS, Datagrams

MAX_PROGRAMS = 256
MAX_GAPS = 128
"""Steps after which a program is taken to send its requests in another order than that of their ids."""
RECENT = 4096
"""Ids remembered, to recognise those of other agents."""
COUNTED, RUN = 8, 2
"""The transaction ids of a program are trusted to count by one if there are at least RUN gaps, and at least COUNTED ids for each gap."""
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
_OF_SMPS = flags(SMP_CLASSES)


class TransactionIdGap(Record):
    """A place where the count rose by more than one."""

    low: int
    high: int
    """The ids before and after it."""
    from_ns: int
    until_ns: int
    pause_ns: int
    """The longest time without a packet in between."""
    late: int = 0
    """Bit mask of the ids in between that another agent of the program used, or that were recorded later."""

    def note_shown(self, one: int) -> None:
        """Note that the capture shows an id in between."""
        self.late |= 1 << (one - self.low)

    @property
    def lacking(self) -> int:
        """Number of ids that the capture does not show."""
        return self.high - self.low - 1 - self.late.bit_count()


class TransactionIdSequence(Record):
    """The ids of one program since it began to count."""

    first: int
    highest: int
    """The highest id so far."""
    time_ns: int
    """When it was first seen."""
    pause_ns: int = 0
    """The longest time without a packet since then, in earlier chunks."""
    steps: list[TransactionIdGap] = field(default_factory=list)
    paces: list[int] = field(default_factory=list)
    """Some times between an id and the next, in ns."""
    to_itself: bool = False
    """The capture shows requests to its own port."""
    earlier: list[TransactionIdGap] = field(default_factory=list)
    """The latest of its `pauses` from before its count restarted."""

    @property
    def disorderly(self) -> bool:
        """Whether it does not send its requests in the order of their ids: nothing more is learnt about it."""
        return len(self.steps) >= MAX_GAPS

    def count_on(self, low: int, time_ns: int, pause_ns: int, known: Int) -> None:
        """Count on to `low`, after a pause; `known`: ids that other agents of the program may have used."""
        step = TransactionIdGap(self.highest, low, self.time_ns, time_ns, pause_ns)
        for other in set(known[(known > self.highest) & (known < low)].tolist()):
            step.note_shown(other)
        self.steps.append(step)

    def note_late(self, low: Int) -> None:
        """Note ids, of which some may lie in between."""
        place = np.searchsorted([edge for step in self.steps for edge in (step.low, step.high - 1)], low)
        between = place % 2 > 0
        for i, one in zip((place[between] // 2).tolist(), low[between].tolist(), strict=True):
            self.steps[i].note_shown(one)

    def pauses(self) -> Iterator[TransactionIdGap]:
        """The steps during which the capture paused; none if it does not send requests in the order of their ids,
        or if its requests have equal times."""
        steps = [step for step in self.steps if step.lacking]
        shown = self.highest - self.first + 1 - sum(step.lacking for step in steps)
        pace = sorted(self.paces)[len(self.paces) // 2] if self.paces else 0
        orderly = not self.disorderly and pace and shown >= COUNTED * max(len(steps), RUN)
        for step in steps if orderly else ():
            if step.pause_ns >= PATIENCE * (step.lacking + 0.5) * pace:
                yield step

    def gaps(self) -> Iterator[TransactionIdGap]:
        """The steps that are certainly losses of the capture."""
        for step in (*self.earlier, *self.pauses()):
            if self.to_itself or step.lacking > OWN_PORT:
                yield step


class SmpIds(Record, frozen=True, eq=False):
    """The datagrams of a chunk: arrays with one entry for each."""

    ids: U64
    """Transaction ids, whose upper half is of one program in all networks (`ProgramId`)."""
    low: Int
    """Their lower halves."""
    row: Int
    time_ns: Int
    local: Bool
    """It is a request of a program to its own port, or the answer."""
    pauses: Int
    """By row of the chunk: the time since the frame before it."""
    recent: Int
    """The low halves, preceded by those of `RECENT` earlier datagrams."""
    latest: dict[ProgramId, int]
    """Rows of the chunk at which programs reached their highest id so far."""
    late: list[tuple[TransactionIdSequence, Int]]
    """Ids that are below the highest one of their program, and not looked at yet."""


class SmpGaps:
    """The transaction ids of subnet managers and of tools like them. One per capture; feed chunks in order, ask at any time."""

    def __init__(self) -> None:
        self.programs = BoundedDict[ProgramId, TransactionIdSequence](MAX_PROGRAMS)
        """By the high half of their ids; those with the latest ids are at the end."""
        self.dropped = Dropped("programs whose transaction ids have gaps")
        self.recent: Int = np.full(RECENT, -1, np.int64)
        """The latest ids: their low halves, as a program may have one count for several agents (libibmad)."""
        self._last_ns = 0

    def feed(self, table: ChunkTable) -> Int:
        """Process a chunk; returns the time since the frame before, by row: 0 for frames without time and the first one with a time."""
        if not len(table):
            return np.empty(0, np.int64)
        mads, (times, pauses) = table.once(Datagrams), self._times(table.chunk.time_ns)
        low = (mads.transaction & np.uint64((1 << HALF) - 1)).astype(np.int64)
        counts = _OF_SMPS[mads.mgmt_class] & (ASKS[mads.method] | (mads.method == GET_RESP)) & (times[mads.rows] > 0)
        ids = mads.transaction ^ mads.source.network * SPREAD >> np.uint64(HALF) << np.uint64(HALF)
        asked = SmpIds(
            ids, low, mads.rows, times[mads.rows], _to_themselves(mads) & counts, pauses,
            np.concatenate([self.recent, low]), {}, [],
        )  # fmt: skip
        index = self._in_turn(asked, np.flatnonzero(counts))
        breaks = np.flatnonzero((np.diff(asked.ids[index]) != 1) | (low[index[1:]] == 0)) + 1
        for start, stop in pairwise([0, *breaks.tolist(), len(index)]) if len(index) else ():
            self._count(asked, index[start:stop], table.chunk.first)
        for program, late in asked.late:
            program.note_late(late)
        self.recent = asked.recent[-RECENT:]
        self._last_ns = int(times[-1])
        for number in sorted(asked.latest.keys() & self.programs.keys(), key=asked.latest.__getitem__):
            self.programs.move_to_end(number)
        for number, program in self.programs.items():
            rest = pauses[asked.latest.get(number, -1) + 1 :]
            program.pause_ns = max(0 if number in asked.latest else program.pause_ns, int(rest.max(initial=0)))
        return pauses

    def _times(self, times: Int) -> tuple[Int, Int]:
        """The time of each frame, that of the frame before it if it has none; 0 before the first one. And the time since that frame."""
        if int(times.min()) > 0 and self._last_ns > 0:  # as a rule
            return times, np.diff(times, prepend=self._last_ns)
        if int(times.min()) <= 0:
            known = np.maximum.accumulate(np.where(times > 0, np.arange(len(times)), -1))
            times = np.where(known >= 0, times[known], self._last_ns)
        before = np.append(self._last_ns, times[:-1])
        return times, np.where(before > 0, times - before, 0)

    def _in_turn(self, asked: SmpIds, index: Int) -> Int:
        """The datagrams to look at: program by program and each id once, or all in order if that may make a difference."""
        ids, local = asked.ids[index], asked.local[index]
        order = np.argsort(ids >> np.uint64(HALF), kind="stable")
        by_program = ids[order]
        if not len(ids) or self._calm(by_program):
            once = np.zeros(len(ids), np.bool_)
            for some in (np.arange(len(ids)), np.flatnonzero(local[order])):
                once[some[np.unique(by_program[some], return_index=True)[1]]] = True
            return self._counting_on(asked, index[order[once]])
        again: Bool = np.append(True, (ids[1:] != ids[:-1]) | local[1:])
        return index[again]

    def _counting_on(self, asked: SmpIds, index: Int) -> Int:
        """Those that count on, of datagrams that are given program by program. Ids that come late are left for `asked.late`."""
        high, on = asked.ids[index] >> np.uint64(HALF), [index[:0]]
        for start, stop in pairwise([*run_starts(high).tolist(), len(index)]) if len(index) else ():
            number, some = ProgramId(int(high[start])), index[start:stop]
            program, low = self.programs.get(number), asked.low[some]
            if program is not None:
                program.to_itself |= bool(asked.local[some].any())
                if program.disorderly:
                    self._reach(asked, number, program, int(some[low.argmax()]))
                    continue
                new = low > np.maximum.accumulate(np.append(program.highest, low[:-1]))
                asked.late.append((program, low[~new]))
                some = some[new]
            on.append(some)
        return np.concatenate(on)

    def _reach(self, asked: SmpIds, number: ProgramId, program: TransactionIdSequence, index: int) -> None:
        """The program counts on, up to the id of a datagram, unless it reached a higher one before."""
        low = int(asked.low[index])
        if low > program.highest:
            program.highest, program.time_ns = low, int(asked.time_ns[index])
            asked.latest[number] = int(asked.row[index])
            self.programs.move_to_end(number)

    def _calm(self, ids: U64) -> bool:
        """Whether no program restarts or is evicted; `ids`: program by program."""
        high = (ids >> np.uint64(HALF)).astype(np.int64)
        starts = run_starts(high)
        first, lowest = ((column & np.uint64((1 << HALF) - 1)).tolist() for column in (ids[starts], np.minimum.reduceat(ids, starts)))
        seen = high[starts].tolist()
        if len(self.programs.keys() | seen) > self.programs.limit:
            return False
        programs = [self.programs.get(number) or TransactionIdSequence(low, low, 0) for number, low in zip(seen, first, strict=True)]
        for program, low, least in zip(programs, first, lowest, strict=True):
            if low > program.highest + FARTHEST or least < program.first - FARTHEST:
                return False
        reached = ids.copy()  # the highest id so far
        known = [number << HALF | program.highest for number, program in zip(seen, programs, strict=True)]
        reached[starts] = np.maximum(ids[starts], np.array(known, np.uint64))
        jumps = ids[1:] > np.maximum.accumulate(reached)[:-1] + np.uint64(FARTHEST)
        jumps[starts[1:] - 1] = False
        return not jumps.any()

    def _count(self, asked: SmpIds, index: Int, first: int) -> None:
        """Datagrams of one program whose ids ascend by one, in a chunk whose first frame is `first`."""
        start, latest = int(index[0]), asked.latest
        high, low = ProgramId(int(asked.ids[start]) >> HALF), int(asked.low[start])
        row, time_ns = int(asked.row[start]), int(asked.time_ns[start])
        program = self.programs.get(high)
        if program is None:
            program = TransactionIdSequence(low, low, time_ns)
            gone = self.programs.put(high, program)
            if gone is not None and (gone[1].steps or gone[1].earlier):
                self.dropped.add(first + row, time_ns)
            latest[high] = row
        elif not program.first - FARTHEST <= low <= program.highest + FARTHEST:
            earlier = [*program.earlier, *program.pauses()][-MAX_GAPS:]
            program = self.programs[high] = TransactionIdSequence(low, low, time_ns, to_itself=program.to_itself, earlier=earlier)
            latest[high] = row
            self.programs.move_to_end(high)
        elif low > program.highest + 1 and not program.disorderly:
            before = program.pause_ns if high not in latest else 0
            pause = max(before, int(asked.pauses[latest.get(high, -1) + 1 : row + 1].max(initial=0)))
            program.count_on(low, time_ns, pause, asked.recent[start : start + RECENT])  # those before `start`
        elif low <= program.highest and program.steps and not program.disorderly:
            program.note_late(asked.low[index])
        program.to_itself = program.to_itself or bool(asked.local[index].any())
        fresh = index[max(program.highest + 1 - low, 0) :]
        if len(fresh):
            if len(program.paces) < SAMPLES and not program.disorderly:
                paces = np.diff(asked.time_ns[fresh], prepend=program.time_ns)[int(asked.low[fresh[0]] != program.highest + 1) :]
                program.paces += paces[: SAMPLES - len(program.paces)].tolist()
            self._reach(asked, high, program, int(fresh[-1]))

    def seconds(self) -> Iterator[tuple[int, int]]:
        """First and last second of each time in which exchanges were missed."""
        for program in self.programs.values():
            yield from ((step.from_ns // SECOND_NS, step.until_ns // SECOND_NS) for step in program.gaps())


def _to_themselves(mads: Datagrams) -> Bool:
    """The requests of programs to their own port, and the answers to these."""
    local = (mads.source.low == mads.destination.low) & (mads.source.low != PERMISSIVE)
    local[mads.directed] = (mads.route[:, 0] >> np.uint64(HOPS_AT)) == 0
    found: Bool = local
    return found
