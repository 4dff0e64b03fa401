"""Findings as JSON: schema 1, as documented."""

from __future__ import annotations

import json
from typing import Any

from ibdissect.lint.finding import CaptureReport, Finding
from ibdissect.lint.set_members import members_object
from ibdissect.version import VERSION
from ibdissect.wire.text import visible_json

from . import Run, totals

SCHEMA = 1


def finding_object(finding: Finding) -> dict[str, Any]:
    """One finding, keys in the documented order."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "capture": finding.capture,
        "frame": finding.frame,
        **({"file": finding.file, "file_frame": finding.file_frame} if finding.file else {}),
        "time_ns": finding.time_ns,
        "message": finding.message,
        "field": finding.field,
        "value": finding.value,
        "spans": [{"frame": s.frame, "offset": s.offset, "length": s.length} for s in finding.spans],
        "related": [{"frame": r.frame, "why": r.why, **({"file": r.file, "line": r.line} if r.file else {})} for r in finding.related],
        "evidence": finding.evidence.value,
        "count": finding.count,
        "reference": finding.reference,
    }


def capture_object(report: CaptureReport) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "path": report.path,
        "frames": report.frames,
        "checked": report.checked,
        "first_ns": report.first_ns,
        "last_ns": report.last_ns,
        "link_types": report.link_types,
        "status": report.status,
        "error": report.error,
        "left_out": report.left_out,
    }
    entry |= members_object(report.members)
    if report.phases is not None:
        entry["phases"] = report.phases
    return entry


def json_text(reports: list[CaptureReport], run: Run) -> str:
    counts, by_rule = totals(reports)
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "tool": {"name": "ibdissect", "version": VERSION},
        "captures": [capture_object(report) for report in reports],
        "findings": [finding_object(finding) for report in reports for finding in report.findings],
        "counts": counts,
        "by_rule": by_rule,
    }
    if run.configuration is not None:
        result["configuration"] = run.configuration.object()
    if run.baseline is not None:
        result["baseline"] = run.baseline
    return visible_json(json.dumps(result, indent=2, ensure_ascii=False)) + "\n"


def jsonl_text(reports: list[CaptureReport], run: Run) -> str:
    lines = (json.dumps(finding_object(finding), ensure_ascii=False) for report in reports for finding in report.findings)
    return "".join(visible_json(line) + "\n" for line in lines)
