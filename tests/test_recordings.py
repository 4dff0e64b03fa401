"""Recordings of programs that behave well are free of errors and warnings, and what they show is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from tests.cases import few

REPO = Path(__file__).parent.parent
INFOS = {
    "managers.pcap.gz": {"AM009": 2, "MKY014": 3, "SEM041": 1, "TXN001": 6},  # a new priority; requests to managers that were killed
    "sa-clients.pcap.gz": {"AM009": 2, "SA003": 1},  # no path to an alias GUID that was deleted
}


@few(("name", "infos"), INFOS.items(), fast=(0,))
def test_nothing_worse_than_an_info(name: str, infos: Mapping[str, int]) -> None:
    found = [(str(one.severity), one.code) for one in check(str(REPO / "captures" / name), CheckOptions(rules=load())).findings]
    assert {severity for severity, _ in found} == {"info"}
    assert {code: found.count(("info", code)) for _, code in found} == infos


@pytest.mark.slow
def test_two_subnets_of_one_file_are_told_apart_and_each_is_clean() -> None:
    report = check(str(REPO / "captures/two-subnets.pcapng.gz"), CheckOptions(rules=load()))
    assert {str(one.severity) for one in report.findings} == {"info"}
    (mixed,) = (one for one in report.findings if one.code == "CAP017")
    assert "capture interfaces tell them apart" in mixed.message


def test_packets_that_mergecap_merged_keep_their_order_in_time() -> None:
    """Its blocks say whole seconds: hundreds of packets at once."""
    chunks = open_capture(str(REPO / "captures/two-subnets.pcapng.gz")).chunks()
    times = np.concatenate([chunk.time_ns for chunk in chunks])
    assert (np.diff(times) >= 0).all() and len(np.unique(times)) > 1800
