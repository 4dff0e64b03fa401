"""Do requests find their answers, and are the unanswered ones those of the captures' page?"""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.flow.transactions import Answered, Transactions, Unanswered
from ibdissect.table.table import ChunkTable
from tests import craft
from tests.conftest import SHARED


def followed(source: object, window: int = 16 << 20) -> tuple[Counter[str], int, list[Answered]]:
    """Events by name, requests without answer, and the answered ones."""
    transactions, seen, answered = Transactions(), Counter[str](), []
    for chunk in open_capture(source, window=window).chunks():  # type: ignore[arg-type]
        for event in transactions.feed(ChunkTable(chunk)):
            seen[type(event).__name__] += 1
            if isinstance(event, Answered):
                answered.append(event)
    return seen, seen[Unanswered.__name__] + sum(1 for _ in transactions.open_requests()), answered


def page() -> dict[str, int]:
    """File name to unanswered requests, as ../shared/captures/opensm/INDEX.md counts them."""
    index = SHARED / "captures/opensm/INDEX.md"
    if not index.is_file():
        return {}
    return {name: int(count) for name, count in re.findall(r"^\| (\S+\.pcap) \| \d+ \| \d+ \| (\d+) \|", index.read_text(), re.M)}


@pytest.mark.parametrize(("name", "unanswered"), sorted(page().items()))
def test_unanswered_requests_are_those_of_the_page(shared: Path, name: str, unanswered: int) -> None:
    seen, found, _ = followed(str(shared / "captures/opensm" / name))
    assert found == unanswered
    assert not seen["AnsweredAgain"] and not seen["AnsweredFromElsewhere"]


def test_chunks_make_no_difference(shared: Path) -> None:
    path = str(shared / "captures/opensm/31-saquery-rmpp-ft36.pcap")
    assert followed(path, window=100_000)[:2] == followed(path)[:2]


def test_latency_counts_from_the_latest_try() -> None:
    ask = craft.gmp(4, 1, 0x12, slid=1, dlid=2)
    frames = [ask, ask, craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)]
    _, unanswered, answered = followed(io.BytesIO(craft.erf_pcap(frames, step_ns=5_000_000)))
    assert unanswered == 0 and len(answered) == 1
    assert answered[0].request.tries == 2 and answered[0].request.frame == 1 and answered[0].frame == 3
    assert abs(answered[0].latency_ns - 5_000_000) < 10  # ERF has binary fractions of a second


def test_another_question_with_the_same_transaction_ends_the_first() -> None:
    frames = [craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.gmp(4, 1, 0x1D, slid=1, dlid=2), craft.gmp(4, 0x81, 0x1D, slid=2, dlid=1)]
    seen, unanswered, answered = followed(io.BytesIO(craft.erf_pcap(frames)))
    assert unanswered == seen["Unanswered"] == 1 and answered[0].request.frame == 2


def test_directed_routes_are_told_apart() -> None:
    frames = [craft.smp(1, 0x11, path=[1]), craft.smp(1, 0x11, path=[2]), craft.smp(0x81, 0x11, path=[2])]
    _, unanswered, answered = followed(io.BytesIO(craft.erf_pcap(frames)))
    assert unanswered == 1 and answered[0].request.frame == 2 and answered[0].request.to == "route 0,2"


def test_open_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.flow.transactions.MAX_OPEN", 10)
    frames = [craft.gmp(4, 1, 0x12, slid=1, dlid=2, header={"transaction_id": i}) for i in range(1, 31)]
    seen, unanswered, _ = followed(io.BytesIO(craft.erf_pcap(frames)))
    assert seen["Unanswered"] == 20 and unanswered == 30
