"""A packet is the same at every point, whatever the link type, the snap length, and what routers change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibdissect.capture.writing import CaptureWriter
from ibdissect.errors import CaptureError
from ibdissect.wire.opa import STLSMPDirected
from tests import tunnels
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND, LINK_SLL, build, ethernet_pcap, native, rc, roce2, smp, ud

from .world import said

PAYLOAD = bytes(range(200))


def written(folder: Path, name: str, frame: bytes, *, link: int = LINK_ETHERNET, cut: int | None = None) -> str:
    path = str(folder / name)
    with CaptureWriter(path) as writer:
        writer.write(frame[:cut], link=link, time_ns=10**18, length=len(frame))
    return path


def changed(found: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """What changed on the way between two points, in one direction."""
    return {(pair["from"], pair["to"]): {*pair["changed"]} for pair in found["pairs"]}


def test_same_packet_everywhere(tmp_path: Path) -> None:
    plain = roce2(payload=PAYLOAD)
    cooked = bytes(14) + b"\x08\x00" + plain[14:]
    routed = bytearray(roce2(payload=PAYLOAD, ip={"ttl": 62, "ecn": 3}, vlan=7))
    found = said([
        written(tmp_path, "plain.pcap", plain),
        written(tmp_path, "cooked.pcap", cooked, link=LINK_SLL),
        written(tmp_path, "routed.pcap", bytes(routed)),
        written(tmp_path, "cut.pcap", plain, cut=120),
    ])  # fmt: skip
    assert found["packets"] == [[1, 1, 1, 1]] and len(found["conversations"]) == 1
    ways = changed(found)
    assert ways["plain", "cooked"] == ways["plain", "cut"] == ways["cooked", "cut"] == set(), "a cooked capture shows no MAC"
    assert ways["plain", "routed"] == ways["routed", "cut"] == {"ttl", "ecn", "vlan"}


@pytest.mark.parametrize(("subnet", "same"), [(2, True), (1, False)])
def test_routers_of_infiniband_change_the_lrh(subnet: int, same: bool, tmp_path: Path) -> None:
    """Only of packets whose GIDs are of two subnets; in the same one nobody changes LIDs."""
    gids = {"sgid": bytes([0xFE, 0x80, *bytes(5), 1, *bytes(7), 1]), "dgid": bytes([0xFE, 0x80, *bytes(5), subnet, *bytes(7), 2])}
    sides = (5, 9, 64, 2, 1), (19, 7, 63, 5, 3)
    frames = [rc(0x04, PAYLOAD, slid=slid, dlid=dlid, grh={**gids, "hop_lmt": left}, lrh={"sl": sl, "vl": vl})
              for slid, dlid, left, sl, vl in sides]  # fmt: skip
    paths = [written(tmp_path, f"{i}.pcap", frame, link=LINK_INFINIBAND) for i, frame in enumerate(frames)]
    if not same:
        with pytest.raises(CaptureError, match=r"1\.pcap: shares no packet"):
            said(paths)
        return
    found = said(paths)
    assert found["packets"] == [[1, 1]] and changed(found) == {("0", "1"): {"vl", "ttl"}}
    (one,) = found["conversations"]
    assert "fe80" in one["source"] and "fe80" in one["destination"]


@pytest.mark.slow
def test_a_packet_in_a_tunnel_is_the_same(tmp_path: Path) -> None:
    """Also where the capture or the mirror cut it: only bytes that every point has are compared."""
    plain = roce2(payload=PAYLOAD)
    for kind in (*tunnels.FRAMES, *tunnels.PACKETS):
        whole, _ = tunnels.wrapped(kind, plain)
        cut, _ = tunnels.wrapped(kind, plain[:90], len(plain))
        (tmp_path / "mirror.pcap").write_bytes(ethernet_pcap([cut]))
        found = said([
            written(tmp_path, "plain.pcap", plain), written(tmp_path, "whole.pcap", whole), str(tmp_path / "mirror.pcap"),
            written(tmp_path, "cut.pcap", whole, cut=len(cut)),
        ])  # fmt: skip
        assert found["packets"] == [[1, 1, 1, 1]], kind


def test_other_packets_are_others(tmp_path: Path) -> None:
    """By payload, PSN, partition, network and receiver; the first one is the same."""
    other = bytearray(PAYLOAD)
    other[150] ^= 1
    frames = [
        roce2(payload=PAYLOAD), roce2(payload=bytes(other)), roce2(payload=PAYLOAD, bth={"psn": 2}),
        roce2(payload=PAYLOAD, bth={"p_key": 0x8001}), native(payload=PAYLOAD), native(payload=PAYLOAD, dlid=9),
    ]  # fmt: skip
    for name, some in (("all", frames), ("one", frames[:1])):
        with CaptureWriter(str(tmp_path / f"{name}.pcapng")) as writer:
            for at, frame in enumerate(some):
                link = LINK_ETHERNET if frame[12:14] == b"\x08\x00" else LINK_INFINIBAND
                writer.write(frame, link=link, time_ns=10**18 + 50_000 * at)
    found = said([str(tmp_path / f"{name}.pcapng") for name in ("all", "one")])["packets"]
    assert found == [[1, 1], *([frame, None] for frame in range(2, 7))]


def same(folder: Path, first: bytes, second: bytes, *, other: bytes) -> dict[str, Any]:
    """What is said of two packets that are the same, and of a third one that only the second point has."""
    for name, some in (("0", [first]), ("1", [second, other])):
        (folder / f"{name}.pcap").write_bytes(ethernet_pcap(some, link=LINK_INFINIBAND))
    found = said([str(folder / f"{i}.pcap") for i in range(2)])
    assert found["packets"] == [[1, 1], [None, 2]]
    return found


@pytest.mark.slow
def test_directed_routes_change_at_each_hop(tmp_path: Path) -> None:
    """Hop pointer and return path differ from link to link; the transaction does not."""
    first, second, other = (
        smp(1, 0x11, path=[1, 2, 3], header={"transaction_id": tid}, dr={"hop_pointer": hop, "return_path": bytes([0, *range(hop)])})
        for tid, hop in ((5, 1), (5, 2), (6, 1))
    )
    found = same(tmp_path, first, second, other=other)
    assert changed(found) == {("0", "1"): {"hop_pointer"}}
    assert [one["source"] for one in found["conversations"]] == ["SM"]


def test_directed_routes_of_omni_path_are_where_they_are(tmp_path: Path) -> None:
    """Its paths precede the attribute, where a key may be: the name of the route must not depend on it, and the packet does."""

    def frame(hop: int, data: bytes) -> bytes:
        paths = {"initial_path": bytes([0, 1, 2, 3]) + bytes(60), "return_path": bytes([hop]) * 64}
        head = build(STLSMPDirected, hop_pointer=hop, hop_count=3, **paths)
        sent = bytearray(head + data)
        sent[:4], sent[8:24] = b"\x80\x81\x80\1", bytes(16)
        return ud(bytes(sent), dest_qp=0, src_qp=0)

    found = same(tmp_path, frame(1, bytes(16)), frame(2, bytes(16)), other=frame(1, bytes(8) + b"some key"))
    assert [(one["source"], one["packets"]) for one in found["conversations"]] == [("SM", 2)]


def test_packets_of_one_moment_are_in_the_order_of_their_points_and_frames(tmp_path: Path) -> None:
    """Not in that of their hashes, which tells something about hidden keys."""
    frames = [native(payload=bytes([i, 7]), bth={"psn": i}) for i in range(1, 9)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.pcap").write_bytes(ethernet_pcap(frames, link=LINK_INFINIBAND, step_ns=0))
    assert said([str(tmp_path / f"{name}.pcap") for name in ("a", "b")])["packets"] == [[frame, frame] for frame in range(1, 9)]
