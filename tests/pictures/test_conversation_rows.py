"""The tables of conversations hold latency and loss, the worst first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import shown
from tests.screen_model import made

from .looks import portrait


@pytest.mark.slow
def test_latency_of_a_clean_conversation(repo: Path) -> None:
    with portrait(repo / "captures/rxe-rping.pcap") as found:
        (talk,) = shown.report(found)["conversations"]
    assert talk["to"].endswith("QP 0x000011") and [talk[what] for what in ("repeated", "missing", "NAK", "RNR")] == ["0"] * 4
    assert [talk[what] for what in ("median", "99 %", "longest")] == ["304 µs", "3.02 ms", "3.02 ms"]
    assert len(re.findall(r"[\d.]+,[\d.]+", talk["over time"])) == 64
    messages = found.model.answers.messages
    assert messages is not None
    columns = messages.columns()
    known = columns.latency_ns[(columns.place >= 0) & (columns.latency_ns >= 0)]
    times = found.shot.conversations[0].times
    assert times is not None and (times.count, times.least, times.most) == (len(known), known.min(), known.max())


def test_the_worst_comes_first(tmp_path: Path) -> None:
    with portrait(made.capture(tmp_path)) as found:
        tables = shown.report(found)
    lost = [sum(shown.number(talk[what]) for what in ("repeated", "missing", "NAK", "RNR")) for talk in tables["conversations"]]
    assert lost == sorted(lost, reverse=True) and lost[:3] == [7, 2, 0]


def test_requests_of_management(repo: Path) -> None:
    with portrait(repo / "captures/opensm-first-sweep.pcap") as found:
        tables = shown.report(found)
    (sweep,) = tables["requests"]
    assert (sweep["requester"], sweep["responder"]) == ("LID 65535", "directed routes")
    assert (sweep["answered"], sweep["unanswered"]) == ("47", "0") and all(sweep[what] for what in ("median", "99 %", "longest"))
