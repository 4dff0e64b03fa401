"""A datagram service that was asked for (SIDR) is followed to its answer, and named by its port."""

from __future__ import annotations

from typing import Any

from ibdissect.decode.cm_connections import Connections
from tests import craft
from tests.decode.made import native_table

CM, SEND, REQUEST, REPLY = 0x07, 0x03, 0x0017, 0x0018
SERVICE = 0x01064242


def ask(request: int, service: int = SERVICE, **kw: Any) -> bytes:
    body = craft.build("SIDRReq", request_id=request, service_id=service)
    return craft.gmp(CM, SEND, REQUEST, body, at=24, slid=1, dlid=2, **kw)


def tell(request: int, qpn: int = 0x77, status: int = 0, **kw: Any) -> bytes:
    body = craft.build("SIDRRep", request_id=request, qpn=qpn, status=status)
    return craft.gmp(CM, SEND, REPLY, body, at=24, **{"slid": 2, "dlid": 1, **kw})


def followed(*frames: bytes) -> Connections:
    connections = Connections()
    list(connections.feed(native_table(frames)))
    return connections


def test_an_answer_belongs_to_its_request() -> None:
    one, two = followed(ask(7), ask(8, 99), tell(8, 0x55), tell(7), tell(7, 0x99)).resolutions
    assert (one.service_id, one.frame, one.reply_frame, one.qpn, one.status, one.asked) == (SERVICE, 1, 4, 0x77, 0, 1)
    assert (two.service_id, two.reply_frame, two.qpn) == (99, 3, 0x55)


def test_a_request_that_is_repeated_is_one() -> None:
    (one,) = followed(ask(7), ask(7), ask(7), tell(7, status=1)).resolutions
    assert (one.asked, one.reply_frame, one.status) == (3, 4, 1)


def test_a_request_id_that_is_used_again() -> None:
    """After its answer, or for another service, it is another request."""
    found = followed(ask(7), tell(7, 0x10), ask(7), tell(7, 0x20), ask(7, 5)).resolutions
    assert [(one.service_id, one.reply_frame, one.qpn) for one in found] == [(SERVICE, 2, 0x10), (SERVICE, 4, 0x20), (5, 0, -1)]


def test_answers_of_others_are_left() -> None:
    (one,) = followed(ask(7), tell(6), tell(7, dlid=9)).resolutions
    assert one.reply_frame == 0
