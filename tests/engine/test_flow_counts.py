"""The packets of the latest flows are counted, the same compiled and interpreted, and as a plain dict would."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest

from ibdissect.engine import flow_counts
from tests.cases import few
from tests.engine.plain import plain

LIDS = 4096
Kept = dict[int, list[int]]


def window(rnd: random.Random, size: int, lids: int) -> dict[str, Any]:
    """Packets in two of three rows."""
    rows = [row for row in range(size) if row % 3]
    columns = {
        "bth": [100 * row + 8 + row % 5 for row in range(size)], "offset": [100 * row for row in range(size)],
        "times": [rnd.randrange(1 << 40) for _ in range(size)], "rows": rows,
        **{name: [rnd.randrange(lids) for _ in rows] for name in ("slid", "dlid")},
        "p_key": [rnd.choice((0xFFFF, 0x7FFF, 0)) for _ in rows], "dest_qp": [rnd.randrange(1 << 24) for _ in rows],
        **{name: [rnd.choice((0, 40, 1 << 60)) for _ in range(LIDS)] for name in ("senders", "receivers")},
    }  # fmt: skip
    return {name: array("q", column) for name, column in columns.items()}


def expected(kept: Kept, most: int, first: int, columns: dict[str, Any]) -> int:
    """The same in a dict, which keeps its oldest key first."""
    gone = -1
    for i, row in enumerate(columns["rows"]):
        slid, dlid = columns["slid"][i], columns["dlid"][i]
        early = [columns["senders"][slid] > first + row, columns["receivers"][dlid] > first + row]
        if not any(early):
            continue
        flow = slid << flow_counts.SENDER | dlid << flow_counts.RECEIVER | columns["p_key"][i]
        if flow not in kept:
            if len(kept) == most:
                gone = row if gone < 0 else gone
                del kept[next(iter(kept))]
            start = columns["bth"][row] - columns["offset"][row]
            kept[flow] = [flow, first + row, columns["times"][row], start, columns["dest_qp"][i], 0, 0]
        for end in (0, 1):
            kept[flow][5 + end] += early[end]
    return gone


def numbers(counts: Any, most: int) -> list[list[int]]:
    """What is kept, the oldest first."""
    wide, values = flow_counts.VALUES, counts.block.tolist()
    flows = [values[at : at + wide] for at in range(0, len(values), wide)]
    return [flows[n % len(flows)] for n in range(max(0, counts.begun - most), counts.begun)]


@few("most", [1, 2, 511, 512, 513, 3000, 1 << 16], fast=(0, 3, 4))
@pytest.mark.parametrize("module", ["compiled", "interpreted"])
def test_the_latest_flows_are_counted(most: int, module: str) -> None:
    rnd = random.Random(most)
    counts = (flow_counts if module == "compiled" else plain("flow_counts")).FlowCounts(most)
    kept: Kept = {}
    first = 1
    for size in (1, 90, 2000, 2500, 700):
        columns = window(rnd, size, 5 if size < 100 else 60)
        assert counts.feed(first, columns) == expected(kept, most, first, columns)
        assert numbers(counts, most) == list(kept.values())
        first += size
    assert counts.begun > 1000
