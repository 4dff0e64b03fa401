"""The report of a capture beside its findings: what was read, whether all of it was, and what failed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ibdissect.capture.chunk import LINK_NAMES, Reader
from ibdissect.capture.file_names import Unit
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.inner_structures import of_plugins
from ibdissect.lint.finding import CaptureReport
from ibdissect.lint.rule import Rule
from ibdissect.shown_urls import public_name


def judge_reading(report: CaptureReport, reader: Reader, failed: str) -> None:
    """Say what was read, whether all of it was, and what failed."""
    report.link_types = [LINK_NAMES.get(link, f"link type {link}") for link in reader.link_types]
    report.members = tuple(reader.members)
    broken = [damage for damage in reader.damage if damage.kind != "missing"]
    if broken and report.status == "ok":
        report.status = "truncated" if all(d.kind == "cut-off" for d in broken) else "damaged"
    errors = [f"{damage.file or report.path}: {damage.reason}" for damage in broken if damage.unread]
    if (failed and report.status != "interrupted") or any(damage.kind == "unreadable" for damage in broken):
        report.status = "failed"
    if failed:
        errors.append(f"{report.path}: {failed}")
    report.error = "; ".join(errors) or None


def _judged(table: ChunkTable, rules: Iterable[Rule]) -> Bool:
    """The frames that rules judge: packets of InfiniBand or RoCE, and what plugins declare that have rules."""
    judged = ~table.located.without_infiniband
    if not judged.all() and any(not rule.of_code or not type(rule).__module__.startswith("ibdissect.") for rule in rules):
        judged |= table.once(of_plugins)
    return judged


def count_frames(report: CaptureReport, table: ChunkTable, selected: Bool | None, rules: Iterable[Rule]) -> None:
    """Count frames, those selected, those with InfiniBand headers, and malformed ones; from when to when they were sent."""
    located, times = table.located, table.chunk.time_ns
    known = times[times > 0]
    if len(known):
        report.first_ns = min(report.first_ns or int(known.min()), int(known.min()))
        report.last_ns = max(report.last_ns, int(known.max()))
    report.frames += len(times)
    starts = [located.start[name] >= 0 for name in ("lrh", "bth") if name in located.start]
    if starts:
        report.infiniband += int(np.count_nonzero(np.logical_or.reduce(starts)))
    report.undecoded += int(np.count_nonzero(located.malformed))
    report.checked += len(table) if selected is None else int(np.count_nonzero(selected))
    judged = _judged(table, rules)
    report.judged += int(np.count_nonzero(judged if selected is None else judged & selected))


def killed(path: Unit) -> CaptureReport:
    """The report of a capture whose check ran out of memory, or was killed."""
    name = public_name(str(path))
    return CaptureReport(path=name, status="unreadable", error=f"{name}: the process that checked it died")
