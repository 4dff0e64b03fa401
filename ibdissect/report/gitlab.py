"""Findings in GitLab's merge requests: a Code Quality report."""

from __future__ import annotations

import json
import os
from collections import Counter
from hashlib import sha256

from ibdissect.lint.baseline import fingerprint, name_from
from ibdissect.lint.finding import CaptureReport
from ibdissect.wire.text import printable, visible_json

from . import Run, repository_path, worst_first

LEVELS = {"error": "major", "warning": "minor", "info": "info"}


def gitlab_text(reports: list[CaptureReport], run: Run) -> str:
    """A list of the findings, and a blocker per capture that was not fully checked. Fingerprints are unique, as GitLab demands."""
    seen: Counter[str] = Counter()
    issues = []

    def add(check: str, severity: str, path: str, text: str, identity: str) -> None:
        seen[identity] += 1
        issues.append({
            "description": text,
            "check_name": check,
            "fingerprint": sha256(f"{identity} {seen[identity]}".encode(errors="backslashreplace")).hexdigest(),
            "severity": severity,
            "location": {"path": printable(repository_path(path)), "lines": {"begin": 1}},
        })  # fmt: skip

    for report in reports:
        if report.incomplete is not None:
            add(report.status, "blocker", report.path, printable(report.incomplete), f"{report.status} {report.path}")
        for doubt in report.doubts if report.status == "empty" else ():
            add(report.status, "info", report.path, printable(doubt), f"{report.status} {report.path}")
        if report.left_out:
            add("left-out", "info", report.path, report.left_out_text, f"left-out {report.path}")
    for one in worst_first(reports):
        file, frame = one.place
        text = f"{one.code} {one.name}, frame {frame}: {one.message}"
        add(one.code, LEVELS[one.severity.value], file, text, fingerprint(name_from(os.curdir, one.capture), one))
    return visible_json(json.dumps(issues, indent=2, ensure_ascii=False)) + "\n"
