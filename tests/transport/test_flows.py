"""Multicast senders, congestion, credits and datagram services are followed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ibdissect.transport.congestion import Congestion
from tests import craft
from tests.cases import every, few
from tests.conftest import shared_captures
from tests.decode.made import tables_of
from tests.rules.made.connections import request
from tests.rules.made.conversations import MGID, gid_of, member
from tests.traffic.test_statistics import counted

THERE, BACK = bytes([192, 168, 0, 1]), bytes([192, 168, 0, 2])
TO, FROM = {"source": THERE, "destination": BACK}, {"source": BACK, "destination": THERE}


def of_frames(frames: list[bytes], *, native: bool = False, **kw: Any) -> dict[str, Any]:
    return counted((craft.erf_pcap if native else craft.ethernet_pcap)(frames, **kw))


# -- multicast


def test_multicast_of_a_capture(shared: Path) -> None:
    (sender,) = counted(str(shared / "captures/rxe/cm_mckey.pcap"))["multicast"]
    # INDEX.md: ten UD SEND Only with immediate of 100 bytes to 239.7.7.7
    assert (sender["source"], sender["group"], sender["packets"], sender["payload_bytes"]) == ("192.168.77.1", "239.7.7.7", 10, 1000)
    assert sender["disagrees"] is None and sender["group_mtu"] is None  # no record of the group


def sent(size: int, q_key: int = 0xB1B, p_key: int = 0xFFFF) -> bytes:
    return craft.ud(bytes(size), dest_qp=0xFFFFFF, src_qp=0x48, q_key=q_key, slid=5, dlid=0xC001, bth={"p_key": p_key},
                    grh={"sgid": gid_of(5), "dgid": MGID})  # fmt: skip


@every(
    ("packet", "disagrees"), [(sent(2044), []), (sent(4000), ["MTU"]), (sent(4, q_key=9), ["Q_Key"]), (sent(4, p_key=0x8001), ["P_Key"])]
)
def test_a_sender_is_compared_with_the_record(packet: bytes, disagrees: list[str]) -> None:
    (sender,) = of_frames([member(0x81), packet], native=True)["multicast"]
    assert sender["group_mtu"] == 2048 and sender["disagrees"] == disagrees and sender["mlid"] == 0xC001


def test_many_senders_are_distinguished() -> None:
    frames = [craft.ud(b"data", dest_qp=0xFFFFFF, src_qp=8, q_key=5, slid=lid, dlid=0xC000 + lid % 3) for lid in range(1, 40)] * 2
    senders = of_frames(frames, native=True)["multicast"]
    assert {(s["source"], s["group"]) for s in senders} == {(f"LID {lid}", f"LID 0x{0xC000 + lid % 3:04x}") for lid in range(1, 40)}
    assert all(s["packets"] == 2 for s in senders)


# -- congestion


def data(psn: int, **ip: Any) -> bytes:
    return craft.roce2(bth={"psn": psn}, ip={**TO, **ip})


def notified() -> bytes:
    return craft.roce2(0x81, bytes(16), headers=b"", bth={"destqp": 0x34, "psn": 0, "becn": 1}, ip=FROM)


def test_marks_and_notifications_are_counted() -> None:
    there, back = of_frames([data(1, ecn=3), data(2, ecn=2), data(3, ecn=3), notified()])["congestion"]
    assert (there["source"], there["ce"], there["cnp"], there["queue_pairs"]) == ("192.168.0.1", 2, 0, 1)
    assert (back["source"], back["ce"], back["cnp"], back["becn"]) == ("192.168.0.2", 0, 1, 0)


def test_fecn_and_becn_of_native_packets() -> None:
    frames = [craft.rc(0x04, b"data", bth={"fecn": 1}), craft.rc(0x11, ext={"AETH": {}}, slid=2, dlid=1, bth={"becn": 1})]
    there, back = of_frames(frames, native=True)["congestion"]
    assert (there["source"], there["fecn"], there["becn"]) == ("LID 1", 1, 0) and (back["fecn"], back["becn"]) == (0, 1)


def test_fragments_and_source_ports() -> None:
    piece = data(2, more_fragments=1, dont_fragment=0)
    frames = [data(1), piece, *[craft.roce2(bth={"destqp": 0x20 + i, "psn": 1}, udp={"source_port": 0xC000 + i}, ip=TO) for i in range(5)]]
    (pair,) = of_frames(frames)["congestion"]
    assert (pair["fragments"], pair["source_ports"], pair["queue_pairs"]) == (1, 5, 6)


@few("window", [16 << 20, 300], fast=(1,))
def test_a_notification_may_come_in_another_chunk(window: int) -> None:
    def ignored(frames: list[bytes]) -> list[int]:
        congestion = Congestion()
        capture = craft.ethernet_pcap(frames, step_ns=400_000_000)
        for table in tables_of(capture, window):
            congestion.feed(table)
        congestion.finish()
        return [pair.ignored_frame for pair in congestion.pairs.values() if pair.ignored_frame]

    wait = [data(9)] * 3
    assert ignored([data(1, ecn=3), notified(), *wait]) == []
    assert ignored([data(1, ecn=3), *wait, notified(), *wait]) == [1]
    assert ignored([data(1, ecn=3), notified(), data(2, ecn=3), *wait]) == [3]


@pytest.mark.parametrize("path", shared_captures("rxe"), ids=lambda path: path.stem)
def test_only_the_marked_captures_have_marks(path: Path) -> None:
    found = {name for pair in counted(str(path))["congestion"] for name in ("ce", "fecn", "becn", "cnp", "fragments") if pair[name]}
    assert found == ({"ce"} if path.stem == "rc_send_tclass_ce" else set())


# -- credits


def acknowledged(psn: int, syndrome: int, qp: int = 0x34) -> bytes:
    return craft.roce2(0x11, ext={"AETH": {"syndrome": syndrome, "msn": psn}}, bth={"psn": psn, "destqp": qp}, ip=FROM)


def test_credits() -> None:
    (stream,) = of_frames([acknowledged(1, 0x1F), acknowledged(2, 5), acknowledged(3, 0), acknowledged(4, 30)])["streams"]
    assert (stream["least_credits"], stream["no_credits"]) == (0, 1)
    (stream,) = of_frames([acknowledged(1, 0x1F), acknowledged(2, 0x2E)])["streams"]  # no credits told, and an RNR NAK
    assert (stream["least_credits"], stream["no_credits"]) == (None, None)
    each = of_frames([acknowledged(1, code, 0x100 + code) for code in range(32)])["streams"]
    told = {one["dest_qp"] - 0x100: one["least_credits"] for one in each}
    assert told.pop(31) is None and told[10] == 32 and [told[code] for code in range(31)] == sorted(told.values())


# -- datagram services, alternate paths


@pytest.mark.parametrize(("name", "expected"), [("cm_udaddy", ["Valid QPN"] * 2), ("cm_sidr_no_listener", ["Service ID not supported"])])
def test_datagram_services(shared: Path, name: str, expected: list[str]) -> None:
    services = counted(str(shared / f"captures/rxe/{name}.pcap"))["datagram_services"]
    assert [service["outcome"] for service in services] == expected
    assert all((service["qpn"] is not None) == (service["outcome"] == "Valid QPN") for service in services)


def test_connections_one_by_one(shared: Path) -> None:
    (refused,) = counted(str(shared / "captures/rxe/cm_reject_no_listener.pcap"))["connection_list"]
    assert refused["outcome"] == "rejected: Invalid Service ID" and refused["passive_qpn"] is None
    (lost,) = counted(str(shared / "captures/rxe/cm_req_unreachable_timeout.pcap"))["connection_list"]
    assert lost["outcome"] == "rejected: Timeout" and lost["requests"] == 5 and lost["passive_qpn"] is None
    every = counted(str(shared / "captures/rxe/cm_cmtime.pcap"))["connection_list"]
    assert [c["outcome"] for c in every] == ["disconnected"] * 40 and all(c["setup_ns"] > 0 for c in every)


@every(("kind", "extended", "name"), [(0, 0, "RC"), (1, 0, "UC"), (3, 1, "XRC"), (3, 0, "other")])
def test_the_service_of_a_connection(kind: int, extended: int, name: str) -> None:
    asked = request(transport_service_type=kind, extended_transport_type=extended)
    assert [one["service"] for one in of_frames([asked], native=True)["connection_list"]] == [name]


def test_an_alternate_path() -> None:
    from tests.rules.made.connections import BROKEN
    from tests.rules.TXN.cases import LOAD, LOADED

    (connection,) = of_frames([*BROKEN, LOAD, LOADED], native=True)["connection_list"]
    assert connection["outcome"] == "established" and connection["alternate_path"] == "Alternate path loaded"


def test_extended_reliable_connections_are_streams() -> None:
    xrc = [craft.rc(0xA4, b"data", ext={"XRCETH": {"xrcsrq": 3}}, bth={"psn": psn}) for psn in (1, 2, 2)]
    (stream,) = of_frames(xrc, native=True)["streams"]
    assert (stream["service"], stream["packets"], stream["repeated"]) == ("XRC", 3, 1)


@pytest.mark.slow
def test_random_bytes_never_raise() -> None:
    rnd = random.Random(11)
    frames = []
    for _ in range(1500):
        body = rnd.randbytes(rnd.randrange(60))
        address = {"source": rnd.randbytes(4), "destination": bytes([rnd.choice((192, 224)), *rnd.randbytes(3)]), "ecn": rnd.randrange(4)}
        bth = {"destqp": rnd.choice((1, 9, 0xFFFFFF)), "psn": rnd.randrange(9), "fecn": rnd.randrange(2), "becn": rnd.randrange(2)}
        frames.append(craft.roce2(rnd.choice((0x04, 0x11, 0x44, 0x64, 0x65, 0x81, 0xA4)), body, headers=b"", bth=bth, ip=address))
    result = of_frames(frames)
    assert result["multicast"] and result["congestion"] and result["frames"] == 1500
