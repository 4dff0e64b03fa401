"""Faults that the standard forbids are found, and their legal twins left alone: alone, and behind a real capture of another subnet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.words import Rule
from tests.conftest import SHARED
from tests.craft import ethernet_pcap
from tests.rules.made.pair_frames import Pair
from tests.rules.made.pairs import ALL
from tests.rules.test_rules import BY_CODE, RULES, lint
from tests.standard import LINK_INFINIBAND


def loud(capture: bytes, frames: range, rules: Sequence[type[Rule]]) -> set[str]:
    """Codes of errors and warnings at some frames."""
    return {one.code for one in lint(capture, rules=rules) if one.severity != "info" and frames.start <= one.frame < frames.stop}


def judge(one: Pair, before: list[bytes], finders: Sequence[type[Rule]]) -> None:
    """No rule accuses the twin; one of those meant, among `finders`, finds the fault."""

    def codes(frames: list[bytes], at: int, rules: Sequence[type[Rule]]) -> set[str]:
        whole = [*before, *frames]
        return loud(ethernet_pcap(whole, step_ns=one.step_ns, link=one.link), range(len(whole) - at + 1, len(whole) + 1), rules)

    twin = codes(one.twin, one.at + len(one.twin) - len(one.bad), RULES)
    assert not twin, "the legal twin is accused"
    found = codes(one.bad, one.at, finders)
    assert found & set(one.codes), f"found only {sorted(found)}"


def test_there_are_enough() -> None:
    assert len(ALL) >= 60 and len({one.name for one in ALL}) == len(ALL)


@pytest.mark.parametrize("one", [pytest.param(one, marks=[pytest.mark.slow] * (i % 3 > 0), id=one.name) for i, one in enumerate(ALL)])
def test_alone(one: Pair) -> None:
    judge(one, [], [BY_CODE[code] for code in one.codes])


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in ALL if one.link == LINK_INFINIBAND], ids=lambda one: one.name)
def test_behind_a_real_capture(one: Pair, real: list[bytes]) -> None:
    judge(one, real, RULES)


@pytest.fixture(scope="module")
def real() -> list[bytes]:
    """Frames of a sweep of a real manager, at which these LIDs do not exist."""
    path: Path = SHARED / "captures/opensm/01-sweep-net1.pcap"
    if not path.exists():
        pytest.skip("needs ../shared")
    return [chunk.frame_bytes(row) for chunk in open_capture(io.BytesIO(path.read_bytes())).chunks() for row in range(len(chunk))]
