"""All kinds of packets reach the state of their connections."""

from __future__ import annotations

import io
import runpy
import struct
from pathlib import Path
from typing import Any

import pytest

from ibdissect.diagnosis.connection_follower import ConnectionFollower
from tests.craft import erf_pcap, rc
from tests.decode.made import tables_of
from tests.diagnosis.lab import MS, US, Lab, as_json, diagnosis, joined
from tests.diagnosis.test_causes import exhausted, slow_rnr


def test_native_packets() -> None:
    frames = []
    for psn in range(5):
        frames.append(rc(4, bytes(16), slid=1, dlid=2, bth={"destqp": 9, "psn": psn, "a": 1}))
        frames.append(rc(0x11, slid=2, dlid=1, bth={"destqp": 8, "psn": psn}, ext={"AETH": {"syndrome": 31, "msn": psn}}))
    (found,) = diagnosis(erf_pcap(frames)).connections
    assert [str(end) for end in found.ends] == ["LID 1 QP 0x000008", "LID 2 QP 0x000009"]
    assert (found.cause, found.counts.messages, found.counts.payload_bytes) == ("healthy", 5, 80)


def test_networks_are_kept_apart_and_joined_where_only_one_way_is_tagged() -> None:
    one, two = Lab(), Lab()
    for lab, vlan in ((one, 5), (two, 6)):
        for i in range(3):
            lab.ask(i * 100 * US, vlan * 1000 + i, vlan=vlan)
            lab.answer(i * 100 * US + 5 * US, vlan * 1000 + i, vlan=vlan)
    assert [one.counts.messages for one in diagnosis(joined(one, two).pcap()).connections] == [3, 3]
    lab = Lab()
    for i in range(3):
        lab.ask(i * 100 * US, i)
        lab.answer(i * 100 * US + 5 * US, i, vlan=5)
    assert lab.only().cause == "healthy"


def test_lengths_come_from_the_headers_where_frames_are_cut() -> None:
    lab = Lab()
    lab.good(0, 100, 5, size=1000)
    found = lab.only(snap=64)
    assert (found.counts.payload_bytes, found.cause) == (5000, "healthy")


def test_a_capture_without_packets_has_no_connections() -> None:
    data = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    assert diagnosis(data).connections == [] and ConnectionFollower().times.frames == 0


def test_from_python() -> None:
    import ibdissect

    lab = Lab()
    lab.good(0, 100, 5)
    with ibdissect.open(io.BytesIO(lab.pcap())) as capture:
        (found,) = capture.connections()
    assert (found.cause, found.counts.messages) == ("healthy", 5)


def told(data: bytes, window: int) -> dict[str, Any]:
    """The JSON of `ibdissect diagnose`."""
    follower = ConnectionFollower()
    for table in tables_of(data, window):
        follower.feed(table)
    return as_json([follower.result("capture")])


def generated(repo: Path) -> bytes:
    """Many connections at a time, as `benchmarks/generate.py` makes them."""
    out = io.BytesIO()
    runpy.run_path(str(repo / "benchmarks" / "generate.py"))["write"](out, 1500, roce=True, connections=200)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["many", "failed", "slow"])
@pytest.mark.parametrize("window", [64, 5000, 50_000])
def test_windows_of_any_size(what: str, window: int, repo: Path) -> None:
    if what == "many":
        data = generated(repo)
    else:
        lab = Lab()
        (exhausted if what == "failed" else slow_rnr)(lab)
        lab.good(9000 * MS, 7000, 20)
        data = lab.pcap()
    whole = told(data, 32 << 20)
    assert whole["connections"] and told(data, window) == whole
