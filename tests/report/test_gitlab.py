"""The Code Quality report is what GitLab reads."""

from __future__ import annotations

import json

from ibdissect.report import Run, render
from tests.report.test_formats import BROKEN, finding, report


def test_gitlab_tells_equal_findings_apart() -> None:
    issues = json.loads(render("gitlab", [report(finding(), finding(frame=20)), BROKEN], Run()))
    assert [one["severity"] for one in issues] == ["blocker", "major", "major"]
    assert len({one["fingerprint"] for one in issues}) == 3 and issues[1]["check_name"] == "AM001"
    assert issues[1]["location"] == {"path": "a b.pcap", "lines": {"begin": 1}}
    again = json.loads(render("gitlab", [report(finding(frame=7))], Run()))
    assert again[0]["fingerprint"] == issues[1]["fingerprint"], "a frame number is not part of it"
