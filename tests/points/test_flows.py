"""A flow is known by its ends, and by the port behind several LIDs."""

from __future__ import annotations

from ibdissect.points.flows import PointFlow, PointFlows


def lid(number: int) -> bytes:
    return number.to_bytes(2, "big")


def test_paths_to_one_port_are_one_flow() -> None:
    """LMC 1: the port with LID 4 also answers to 5; LID 7 belongs to nobody that sends."""
    flows = PointFlows()
    ends = [(8, 4, 5), (8, 5, 5), (4, 8, 5), (8, 7, 5), (8, 5, 6)]
    flows.known = [PointFlow(lid(source), lid(to), queue_pair) for source, to, queue_pair in ends]
    assert flows.merged().tolist() == [0, 0, 2, 0, 4]
    to_port, to_lid = (flows.ends(by_lid=by_lid)[:, 1].tolist() for by_lid in (False, True))
    assert to_port[0] == to_port[1] and to_lid[0] != to_lid[1]
    flows.known.append(PointFlow(lid(6), lid(8), 5))
    assert flows.merged().tolist()[:5] == [0, 0, 2, 3, 4]
