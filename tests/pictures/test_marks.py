"""Ports that findings mark."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.lint.finding import Finding, Severity
from ibdissect.pictures.marks import marks

from .looks import portrait


@pytest.mark.slow
def test_ports_named_by_findings(repo: Path) -> None:
    with portrait(repo / "captures/pkey-lab.pcap") as lab:
        found = {port.lid: mark for port, mark in marks(lab).items()}
    assert {lid: (mark.level, mark.count, " ".join(mark.codes)) for lid, mark in found.items()} == {
        1: ("info", 1, "PKY012"),
        2: ("error", 3, "PKY001 PKY021"), 3: ("error", 5, "PKY001 PKY021 PKY003 PKY012"), 4: ("error", 2, "PKY003 PKY004"),
    }  # fmt: skip
    assert found[2].text == "3 findings: PKY001, PKY021"


def test_sentences_with_ip_addresses_name_no_port(repo: Path) -> None:
    with portrait(repo / "captures/rxe-rping.pcap") as one:
        text = "10.0.0.1 rejects 10.0.0.2"
        one.report.findings = [Finding(code="CM012", name="x", severity=Severity.INFO, frame=0, time_ns=0, template="", message=text)]
        assert marks(one) == {}
