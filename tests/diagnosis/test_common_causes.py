"""A cause that several connections share is said of the host it belongs to, and not of the one that all of them touch."""

from __future__ import annotations

import pytest

from ibdissect.wire import cm
from tests.diagnosis.lab import MS, SEC, US, Lab, joined
from tests.diagnosis.test_causes import CAUSES, lossy, repeated


def test_a_dead_host_is_named_and_the_one_that_asks_everybody_is_not() -> None:
    dead, labs = bytes([10, 0, 0, 9]), []
    for i in range(3):
        lab = Lab(b=dead, qa=0x100 + i, qb=0x200 + i)
        lab.good(0, 1000 * i + 100, 5)
        repeated(lab, MS, 1000 * i + 105)
        labs.append(lab)
    for i in range(6):
        lab = Lab(b=bytes([10, 0, 0, 20 + i]), qa=0x300 + i, qb=0x400 + i)
        lab.good(SEC, 50_000 + 1000 * i, 5)
        labs.append(lab)
    found = joined(*labs).diagnosis().shared
    assert [(one.cause, one.host, one.connections, one.of) for one in found] == [("retries-exhausted", "10.0.0.9", 3, 3)]


def test_one_connection_shares_nothing() -> None:
    lab = Lab()
    lossy(lab)
    assert lab.diagnosis().shared == []


@pytest.mark.parametrize(("name", "hosts"), [("partition", ["10.0.0.1"]), ("access", [])])
def test_what_lies_in_how_a_host_is_set_up_needs_no_large_part_of_its_connections(name: str, hosts: list[str]) -> None:
    """Two of eight connections of the host: another partition is its own fault; two refused requests may be those of two applications."""
    labs = []
    for i in range(8):
        labs.append(Lab(b=bytes([10, 0, 0, 20 + i]), qa=0x100 + i, qb=0x200 + i))
        CAUSES[name][2](labs[i]) if i < 2 else labs[i].good(19 * SEC, 100, 5)
    labs[1].frames = [(time + 5 * SEC, frame) for time, frame in labs[1].frames]
    found = joined(*labs).diagnosis().shared
    assert [one.host for one in found if one.cause == CAUSES[name][0]] == hosts


@pytest.mark.parametrize("name", CAUSES)
def test_several_connections_have_each_cause_in_common(name: str) -> None:
    labs = [Lab(b=bytes([10, 0, 0, 9]), qa=0x100 + n, qb=0x200 + n) for n in range(2)]
    for lab in labs:
        CAUSES[name][2](lab)
    assert all(one.why for one in joined(*labs).diagnosis().shared)


def test_what_several_connections_share_is_a_sentence() -> None:
    labs = [Lab(qa=0x100 + n, qb=0x200 + n) for n in range(2)]
    for lab in labs:
        CAUSES["access"][2](lab)
    told = [one.why for one in joined(*labs).diagnosis().shared]
    refused = "did not fit the receiver's memory (NAK remote access error), which ended 2 connections"
    assert [why.partition(" (of")[0] for why in told] == [f"requests from 10.0.0.1 {refused}", f"requests to 10.0.0.2 {refused}"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_host_that_asks_again_and_again_for_a_queue_pair_that_is_held(number: int) -> None:
    """However many other connections it has."""
    first, *many = [Lab(qa=0x500 + n, qb=0x600 + n) for n in range(9)]
    first.good(first.up(), 100, 3)
    for n, lab in enumerate(many):
        lab.good(lab.up(n * MS, local_communication_id=0xC0 + n), 100, 3)
    for n in range(number):
        first.req(SEC + n * MS, local_communication_id=0xA5 + n)
        ids = {"local_communication_id": 0, "remote_communication_id": 0xA5 + n}
        first.short(SEC + n * MS + US, cm.REJ_ID, cm.REJ, back=True, reason=10, **ids)
    told = [one.why for one in joined(first, *many).diagnosis().shared if one.cause == "duplicate-qp-after-restart"]
    assert len(told) == number - 1
    assert all(why.startswith("10.0.0.1 asked 2 times for a connection of a queue pair that another host still holds") for why in told)


@pytest.mark.parametrize(("reason", "number"), [(12, 2), (25, 0)])
def test_a_host_that_sends_askers_to_another_port_refuses_nothing(reason: int, number: int) -> None:
    labs = [Lab(qa=0x500 + n) for n in range(2)]
    for n, lab in enumerate(labs):
        lab.req(n * MS, local_communication_id=0xA5 + n)
        lab.short(n * MS + US, cm.REJ_ID, cm.REJ, back=True, reason=reason, local_communication_id=0, remote_communication_id=0xA5 + n)
    assert [one.connections for one in joined(*labs).diagnosis().shared if one.cause == "refused"] == [number] * bool(number)
