"""Only facts answered to a Get before any Set hold for earlier packets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.late_facts import LateFacts
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyTable
from tests import craft
from tests.decode.made import tables_of
from tests.subnet.made import SET, answer, ask, history, node, p_keys, port_info

NEVER = -1

NODE_INFO, PORT_INFO, P_KEY_TABLE = 0x11, 0x15, 0x16
BODIES = {NODE_INFO: node(5), PORT_INFO: port_info(5), P_KEY_TABLE: p_keys(0xFFFF)}


def exchange(attribute: int, transaction: int, *, method: int = 1, m_key: int = 0) -> list[bytes]:
    """A request and its answer; `m_key` is that of the port."""
    header = {"transaction_id": transaction}
    body = port_info(5, m_key=m_key) if m_key else BODIES[attribute]
    return [ask(5, attribute, method=method, body=body if method == SET else b"", header=header), answer(5, attribute, body, header=header)]


def followed(frames: Sequence[bytes], window: int = 1 << 20) -> tuple[LateFacts, FabricFollower]:
    """A capture taken in."""
    later, follower = LateFacts(history(PortInfo), history(PKeyTable)), FabricFollower()
    for table in tables_of(craft.erf_pcap(frames), window):
        for event in follower.feed(table):
            if isinstance(event, ChunkFollowed):
                event.once(later.take)
    return later, follower


KNOWN = [*exchange(NODE_INFO, 1), *exchange(PORT_INFO, 2)]
OTHER = [answer(6, NODE_INFO, node(6)), answer(6, PORT_INFO, port_info(6))]
READ, WRITTEN = exchange(P_KEY_TABLE, 3), exchange(P_KEY_TABLE, 4, method=SET)


@pytest.mark.parametrize("window", [100, 500, 1 << 20])
@pytest.mark.parametrize(
    ("frames", "sure"),
    [
        ([*KNOWN, *READ], True),
        ([*KNOWN, *READ, *exchange(P_KEY_TABLE, 9)], True),
        ([*KNOWN, *WRITTEN], False),
        ([*KNOWN, *WRITTEN, *READ], False),
        ([*KNOWN, *READ, *WRITTEN], False),
        ([*KNOWN, READ[1]], False),
        ([*KNOWN, ask(5, P_KEY_TABLE, method=SET, body=p_keys(1), header={"transaction_id": 3}), READ[1]], False),
        ([ask(6, P_KEY_TABLE, method=SET, body=p_keys(1)), *KNOWN, *READ], False),
        ([*KNOWN, READ[0], ask(5, P_KEY_TABLE, method=SET, body=p_keys(1), header={"transaction_id": 3}), READ[1]], False),
        ([*OTHER, *KNOWN, READ[0], ask(6, P_KEY_TABLE, method=SET, body=p_keys(1), header={"transaction_id": 3}), READ[1]], True),
    ],
    ids=[
        "read",
        "read-twice",
        "written",
        "written-then-read",
        "read-then-written",
        "no-request",
        "answer-to-a-set",
        "set-to-an-unknown-port",
        "set-with-the-same-id",
        "set-of-another-port-with-the-same-id",
    ],
)
def test_tables(frames: list[bytes], sure: bool, window: int) -> None:
    later, follower = followed(frames, window)
    port = follower.subnet.by_lid(5)
    assert port is not None and later.p_keys(port) is sure


def test_owner_and_m_key() -> None:
    later, follower = followed([*exchange(NODE_INFO, 1), *exchange(PORT_INFO, 2, m_key=7)])
    port = follower.subnet.by_lid(5)
    assert port is not None
    assert later.owner(follower.subnet, 5) == (port, 4) and later.m_key(port) == 4
    assert later.owner(follower.subnet, 6) is None
    later, follower = followed([*exchange(NODE_INFO, 1), *exchange(PORT_INFO, 2, method=SET, m_key=7)])
    port = follower.subnet.by_lid(5)
    assert port is not None and later.owner(follower.subnet, 5) is None and later.m_key(port) == NEVER


def test_frames_before_the_first_answer_or_set_of_a_port() -> None:
    later, follower = followed([*exchange(NODE_INFO, 1), *exchange(PORT_INFO, 2), *exchange(PORT_INFO, 3, method=SET)])
    (port,) = [one for one in follower.subnet.ports() if one.lid == 5]
    keys = np.full(4, port.key)
    assert later.infos.precede(keys, np.array([1, 3, 4, 5])).tolist() == [True, True, False, False]
    assert later.infos.precede(keys + 1, np.array([1, 3, 4, 5])).tolist() == [True] * 4, "never shown"
    assert later.infos.first_answer(port.key) == 4 and later.infos.first_answer(port.key + 1) == NEVER
    assert later.tables.precede(keys, np.array([1, 3, 4, 5])).all() and later.tables.first_answer(port.key) == NEVER


@pytest.mark.parametrize(("most", "known", "dropped"), [(2, 2, (0, 0)), (1, 0, (2, 1)), (3, 2, (0, 0))])
def test_ports_beyond_the_bound_are_never_certain(most: int, known: int, dropped: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.subnet.late_facts.MAX_KEPT", most)
    frames = [frame for lid in (5, 6) for frame in (ask(lid, PORT_INFO, header={"transaction_id": lid}),
              answer(lid, PORT_INFO, port_info(lid), header={"transaction_id": lid}))]  # fmt: skip
    later, follower = followed([answer(5, NODE_INFO, node(5)), answer(6, NODE_INFO, node(6)), *frames])
    assert sum(later.infos.first_answer(port.key) != NEVER for port in follower.subnet.ports()) == known
    assert later.infos.dropped.count == dropped[0] and bool(later.infos.dropped.frame) is bool(dropped[1])
