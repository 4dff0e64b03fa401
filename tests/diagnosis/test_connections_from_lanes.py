"""Lanes and set-ups become one connection each, with the right ends."""

from __future__ import annotations

from ibdissect.wire import cm
from tests.craft import erf_pcap, ethernet_pcap, rc
from tests.diagnosis.lab import MS, QA, QB, Lab, diagnosis


def ends_of(capture: bytes) -> list[str]:
    """The addresses of the only connection."""
    (found,) = diagnosis(capture).connections
    return [end.address for end in found.ends]


def test_addresses_are_those_of_their_kind() -> None:
    """LIDs, IPv4 addresses, also as GIDs, and GIDs."""

    def talk(**gids: bytes) -> list[bytes]:
        there, back = ({"sgid": gids[a], "dgid": gids[b]} if gids else None for a, b in (("one", "other"), ("other", "one")))
        asked = [rc(0x04, bytes(8), slid=31, dlid=32, bth={"psn": psn, "destqp": QB, "a": 1}, grh=there) for psn in (1, 2)]
        ext = {"AETH": {"syndrome": 31, "msn": 1}}
        return asked + [rc(0x11, ext=ext, slid=32, dlid=31, bth={"psn": psn, "destqp": QA}, grh=back) for psn in (1, 2)]

    assert ends_of(erf_pcap(talk())) == ["LID 31", "LID 32"]
    lab = Lab()
    lab.good(0, 1, 2)
    assert ends_of(lab.pcap()) == ["10.0.0.1", "10.0.0.2"]
    local, mapped = b"\xfe\x80" + bytes(13) + b"\5", bytes(10) + b"\xff\xff\x0a\0\0\x09"
    routed = [bytes(12) + b"\x89\x15" + frame[8:-2] for frame in talk(one=local, other=mapped)]
    assert ends_of(ethernet_pcap(routed)) == ["fe80::5", "10.0.0.9"]


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
