"""A connection is known by its asker and the asker's id, also where its messages are cut off."""

from __future__ import annotations

import pytest

from ibdissect.engine import connection_setups
from ibdissect.wire import cm
from tests.cases import every
from tests.diagnosis.lab import MS, START, US, C, Lab, joined

SetUp = tuple[str, int, str, int]
"""Who asked with which id, the state of the set-up, and how many REQs there were."""


def set_ups(lab: Lab) -> list[SetUp]:
    found = lab.diagnosis().connections
    return [(one.ends[0].address, one.set_up.id, one.set_up.state, one.set_up.tries) for one in found]


@pytest.mark.parametrize(("apart", "tries"), [(50 * MS - 1, 3), (50 * MS, 4)])
def test_tries_are_one_connection_and_another_asker_has_its_own(apart: int, tries: int) -> None:
    """What comes again too soon is of another mirror, or interface."""
    lab, other, more = Lab(), Lab(a=C), Lab()
    for number in range(3):
        lab.req(number * 50 * MS)
    lab.req(100 * MS + apart)
    other.req(200 * MS)
    more.req(250 * MS, local_communication_id=0xA1)
    found = [(who, number, count) for who, number, _, count in set_ups(joined(lab, other, more))]
    assert found == [("10.0.0.1", 0xA0, tries), ("10.0.0.3", 0xA0, 1), ("10.0.0.1", 0xA1, 1)]


def test_the_answer_belongs_to_who_asked() -> None:
    lab, other = Lab(), Lab(a=C)
    lab.req(0)
    other.req(10 * MS)
    lab.rep(300 * MS)
    lab.short(301 * MS, cm.RTU_ID, cm.RTU)
    lab.good(302 * MS, 100, 3)
    first, second = joined(lab, other).diagnosis().connections
    assert (first.set_up.state, first.set_up.established_ns, [end.qpn for end in first.ends]) == (
        "complete",
        START + 301 * MS,
        [0x111, 0x222],
    )
    assert second.ends[1].qpn is None and second.set_up.state != "complete"


def test_another_service_is_another_connection_and_the_first_rep_stands() -> None:
    lab = Lab()
    lab.req(0, 2, service_id=0x99)
    lab.req(300 * MS, service_id=0x98)
    lab.rep(400 * MS, local_qpn=0x22)
    lab.rep(500 * MS, local_qpn=0x23)
    found = [(one.set_up.service_id, one.set_up.tries, one.ends[1].qpn) for one in lab.diagnosis().connections]
    assert found == [(0x99, 2, None), (0x98, 1, 0x22)]


@pytest.mark.parametrize("number", [1, 2, connection_setups.MAX_TRIES + 4])
def test_the_latest_dreq_is_kept(number: int) -> None:
    """There may be many before one is answered."""
    lab = Lab()
    lab.good(lab.up(), 100, 3)
    for i in range(number):
        lab.down((10 + 100 * i) * MS, answered=i == number - 1)
    found = lab.only()
    assert (found.end_state, found.set_up.state, found.cause) == ("closed", "complete", "healthy")
    assert found.end_ns == START + (10 + 100 * (number - 1)) * MS + 100 * US


def test_an_id_that_is_used_again_after_the_end_is_another_connection() -> None:
    lab = Lab()
    lab.req(0)
    lab.short(MS, cm.REJ_ID, cm.REJ, back=True, reason=28)
    lab.req(200 * MS)
    assert set_ups(lab) == [("10.0.0.1", 0xA0, "refused", 1), ("10.0.0.1", 0xA0, "partly", 1)]


@every(
    ("snap", "known"),
    [
        (65, None), (90, ("partly", None, None, None)), (100, ("refused", 8, None, None)), (110, ("refused", 8, 0x1061144, None)),
        (130, ("refused", 8, 0x1061144, 0x111)),
    ],
)  # fmt: skip
def test_cut_messages_tell_what_is_left_of_them(snap: int, known: tuple[object, ...] | None) -> None:
    """State, reason, service and queue pair, in the order of their bytes."""
    lab = Lab()
    lab.req(0)
    lab.short(MS, cm.REJ_ID, cm.REJ, back=True, reason=8)
    found = [(one.set_up.state, one.set_up.reason, one.set_up.service_id, one.ends[0].qpn) for one in lab.diagnosis(snap).connections]
    assert found == ([known] if known else [])


def test_an_answer_whose_request_is_missing_begins_a_connection() -> None:
    """A refusal; an RTU tells nothing that is known."""
    lab = Lab()
    lab.short(MS, cm.REJ_ID, cm.REJ, back=True, reason=8)
    assert set_ups(lab) == [("10.0.0.1", 0xA0, "refused", 0)]
    lab = Lab()
    lab.short(MS, cm.RTU_ID, cm.RTU)
    assert set_ups(lab) == []


def test_they_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_setups, "MAX_SETUPS", 2)
    labs = [Lab(qa=0x100 + number) for number in range(5)]
    for number, lab in enumerate(labs):
        lab.req(number * US, local_communication_id=number + 1)
    found = joined(*labs).diagnosis()
    assert len(found.connections) == 2 and "more connections were asked for than are kept: 3 are missing" in found.notes
