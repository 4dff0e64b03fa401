"""A packet is the same at every point, whatever the link type, the snap length, and what routers change."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.capture.writing import CaptureWriter
from ibdissect.points.comparison import Comparison
from ibdissect.points.packet_identity import FIELDS
from ibdissect.points.reading import Point, read_points
from ibdissect.wire.opa import STLSMPDirected
from tests import tunnels
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND, LINK_SLL, build, ethernet_pcap, native, rc, roce2, smp, ud

PAYLOAD = bytes(range(200))


def written(folder: Path, name: str, frame: bytes, *, link: int = LINK_ETHERNET, cut: int | None = None) -> str:
    path = str(folder / name)
    with CaptureWriter(path) as writer:
        writer.write(frame[:cut], link=link, time_ns=10**18, length=len(frame))
    return path


def keys(folder: Path, *frames: bytes) -> list[int]:
    paths = []
    for i, frame in enumerate(frames):
        link = LINK_ETHERNET if frame[12:14] == b"\x08\x00" else LINK_INFINIBAND
        paths.append(written(folder, f"{i}.pcap", frame, link=link))
    points, _ = read_points(paths)
    return [int(point.seen.key[0]) for point in points]


def test_same_packet_everywhere(tmp_path: Path) -> None:
    plain = roce2(payload=PAYLOAD)
    cooked = bytes(14) + b"\x08\x00" + plain[14:]
    routed = bytearray(roce2(payload=PAYLOAD, ip={"ttl": 62, "ecn": 3}, vlan=7))
    points, flows = read_points([
        written(tmp_path, "plain.pcap", plain),
        written(tmp_path, "cooked.pcap", cooked, link=LINK_SLL),
        written(tmp_path, "routed.pcap", bytes(routed)),
        written(tmp_path, "cut.pcap", plain, cut=120),
    ])  # fmt: skip
    assert len({int(point.seen.key[0]) for point in points}) == 1 and len(flows.known) == 1

    def fields(point: Point) -> dict[str, int]:
        return dict(zip(FIELDS, point.seen.fields[0].tolist(), strict=True))

    assert [fields(point)["ttl"] for point in points] == [64, 64, 62, 64]
    assert [fields(point)["ecn"] for point in points] == [0, 0, 3, 0]
    assert [fields(point)["vlan"] for point in points] == [0, 0, 1, 0]
    assert [fields(point)["mac"] >= 0 for point in points] == [True, False, True, True]


@pytest.mark.parametrize(("subnet", "same"), [(2, True), (1, False)])
def test_routers_of_infiniband_change_the_lrh(subnet: int, same: bool, tmp_path: Path) -> None:
    """Only of packets whose GIDs are of two subnets; in the same one nobody changes LIDs."""
    gids = {"sgid": bytes([0xFE, 0x80, *bytes(5), 1, *bytes(7), 1]), "dgid": bytes([0xFE, 0x80, *bytes(5), subnet, *bytes(7), 2])}
    sides = (5, 9, 64, 2, 1), (19, 7, 63, 5, 3)
    frames = [rc(0x04, PAYLOAD, slid=slid, dlid=dlid, grh={**gids, "hop_lmt": left}, lrh={"sl": sl, "vl": vl})
              for slid, dlid, left, sl, vl in sides]  # fmt: skip
    points, flows = read_points([written(tmp_path, f"{i}.pcap", frame, link=LINK_INFINIBAND) for i, frame in enumerate(frames)])
    assert (len({int(point.seen.key[0]) for point in points}) == 1) is same and len(flows.known) == 2 - same
    changed = {name for k, name in enumerate(FIELDS) if len({int(point.seen.fields[0, k]) for point in points}) > 1}
    assert changed == {"vl", "ttl", *(() if same else ("sl", "address"))}
    assert all("fe80" in end for end in flows.known[0].text) is same


@pytest.mark.slow
def test_a_packet_in_a_tunnel_is_the_same(tmp_path: Path) -> None:
    """Also where the capture or the mirror cut it: only bytes that every point has are compared."""
    plain = roce2(payload=PAYLOAD)
    for kind in (*tunnels.FRAMES, *tunnels.PACKETS):
        whole, _ = tunnels.wrapped(kind, plain)
        cut, _ = tunnels.wrapped(kind, plain[:90], len(plain))
        (tmp_path / "mirror.pcap").write_bytes(ethernet_pcap([cut]))
        points, _ = read_points([
            written(tmp_path, "plain.pcap", plain), written(tmp_path, "whole.pcap", whole), str(tmp_path / "mirror.pcap"),
            written(tmp_path, "cut.pcap", whole, cut=len(cut)),
        ])  # fmt: skip
        assert len({int(point.seen.key[0]) for point in points}) == 1, kind


def test_other_packets_have_other_keys(tmp_path: Path) -> None:
    changed = bytearray(PAYLOAD)
    changed[150] ^= 1
    assert len(set(keys(
        tmp_path, roce2(payload=PAYLOAD), roce2(payload=bytes(changed)), roce2(payload=PAYLOAD, bth={"psn": 2}),
        roce2(payload=PAYLOAD, bth={"p_key": 0x8001}), native(payload=PAYLOAD), native(payload=PAYLOAD, dlid=9),
    ))) == 6  # fmt: skip


def test_directed_routes_change_at_each_hop(tmp_path: Path) -> None:
    """Hop pointer and return path differ from link to link; the transaction does not."""
    first, second, other = (
        smp(1, 0x11, path=[1, 2, 3], header={"transaction_id": tid}, dr={"hop_pointer": hop, "return_path": bytes([0, *range(hop)])})
        for tid, hop in ((5, 1), (5, 2), (6, 1))
    )
    paths = [written(tmp_path, f"{i}.pcap", frame, link=LINK_INFINIBAND) for i, frame in enumerate((first, second, other))]
    points, flows = read_points(paths)
    assert points[0].seen.key == points[1].seen.key != points[2].seen.key
    assert [int(point.seen.fields[0, FIELDS.index("hop_pointer")]) for point in points] == [0, 1, 0]
    assert flows.known[0].text[0] == "SM"


def test_directed_routes_of_omni_path_are_where_they_are(tmp_path: Path) -> None:
    """Its paths precede the attribute, where a key may be: the name of the route must not depend on it, and the packet does."""

    def frame(hop: int, data: bytes) -> bytes:
        paths = {"initial_path": bytes([0, 1, 2, 3]) + bytes(60), "return_path": bytes([hop]) * 64}
        head = build(STLSMPDirected, hop_pointer=hop, hop_count=3, **paths)
        sent = bytearray(head + data)
        sent[:4], sent[8:24] = b"\x80\x81\x80\1", bytes(16)
        return ud(bytes(sent), dest_qp=0, src_qp=0)

    frames = frame(1, bytes(16)), frame(2, bytes(16)), frame(1, bytes(8) + b"some key")
    points, flows = read_points([written(tmp_path, f"{i}.pcap", one, link=LINK_INFINIBAND) for i, one in enumerate(frames)])
    assert points[0].seen.key == points[1].seen.key != points[2].seen.key
    assert {int(point.seen.flow[0]) for point in points} == {0} and flows.known[0].text[0] == "SM"


def test_packets_of_one_moment_are_in_the_order_of_their_points_and_frames(tmp_path: Path) -> None:
    """Not in that of their hashes, which tells something about hidden keys."""
    frames = [native(payload=bytes([i, 7]), bth={"psn": i}) for i in range(1, 9)]
    for name in ("a", "b"):
        with CaptureWriter(str(tmp_path / f"{name}.pcap")) as writer:
            for frame in frames:
                writer.write(frame, link=LINK_INFINIBAND, time_ns=10**18, length=len(frame))
    compared = Comparison([str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")])
    assert [psn for block in compared.blocks() for psn in block.packets.psn.tolist()] == list(range(1, 9))
