"""`Portrait`: a capture that was read for a report, with its findings, numbers, conversations and subnet.

One pass is enough, the same as for the screen (`screen_model`). Only decoded frames and ladders read single frames again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode.addresses import End, ends_of
from ibdissect.errors import CaptureError
from ibdissect.lint.finding import CaptureReport, Severity
from ibdissect.pipeline.capture_report import judge_reading
from ibdissect.pipeline.check import CheckOptions
from ibdissect.pipeline.reading import Progress
from ibdissect.report import first_of_each
from ibdissect.screen_model.background_analysis import BackgroundAnalysis, Snapshot
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.subnet import Subnet
from ibdissect.subnet.node_names import sure_names


class Portrait(Record):
    """A capture that was read to its end, and what was learnt from it."""

    model: CaptureModel
    study: BackgroundAnalysis
    shot: Snapshot
    report: CaptureReport
    name: Callable[[str], str]
    """The name to show for an address."""

    @property
    def subnet(self) -> Subnet:
        return self.study.subnet

    def ends(self, frames: Iterable[int]) -> dict[int, tuple[End, End]]:
        numbers = sorted(set(frames))
        return dict(zip(numbers, ends_of(self.model.table(numbers), np.arange(len(numbers))), strict=True)) if numbers else {}

    def over_time(self, steps: int) -> list[dict[str, int]]:
        """Every occurrence of findings by severity, for equal parts of the capture's time."""
        index, (frames, ranks) = self.model.index, self.model.findings.ranks()
        first, last = self.report.first_ns, self.report.last_ns
        # Records stand in order of time, or nearly so: look for the first frame of each part.
        times = range(1, index.frames + 1)
        edges = [bisect_left(times, first + (last - first) * i // steps, key=index.time_ns) + 1 for i in range(1, steps)]
        part = np.searchsorted(edges, frames, "right")
        counts = {level.value: np.bincount(part[ranks == level.rank], minlength=steps).tolist() for level in Severity}
        return [{level: counts[level][i] for level in counts} for i in range(steps)]

    def name_nodes(self, limit: int | None) -> None:
        """Give the first findings of each rule, so many, the names of nodes."""
        if self.study.options.names:
            names = sure_names([self.subnet])
            for finding in first_of_each(self.report.findings, limit):
                finding.message, finding.context = map(names.sentence, (finding.message, finding.context))


@contextmanager
def read(path: str, options: CheckOptions, kept: int | None = None, progress: Progress | None = None) -> Iterator[Portrait | CaptureReport]:
    """Check a capture and learn from it; the file stays open inside the `with`. A report alone for one that cannot be opened.

    `kept`: findings of a rule that get a sentence; the counts are exact.
    """
    try:
        model = CaptureModel(path, catalog=options.catalog, show_keys=options.show_keys)
    except CaptureError as error:
        yield CaptureReport(path=error.path, status="unreadable", error=str(error))
        return
    try:
        model.scan(lambda: None)
        broken = model.error
        study = BackgroundAnalysis(model, lambda: options, kept)

        def moved() -> None:
            if study.finished:
                study.close()
            if progress is not None:
                progress(study.done, model.index.reach * study.done // max(model.index.frames, 1))

        study.run(moved)
        names = sure_names([study.subnet]) if options.names and options.subnet is not None else None
        yield Portrait(model, study, study.snapshot(), _report(model, study, broken), names.address if names is not None else str)
    finally:
        model.close()


def _report(model: CaptureModel, study: BackgroundAnalysis, broken: str | None) -> CaptureReport:
    """What `lint` says of the same capture."""
    traffic, (first_ns, last_ns) = study.traffic.traffic, study.stories.times.span
    report = CaptureReport(
        path=model.reader.path, frames=study.done, checked=study.checked, infiniband=traffic.infiniband, undecoded=traffic.malformed,
        unnumbered=model.reading.masker.dropped.count, first_ns=first_ns, last_ns=last_ns,
        by_rule=dict(sorted(model.findings.by_rule.items())), findings=model.findings.first(),
        counts={level.value: count for level, count in model.findings.counts.items()},
    )  # fmt: skip
    for finding in report.findings:
        finding.capture = report.path
    judge_reading(report, model.reader, model.error or "")
    if broken:
        report.status = "unreadable"
    return report
