"""Findings about streams of services that repeat nothing."""

from __future__ import annotations

from tests.craft import rc
from tests.rules.findings import lint
from tests.rules.RC.cases import UC_SEND


def test_nobody_says_that_a_requester_of_uc_repeats() -> None:
    frame = rc(UC_SEND, b"data", bth={"psn": 2})
    [found] = lint([frame, frame], "RC002")
    found.finish(None)
    assert found.message.endswith("PSN 2 was seen before; UC never repeats, so the packet was duplicated or the connection restarted")
