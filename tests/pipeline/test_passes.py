"""The passes of a check are in an order in which each finds what it needs, and only those are made that a capture needs."""

from __future__ import annotations

import io
from typing import Any

import pytest

from ibdissect.pipeline import passes
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from tests import craft
from tests.cases import few
from tests.conftest import REPO

RULES = load()


class OnceOnly(io.BytesIO):
    """A capture that can be read only once."""

    def seekable(self) -> bool:
        return False


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passes that were made."""
    found: list[str] = []
    for each in passes.PLAN:
        own = each.carry_out

        def carry_out(self: Any, run: passes.CheckRun, own: Any = own) -> None:
            found.append(type(self).__name__)
            own(self, run)

        monkeypatch.setattr(each, "carry_out", carry_out)
    return found


def test_what_a_pass_needs_comes_before_it() -> None:
    for i, each in enumerate(passes.PLAN):
        assert each.needs <= {*passes.PLAN[:i]} and each.__doc__ and each.reads
        assert i == 0 or each.needs, "only the first needs none"


@few(
    ("capture", "wanted"),
    [
        ("rxe-rping.pcap", ["Judge", "Settle", "WordFindings"]),
        ("pkey-lab.pcap", ["Judge", "Settle", "WordFindings"]),
        ("mkey-enforced.pcap.gz", ["Judge", "Settle", "NumberKeys", "WordFindings"]),
    ],
    fast=(0, 1),
)
def test_a_capture_is_read_again_only_for_what_its_end_showed(capture: str, wanted: list[str], made: list[str]) -> None:
    check(str(REPO / "captures" / capture), CheckOptions(rules=RULES))
    assert made == wanted


@pytest.mark.slow
def test_what_can_be_read_once_is_read_once(made: list[str]) -> None:
    check(OnceOnly((REPO / "captures/mkey-enforced.pcap.gz").read_bytes()), CheckOptions(rules=RULES))
    assert made == ["Judge", "Settle", "WordFindings"]


def test_an_empty_capture_has_a_report(made: list[str]) -> None:
    report = check(io.BytesIO(craft.erf_pcap([])), CheckOptions(rules=RULES))
    assert report.frames == 0 and made[0] == "Judge" and made[-1] == "WordFindings" and made.count("Judge") == 1
