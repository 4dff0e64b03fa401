"""Numbers, durations and small graphs read as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ibdissect.pipeline.check import CheckOptions
from ibdissect.screen_model.number_text import duration
from ibdissect.tui.screens.conversations import ConversationTable
from tests import craft
from tests.screen_model import made
from tests.screen_model.made import opened, studied


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A conversation."""
    path = made.written(tmp_path_factory.mktemp("numbers"), craft.rc(0x04, bytes(8)))
    return studied(opened(path), CheckOptions(rules=[]))[1].conversations[0]


def test_numbers_for_people(one: Any) -> None:
    table = ConversationTable([one])
    cell = next(column.cell for column in table.columns if column.title == "Frame bytes")
    shown = [cell(replace(one, octets=(octets, 0)))[0] for octets in (0, 999, 1500, 123_456, 5_000_000_000)]
    assert shown == ["0 B", "999 B", "1.5 kB", "123 kB", "5.0 GB"]
    assert [duration(n) for n in (5, 61_000, 2_500_000)] == ["5 ns", "61 µs", "2.5 ms"]
    assert [duration(n) for n in (3_100_000_000, 90_000_000_000)] == ["3.10 s", "1 min 30 s"]


def test_packets_over_time(one: Any) -> None:
    def drawn(values: Sequence[int], room: int) -> str:
        return ConversationTable([one]).rest(replace(one, spark=tuple(values)), room)[0]

    assert drawn([0, 1, 8], 3) == " ▁█" and drawn([], 9) == "" and drawn([0, 0], 9) == "  "
    assert set(drawn([7] * 4096, 108)[:-1]) == {"█"}, "equal buckets give a flat line, no comb"
    assert drawn([1, 2, 3, 4], 2) == "▃█" and drawn([1, 1, 1, 1, 8], 4) == "▂▂▂█", "three sums in four cells"
