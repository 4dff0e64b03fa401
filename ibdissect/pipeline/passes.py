"""The passes of a check over a capture: their order, and what each needs and gives.

A capture is read once; some of it is read again for what only its end could show: subnets that are mixed, findings about early frames, and
the numbers of keys. `PLAN` lists all passes; each says whether a capture needs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from msgspec.structs import replace

from ibdissect.capture.windows import allow_reads
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.conversation_values import depended
from ibdissect.decode.equal_rows import is_in
from ibdissect.errors import IbdissectError
from ibdissect.failures import Failures
from ibdissect.lint.finding import CaptureReport, Finding, Severity
from ibdissect.lint.linter import Linter
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.separate_subnets import SubnetSeparator

from .capture_report import count_frames, judge_reading
from .check_options import CheckOptions, Stop
from .make_linter import is_mixed, linter_of, listed_ports
from .passed_frames import PassedFrames
from .reading import Progress, Reading, tables_before, tables_with

if TYPE_CHECKING:
    from ibdissect.subnet.node_names import NodeNames


class CheckRun:
    """What the passes of a check share."""

    def __init__(self, reading: Reading, options: CheckOptions, failures: Failures, progress: Progress | None, stop: Stop) -> None:
        self.reading, self.failures, self.progress, self.stop = reading, failures, progress, stop
        reader = reading.reader
        self.once = not reader.rereadable or reader.far
        """Whether the capture can be read only once: then keys are numbered in the same pass."""
        if self.once and not options.division.numbers:
            options = replace(options, division=replace(options.division, once=True))
        self.passed = PassedFrames() if self.once else None
        """Frames that a late finding may be about, if they cannot be read again."""
        self.separator: SubnetSeparator | None = None
        """Learns which address is of which subnet, once two are noticed."""
        self.separated_from = 1
        """The first frame that `separator` was fed."""
        self.again = False
        """Whether the subnets are known by now, and all frames have to be judged once more."""
        self.begin(options)

    def begin(self, options: CheckOptions) -> None:
        """Begin the check from its first frame, with these options."""
        self.options = options
        self.report = CaptureReport(path=self.reading.path, phases=None if self.reading.reader.rereadable else 1)
        self.fresh: list[Finding] = []
        """Findings whose frame is not described yet."""
        self.linter = linter_of(options, self.reading, self.failures, on_finding=self.fresh.append)
        self.last: ChunkTable | None = None
        """The table that was read last."""

    def describe(self, table: ChunkTable, frames: Int | None = None) -> None:
        """Describe the findings about frames of a table."""
        describe(self.fresh, table, self.reading, self.linter, frames)


class Pass(ABC):
    """One way through a capture, or through what the passes before left."""

    needs: ClassVar[frozenset[type[Pass]]] = frozenset()
    """Passes that come before it."""
    reads: ClassVar[str]
    """Which windows of the capture it reads."""

    def wanted(self, run: CheckRun) -> bool:
        """Whether a check needs it."""
        return True

    @abstractmethod
    def carry_out(self, run: CheckRun) -> None: ...


class Judge(Pass):
    """Rules judge every frame. Gives findings, counts of frames, and whether subnets are mixed."""

    reads = "all windows"

    def carry_out(self, run: CheckRun) -> None:
        reading, options, linter = run.reading, run.options, run.linter
        ahead = options.threads > 1 and reading.reader.rereadable and not options.timing
        reading.joins = run.once or options.selection is not None or bool(reading.catalog.streams or depended(reading.catalog))
        edges = options.selection.edges if options.selection is not None else ()
        prepare = linter.prepare if ahead else None
        try:
            for table in reading.tables(keys=run.once, progress=run.progress, prepare=prepare, edges=edges, first=linter.leave_out):
                self._judge(run, table)
                if run.stop():
                    break
        except IbdissectError:
            raise
        except Exception as error:  # keep the findings so far
            run.failures.add("the check", error)

    @staticmethod
    def _judge(run: CheckRun, table: ChunkTable) -> None:
        reading, options, linter = run.reading, run.options, run.linter
        run.last = table
        selected = options.selection.rows(table) if options.selection is not None else None
        linter.context.damage = reading.damage
        linter.feed(table, selected)
        run.describe(table)
        run.fresh[:] = undescribed(run.fresh)
        if run.passed is not None:
            run.passed.feed(table, linter.awaited())
        count_frames(run.report, table, selected, linter.rules)
        if run.separator is None and is_mixed(linter) and not options.division.numbers and not run.once:
            run.separator, run.separated_from = SubnetSeparator(options.division, listed_ports(options)), table.chunk.first
        if run.separator is not None:
            run.separator.feed(reading.table_of(table.chunk) if linter.left_out(table) else table)


class Separate(Pass):
    """Two subnets were noticed: which address is of which? Gives options with the subnets, for a check from the beginning."""

    needs = frozenset({Judge})
    reads = "the windows before two subnets were noticed"

    def wanted(self, run: CheckRun) -> bool:
        return run.separator is not None and is_mixed(run.linter) and not run.stop()

    def carry_out(self, run: CheckRun) -> None:
        assert run.separator is not None
        for before in tables_before(run.reading, run.separated_from):
            run.separator.feed(before)
            if run.stop():
                break
        division = run.separator.division()
        run.separator = None
        if division.numbers and not run.stop():
            run.linter.close()
            run.begin(replace(run.options, division=division))
            run.again = True


class JudgeEachSubnet(Judge):
    """Rules judge every frame again, those of each subnet by its own facts."""

    needs = frozenset({Separate})

    def wanted(self, run: CheckRun) -> bool:
        return run.again


class Settle(Pass):
    """What waited for the end of the capture is judged. Gives all findings."""

    needs = frozenset({Judge, JudgeEachSubnet})
    reads = "nothing"

    def carry_out(self, run: CheckRun) -> None:
        reading, context = run.reading, run.linter.context
        context.damage = reading.damage
        if run.stop():
            run.report.status = "interrupted"
            allow_reads()  # a later pass still numbers the keys of the whole capture
            # An interrupted read looks like the end of the file.
            context.damage = [damage for damage in reading.damage if damage.kind != "cut-off"]
        run.report.findings = run.linter.finish()
        if run.last is not None:
            run.describe(run.last)
        run.fresh[:] = undescribed(run.fresh)


class Describe(Pass):
    """Late findings get the ends and the summary line of their frames."""

    needs = frozenset({Settle})
    reads = "the windows that hold these frames; of a capture that can be read only once, what was kept of them"

    def wanted(self, run: CheckRun) -> bool:
        return bool(run.fresh)

    def carry_out(self, run: CheckRun) -> None:
        frames = sorted(one.frame for one in run.fresh)
        if run.passed is not None:
            chunk, numbers = run.passed.chunk(frames)
            run.describe(run.reading.table_of(chunk, numbers.tolist()), numbers)
            for one in run.fresh:
                one.starts = None
        elif not run.stop():
            for before in tables_with(run.reading, frames):
                run.describe(before, before.chunk.first + np.arange(len(before)))


class NumberKeys(Pass):
    """Keys that findings show get their numbers, in the order of the capture."""

    needs = frozenset({Settle})
    reads = "all windows"

    def wanted(self, run: CheckRun) -> bool:
        hidden = not run.once and not run.reading.show_keys
        return hidden and any(secret.value for finding in run.report.findings for secret in finding.secrets())

    def carry_out(self, run: CheckRun) -> None:
        run.reading.number_keys()


class WordFindings(Pass):
    """Findings get their severity and sentence, and the report its sums."""

    needs = frozenset({Describe, NumberKeys})
    reads = "nothing"

    def carry_out(self, run: CheckRun) -> None:
        report, options, linter = run.report, run.options, run.linter
        word_findings(run)
        run.reading.joins = True
        report.by_rule = {code: tally.count for code, tally in sorted(linter.tally.items()) if tally.count}
        totals = options.totals(linter)
        report.counts = {level.value: totals[level] for level in Severity}
        report.seconds = {code: tally.seconds for code, tally in linter.tally.items()} if options.timing else {}
        judge_reading(report, run.reading.reader, run.failures.text() if run.failures else "")
        linter.close()


PLAN: tuple[type[Pass], ...] = (Judge, Separate, JudgeEachSubnet, Settle, Describe, NumberKeys, WordFindings)


def carry_out(run: CheckRun) -> CaptureReport:
    """All passes that a capture needs."""
    for each in PLAN:
        step = each()
        if step.wanted(run):
            step.carry_out(run)
    return run.report


def word_findings(run: CheckRun) -> None:
    """Give all findings their severity and sentence."""
    report, reading, options, linter = run.report, run.reading, run.options, run.linter
    report.unnumbered = reading.masker.dropped.count
    if not report.findings:
        return
    from .senders_and_receivers import name_ends  # a clean capture needs none of it

    follower = linter.context.sources.get(FabricFollower)
    names = names_of(linter) if options.names else None
    for finding in report.findings:
        finding.capture = report.path
        finding.severity = options.severity_of(options.by_code[finding.code], finding.severity)
        try:
            reading.finish(finding)
            name_ends([finding], options.by_code, follower)
            if names is not None:
                finding.message, finding.context = map(names.sentence, (finding.message, finding.context))
        except Exception as error:  # the message cannot be formatted
            run.failures.add(f"rule {finding.code}", error, finding.frame)
            finding.message = finding.stable = finding.name
            finding.value, finding.arguments = None, {}


def names_of(linter: Linter) -> NodeNames:
    """The names of nodes that a checked capture shows, with those that files give; none if it mixes subnets that were not told apart."""
    from ibdissect.subnet.node_names import sure_names

    followers = [part.context.sources.get(FabricFollower) for part in (linter, *linter.parts.values())]
    return sure_names([one.subnet for one in followers if one is not None and not one.unreliable])


def describe(findings: list[Finding], table: ChunkTable, reading: Reading, linter: Linter, frames: Int | None = None) -> None:
    """Add both ends and the summary line of its frame, and where that starts in the file, to each finding, while the chunk is in memory.

    `frames`: the number of each row of a table that is whole; None: it holds its chunk, of which the linter may have left some out.
    """
    if not findings:
        return
    from .senders_and_receivers import describe  # a clean capture does not need it

    numbers = table.chunk.first + np.arange(len(table)) if frames is None else frames
    index = np.flatnonzero(is_in(numbers, np.array(sorted({finding.frame for finding in findings}), np.int64)))
    left_out = np.empty(0, np.int64) if frames is not None else table.once(linter.copies.leave_out).rows
    lines = describe(reading.table_of(table.chunk) if is_in(index, left_out).any() else table, index)
    rows = {int(numbers[row]): row for row in index.tolist()}
    for finding in findings:
        if (row := rows.get(finding.frame)) is not None:
            finding.who, finding.context = lines[row]
            if reading.reader.members or not reading.reader.packed:
                finding.starts = table.chunk.base + int(table.chunk.offset[row])


def undescribed(findings: list[Finding]) -> list[Finding]:
    """Those whose frame was in none of the described tables."""
    return [one for one in findings if one.frame and not one.context]
