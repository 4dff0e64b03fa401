"""A flow is known by its ends, and by the port behind several LIDs."""

from __future__ import annotations

from pathlib import Path

from tests.cases import few
from tests.craft import LINK_INFINIBAND, ethernet_pcap, rc, ud
from tests.rules.made.conversations import gid_of

from .world import START, said

Conversation = tuple[str, str, int, int]
"""Source, destination, queue pair, packets."""


def conversations(folder: Path, frames: list[bytes]) -> set[Conversation]:
    """Those of native packets that two points captured."""
    paths = []
    for name in ("a", "b"):
        paths.append(str(folder / f"{name}.pcap"))
        Path(paths[-1]).write_bytes(ethernet_pcap(frames, link=LINK_INFINIBAND, start_ns=START + (name == "b") * 700))
    return {(one["source"], one["destination"], one["dest_qp"], one["packets"]) for one in said(paths)["conversations"]}


def test_paths_to_one_port_are_one_flow(tmp_path: Path) -> None:
    """LMC 1: the port with LID 4 also answers to 5; LID 7 belongs to nobody that sends, until 6 does."""
    ends = [(8, 4, 5), (8, 5, 5), (4, 8, 5), (8, 7, 5), (8, 5, 6)]
    frames = [rc(0x04, bytes(8), slid=source, dlid=to, bth={"destqp": qp, "psn": psn}) for psn, (source, to, qp) in enumerate(ends)]
    there = {("LID 4", "LID 8", 5, 1), ("LID 8", "LID 5", 6, 1)}
    assert conversations(tmp_path, frames) == there | {("LID 8", "LID 5", 5, 3)}
    frames.append(rc(0x04, bytes(8), slid=6, dlid=8, bth={"destqp": 5, "psn": 9}))
    assert conversations(tmp_path, frames) == there | {("LID 8", "LID 5", 5, 2), ("LID 8", "LID 7", 5, 1), ("LID 6", "LID 8", 5, 1)}


@few("connected", [True, False], fast=(1,))
def test_connections_to_hosts_behind_a_router_are_flows_of_their_own(tmp_path: Path, connected: bool) -> None:
    """Equal numbers of queue pairs, and the router's LID. A datagram service may send from several GIDs."""
    frames = []
    for psn, host in enumerate((70, 71, 70)):
        how = {"grh": {"sgid": gid_of(1), "dgid": gid_of(host)}, "bth": {"psn": psn}}
        frames.append(rc(0x04, bytes(8), **how) if connected else ud(bytes(8), dest_qp=0x12, **how))
    counts = sorted(packets for *_, packets in conversations(tmp_path, frames))
    assert counts == ([1, 2] if connected else [3])
