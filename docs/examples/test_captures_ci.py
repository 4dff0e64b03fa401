"""Captures that a test bench has just taken, or that a repository keeps, as tests."""

from pathlib import Path

import pytest

from ibdissect.pytest_plugin import assert_clean

CAPTURES = sorted(Path("captures").glob("rxe-*.pcap"))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_nothing_is_wrong(capture: Path) -> None:
    assert_clean(capture, ignore=["CNX011", "RC004"], fail_on="warning")  # one of them is about a NAK
