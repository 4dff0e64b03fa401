"""Lanes and set-ups become one connection each, with the right ends."""

from __future__ import annotations

from ibdissect.diagnosis.assemble import address_of, text_of
from ibdissect.engine.hosts import Host
from ibdissect.wire import cm
from tests.diagnosis.lab import MS, QA, QB, Lab


def test_addresses_are_those_of_their_kind() -> None:
    for hi, lo, text, size in ((0, 31, "LID 31", 2), (0, 0xFFFF << 32 | 0x0A000001, "10.0.0.1", 4), (0xFE80 << 48, 5, "fe80::5", 16)):
        for network in (0, 70):
            end = address_of(host := Host(hi, lo, network, 0))
            assert (text_of(host), len(end.address), end.network) == (text, size, network)


def test_set_up_and_data_are_one_connection() -> None:
    lab = Lab()
    lab.down(lab.good(lab.up(), 100, 5))
    found = lab.only()
    assert [end.qpn for end in found.ends] == [QA, QB] and found.requester == 0
    assert (found.first_frame, found.last_frame, found.end_state, found.set_up.state) == (1, 15, "closed", "complete")


def test_the_end_that_asked_comes_first_also_if_the_other_sends_the_requests() -> None:
    lab = Lab()
    lab.up()
    data = Lab(a=lab.b, b=lab.a, qa=lab.qb, qb=lab.qa)
    data.good(MS, 100, 5)
    lab.frames += data.frames
    found = lab.only()
    assert ([end.qpn for end in found.ends], found.requester) == ([QA, QB], 1)


def test_a_queue_pair_that_is_connected_again_is_another_connection() -> None:
    lab = Lab()
    lab.down(lab.good(lab.up(), 100, 5))
    time = 50 * MS
    lab.req(time, local_communication_id=0xC0)
    lab.rep(time + MS, 9000, local_communication_id=0xD0, remote_communication_id=0xC0)
    lab.short(time + 2 * MS, cm.RTU_ID, cm.RTU, local_communication_id=0xC0, remote_communication_id=0xD0)
    lab.good(time + 3 * MS, 9000, 3)
    assert [one.counts.messages for one in lab.diagnosis().connections] == [5, 3]


def test_a_rep_without_its_req_names_one_queue_pair() -> None:
    lab = Lab()
    lab.rep(0, 100)
    lab.good(MS, 100, 5)
    found = lab.only()
    assert [end.qpn for end in found.ends] == [QA, QB] and found.set_up.state == "not-captured"


def test_a_dreq_names_the_queue_pair_of_the_other_end() -> None:
    lab = Lab()
    lab.down(lab.good(0, 100, 5))
    assert lab.only().end_state == "closed"
