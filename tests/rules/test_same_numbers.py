"""Facts stay with whom they are of, where another one has the same numbers: a virtual port with that LID, or the LID's next owner.

Each case is a proof of its rule, and the same capture with one thing changed that makes its facts another one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ibdissect.wire.sm import SMInfo
from tests.cases import few
from tests.craft import build, erf_pcap, rc, ud
from tests.rules.CC.cases import BLOCK_2, CAP, WRONG, keyed
from tests.rules.made.conversations import SECONDS, WAIT, agent, counters, gid_of
from tests.rules.made.conversations import sa as gsi_sa
from tests.rules.made.traps import bad_key, trap
from tests.rules.MKY.cases import key_shown, tried
from tests.rules.PKY.cases import ACK, TALK, TO_5
from tests.rules.SA.cases import LATE, OVER, REFUSING, SERVES, TRUSTED
from tests.rules.test_rules import lint
from tests.subnet.made import answer, node, port_info

MAD_AT, MAD_END = 28, 284
"""Where a management datagram stands in a native frame without a GRH."""
VIRTUAL = gid_of(77)
"""The GID of a virtual port, which has the LID of its adapter, or of a port behind a router."""
MINE, NEXT = ([answer(5, 0x11, node(of)), answer(5, 0x15, port_info(5))] for of in (5, 7))
"""Who LID 5 is: one adapter, then another one."""
GONE: list[bytes] = [answer(5, 0x15, port_info(0)), *NEXT]


def virtual(frame: bytes, *, sends: bool) -> bytes:
    """The same datagram with a GRH, from the virtual port or to it."""
    slid, dlid = (int.from_bytes(frame[at : at + 2], "big") for at in (6, 2))
    gids = {"sgid": VIRTUAL, "dgid": gid_of(dlid)} if sends else {"sgid": gid_of(slid), "dgid": VIRTUAL}
    return ud(frame[MAD_AT:MAD_END], slid=slid, dlid=dlid, grh=gids)


def through(exchange: Sequence[bytes], *, asks: bool = False) -> list[bytes]:
    """Requests and their answers, of which the virtual port is the agent, or the requester if `asks`."""
    return [virtual(frame, sends=bool(i % 2) != asks) for i, frame in enumerate(exchange)]


def loud(code: str, frames: Sequence[bytes], **kw: Any) -> bool:
    """Whether a rule reports something that is no info."""
    return any(one.code == code and one.severity != "info" for one in lint(erf_pcap(frames, **kw)))


STEP = {"step_ns": 1_000_000_000}
CASES: dict[str, tuple[list[bytes], list[bytes], dict[str, Any]]] = {
    "CC001": ([*keyed(1), *WRONG], [*through(keyed(1)), *WRONG], STEP),
    "CC003": ([*CAP, BLOCK_2], [*through(CAP), BLOCK_2], {}),
    "PM002": ([*agent(), counters(1, port_select=255)], [*through(agent()), counters(1, port_select=255)], {}),
    "SA006": ([*TRUSTED, LATE, *SERVES], [*through(TRUSTED), LATE, *SERVES], STEP),
    "PKY021": ([*MINE, FIRST := ud(bytes(8), dest_qp=0x40, src_qp=0x50, q_key=7, bth={"p_key": 0x123}, **TO_5),
                BACK := ud(bytes(8), dest_qp=0x50, src_qp=0x40, q_key=7, bth={"p_key": 0x123}, slid=5, dlid=3)],
               [*MINE, FIRST, *GONE, BACK], {}),
    "MKY015": ([*(OTHER := [answer(1, 0x11, node(1)), answer(1, 0x15, port_info(1))]), key_shown(), tried(1), tried(2), tried(3)],
               [*OTHER, key_shown(), tried(1), tried(2), answer(1, 0x15, port_info(0)), answer(1, 0x11, node(8)),
                answer(1, 0x15, port_info(1)), tried(3)], {}),
}  # fmt: skip
"""By rule: a proof, the legal capture, and the time between frames."""


@few("code", CASES, fast=(0, 1, 2, 3))
def test_facts_of_another_one(code: str) -> None:
    proof, legal, kw = CASES[code]
    assert loud(code, proof, **kw), "the proof is lost"
    assert not loud(code, legal, **kw), "accused by what is another one's"


@pytest.mark.slow
def test_a_subscription_of_a_virtual_port() -> None:
    """It ends for that port: reports to the adapter itself are another one's. The rule is an info anyway."""
    gone = through(OVER, asks=True)
    assert "SA020" in {one.code for one in lint(SECONDS([*OVER, *REFUSING]))}
    assert "SA020" not in {one.code for one in lint(SECONDS([*gone, *REFUSING]))}


def test_a_standby_that_left_its_lid() -> None:
    standby = answer(5, 0x20, build(SMInfo, guid=0x0002C90300001051, sm_state=2))
    lost = [gsi_sa(1, 0x31, mask=1, slid=1, dlid=5), *WAIT]
    assert "SA024" in {one.code for one in lint(SECONDS([*MINE, standby, *lost]))}
    assert "SA024" not in {one.code for one in lint(SECONDS([*MINE, standby, *GONE, *lost]))}


def test_limited_members_acknowledge() -> None:
    """Connected queue pairs as well, whose directions belong together as nothing else is between the ports."""
    sent = rc(0x04, bytes(8), bth=TALK, **TO_5)
    assert loud("PKY021", [*MINE, sent, ACK]) and not loud("PKY021", [*MINE, sent, *GONE, ACK])


@pytest.mark.slow
def test_traps_of_two_ports() -> None:
    storm = [trap(256, bad_key(), tid=tid) for tid in range(1, 5)]
    assert "MKY011" in {one.code for one in lint(erf_pcap([*MINE, *storm]))}
    assert "MKY011" not in {one.code for one in lint(erf_pcap([*MINE, *storm[:2], *GONE, *storm[2:]]))}
