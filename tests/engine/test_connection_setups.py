"""A connection is known by its asker and the asker's id, also where its messages are cut off."""

from __future__ import annotations

import pytest

from ibdissect.engine import connection_setups
from ibdissect.engine.connection_setups import SetUps, field_of, terms
from ibdissect.wire import cm
from tests.craft import build, mad

A, B, C = (0, 1), (0, 2), (0, 3)


def req(number: int = 0xA0, **more: object) -> bytes:
    values = {"local_communication_id": number, "local_qpn": 0x11, "starting_psn": 5, "primary_local_ack_timeout": 14, **more}
    return mad(7, 3, cm.REQ_ID, build(cm.REQ, path_packet_payload_mtu=3, **values))


def test_tries_are_one_connection_and_another_asker_has_its_own() -> None:
    ups = SetUps()
    for frame in (1, 2, 3):
        ups.take(req(), A, B, 0, frame, frame * 50_000_000)
    ups.take(req(), A, B, 0, 4, 199_999_999)  # of another mirror, or interface
    ups.take(req(), C, B, 0, 4, 200_000_000)
    ups.take(req(0xA1), A, B, 0, 5, 250_000_000)
    assert [(one.ends[0], one.tries) for one in ups.all] == [(A, 3), (C, 1), (A, 1)]
    rep = mad(7, 3, cm.REP_ID, build(cm.REP, local_communication_id=0xB0, remote_communication_id=0xA0, local_qpn=0x22, starting_psn=9))
    found = ups.take(rep, B, A, 0, 6, 300_000_000)
    assert found is not None and found[0] is ups.all[0] and ups.all[0].qpns == [0x11, 0x22] and ups.all[0].psns == [5, 9]
    assert terms(ups.all[0]) == (1024, 4096 << 13) and ups.all[1].rep is None


def test_another_service_is_another_connection_and_the_first_rep_stands() -> None:
    ups = SetUps()
    for frame, service in enumerate((0x99, 0x99, 0x98), 1):
        ups.take(req(service_id=service), A, B, 0, frame, frame * 50_000_000)
    assert [one.tries for one in ups.all] == [2, 1]
    for frame, qpn in ((4, 0x22), (5, 0x23)):
        rep = mad(7, 3, cm.REP_ID, build(cm.REP, local_communication_id=0xB0, remote_communication_id=0xA0, local_qpn=qpn))
        ups.take(rep, B, A, 0, frame, frame)
    assert (ups.all[1].reps, ups.all[1].rep, ups.all[1].qpns[1]) == (2, (4, 4), 0x22)


def test_the_latest_dreq_is_kept_when_there_are_many() -> None:
    ups = SetUps()
    ups.take(req(), A, B, 0, 1, 10)
    for frame in range(2, connection_setups.MAX_TRIES + 4):
        ups.take(mad(7, 3, cm.DREQ_ID, build(cm.DREQ, local_communication_id=0xA0)), A, B, 0, frame, frame)
    assert (len(ups.all[0].dreqs), ups.all[0].dreqs[0][0], ups.all[0].dreqs[-1][0]) == (
        connection_setups.MAX_TRIES,
        2,
        connection_setups.MAX_TRIES + 3,
    )


def test_an_id_that_is_used_again_after_the_end_is_another_connection() -> None:
    ups = SetUps()
    ups.take(req(), A, B, 0, 1, 10)
    ups.take(mad(7, 3, cm.REJ_ID, build(cm.REJ, remote_communication_id=0xA0, reason=28)), B, A, 0, 2, 20)
    ups.take(req(), A, B, 0, 3, 30)
    assert [(one.tries, one.rej is not None) for one in ups.all] == [(1, True), (1, False)]


def test_cut_messages_tell_what_is_left_of_them() -> None:
    whole = req()
    assert field_of(whole[24:], cm.REQ.starting_psn) == 5 and field_of(whole[24:70], cm.REQ.starting_psn) is None
    ups = SetUps()
    assert ups.take(whole[:24], A, B, 0, 1, 10) is None
    ups.take(whole[:40], A, B, 0, 2, 20)
    assert ups.all[0].ids[0] == 0xA0 and ups.all[0].qpns[0] is None
    rej = mad(7, 3, cm.REJ_ID, build(cm.REJ, remote_communication_id=0xA0, reason=8))
    ups.take(rej[:34], B, A, 0, 3, 30)
    assert ups.all[0].rej == (3, 30, None, 1)


def test_an_answer_whose_request_is_missing_begins_a_connection() -> None:
    ups = SetUps()
    ups.take(mad(7, 3, cm.REJ_ID, build(cm.REJ, remote_communication_id=0xA0, reason=8)), B, A, 0, 1, 10)
    assert ups.all[0].ends == (A, B) and ups.all[0].tries == 0
    assert ups.take(mad(7, 3, cm.RTU_ID, build(cm.RTU, local_communication_id=9, remote_communication_id=8)), A, B, 0, 2, 20) is None


def test_they_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_setups, "MAX_SETUPS", 2)
    ups = SetUps()
    for i in range(5):
        ups.take(req(i + 1), A, B, 0, i + 1, i)
    assert len(ups.all) == 2 and ups.dropped == 3 and len(ups.by_id) <= 4
