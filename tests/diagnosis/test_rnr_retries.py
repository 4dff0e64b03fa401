"""Requesters that fall silent behind an RNR NAK, beside others that used up their tries or left."""

from __future__ import annotations

import pytest

from tests.cases import every
from tests.diagnosis.lab import MS, SEC, US, Lab

RNR_10_MS = 0x20 | 0x14


def unready(lab: Lab, start: int, number: int) -> None:
    """A SEND that is answered so often with an RNR NAK, in a capture that goes on for long."""
    for i in range(number):
        lab.ask(start + i * 20 * MS, 100)
        lab.answer(start + i * 20 * MS + 5 * US, 100, RNR_10_MS)
    lab.put(60 * SEC, lab.b, lab.a, 0x64, 9, 1, payload=b"idle", ext={"DETH": {"q_key": 5, "srcqp": 7}})


@every("retries", [2, 7, None])
@every("leaves", [False, True])
def test_silence_alone_proves_nothing(retries: int | None, leaves: bool) -> None:
    lab = Lab()
    start = lab.up(rnr_retries=retries) if retries is not None else 0
    unready(lab, start, 3)
    if leaves and retries is not None:
        lab.down(SEC)
    found = lab.only()
    if retries == 7:
        assert found.cause != "rnr-exhausted", "it may try without end"
    else:
        assert (found.cause, found.severity) == ("rnr-exhausted", "info" if retries is None else "error")


@pytest.mark.parametrize(("naks", "used_up"), [(7, True), (8, False)])
def test_more_rnr_naks_than_any_count_allows_are_those_of_a_requester_that_tries_without_end(naks: int, used_up: bool) -> None:
    lab = Lab()
    unready(lab, 0, naks)
    assert (lab.only().cause == "rnr-exhausted") is used_up
