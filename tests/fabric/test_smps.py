"""Are exactly the relevant management packets selected?"""

from __future__ import annotations

from ibdissect.fabric.smps import FIND_PLACE, HANDLE_ANSWER, HANDLE_REQUEST, Smps
from tests import craft
from tests.table.made import native_table

from .made import ANSWER, GET, REPRESS, SET, answer, ask, node, port_info


def smps(*frames: bytes, keyed: bool = False) -> Smps:
    table = native_table(frames)
    return Smps(table, keyed=keyed)


def test_smps_of_both_classes_and_nothing_else() -> None:
    found = smps(
        answer(5, 0x11, node(5)),
        answer(5, 0x31, bytes(64)),  # an answer that teaches nothing here: it has a sender all the same
        ask(5, 0x19, modifier=3, m_key=7),
        answer(5, 0x11, node(5), header={"status": 0x0C}),
        craft.smp(ANSWER, 0x15, port_info(9, m_key=1 << 63), path=[1, 2, 3]),  # status 0x8000: the D bit
        craft.smp(GET, 0x15, dest_qp=1),  # nobody takes it for an SMP
        craft.smp(GET, 0x15, header={"base_version": 0x80}),
        craft.gmp(4, GET, 0x12),
        craft.native(0x04, bytes(300)),
    )
    assert found.rows.tolist() == [0, 1, 2, 4] and found.kind.tolist() == [HANDLE_ANSWER, FIND_PLACE, FIND_PLACE, HANDLE_ANSWER]
    assert found.directed == [False, False, False, True] and found.pure.tolist() == found.directed
    assert found.path(3) == bytes([1, 2, 3])
    assert (found.slid[0], found.dlid[2], found.m_key(2)) == (5, 5, 7)
    assert found.facts[0] is not None and found.facts[0][0] == 1 and found.facts[2] is None
    assert found.facts[3] is None and found.bodies[3].tobytes()[:8] == (1 << 63).to_bytes(8, "big")
    assert found.bodies[0].tobytes() == node(5)


def test_requests_are_skipped_without_any_key() -> None:
    frames = [ask(5, 0x15), answer(5, 0x15, port_info(5)), ask(5, 0x16, method=SET), ask(5, 0x02, method=REPRESS)]
    assert smps(*frames).kind.tolist() == [FIND_PLACE, HANDLE_ANSWER, HANDLE_REQUEST, HANDLE_REQUEST]
    keyed = smps(*frames, ask(5, 0x15, method=SET, body=port_info(5, m_key=9)))
    assert keyed.kind.tolist() == [FIND_PLACE, HANDLE_ANSWER, HANDLE_REQUEST, HANDLE_REQUEST, HANDLE_REQUEST]
    assert smps(*frames, keyed=True).kind[0] == HANDLE_REQUEST


def test_hop_count_beyond_the_path() -> None:
    found = smps(craft.smp(GET, 0x11, path=[1], dr={"hop_count": 255, "initial_path": bytes(range(64))}))
    assert found.path(0) == bytes(range(1, 64))
