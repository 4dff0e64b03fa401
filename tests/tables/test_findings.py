"""Findings are read as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

import ibdissect
from ibdissect.errors import ConfigError, FilterError


def test_findings_can_be_chosen(repo: Path) -> None:
    with ibdissect.open(repo / "captures/pkey-lab.pcap") as capture:
        every = capture.lint()
        assert {finding.code for finding in capture.lint(select="PKY00")} == {f.code for f in every if f.code.startswith("PKY00")}
        ignored = capture.lint(ignore=["PKY", "TXN018"])
        assert [f.code for f in ignored] == [f.code for f in every if not f.code.startswith("PKY") and f.code != "TXN018"]
        assert {finding.frame for finding in capture.lint(filter="bth.p_key == 0x8999")} == {33}
        assert len(capture.lint(select="PKY001", max_findings=1)) == 1
        with pytest.raises(ConfigError, match="no rule has this code"):
            capture.lint(select="NOPE001")
        with pytest.raises(FilterError, match="choose rules with select"):
            capture.lint(filter="ibdissect.code")


def test_findings_are_a_table(repo: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    with ibdissect.open(repo / "captures/pkey-lab.pcap") as capture:
        findings, listed = capture.findings(select="PKY"), capture.lint(select="PKY")
    arrow = pa.table(findings)
    assert arrow["message"].to_pylist() == [finding.message for finding in listed]
    assert [row["code"] for row in findings] == [finding.code for finding in listed] and len(findings) == len(listed)
    assert ">PKY001</td>" in findings._repr_html_()
