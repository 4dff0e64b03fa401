"""`follow` prints one message or all of a connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import run

WITH_PAYLOAD = 'ibdissect.message.kind in {"SEND", "WRITE", "READ", "ATOMIC"}'


def test_command(repo: Path) -> None:
    out = run("follow", str(repo / "captures/rxe-rping.pcap"), "6", "--only", "--as", "ascii").stdout.decode().splitlines()
    assert out[0] == "< READ 100 bytes, frames 6-7, 192.168.77.1 → 192.168.77.2" and out[1].startswith("  rdma-ping-0: ABC")
    every = run("follow", str(repo / "captures/rxe-rping.pcap"), "6").stdout.decode().splitlines()
    assert sum(line.startswith(("> ", "< ")) for line in every) == 60


@pytest.mark.slow
def test_a_frame_without_a_message(repo: Path) -> None:
    capture = str(repo / "captures/rxe-rping.pcap")
    done = run("follow", capture, "1")
    assert done.returncode == 2 and b"belongs to no message (SEND, WRITE, READ, ATOMIC or UD datagram); ibdissect show " in done.stderr
    listed = run("show", capture, "-Y", WITH_PAYLOAD, "-e", "frame.number").stdout.split()
    assert run("follow", capture, listed[0].decode()).returncode == 0 and b"1" not in listed


def test_a_frame_that_the_capture_does_not_have(repo: Path) -> None:
    done = run("follow", str(repo / "captures/rxe-rping.pcap"), "9999")
    assert done.returncode == 2 and b"has frames 1 to 125, not 9999" in done.stderr


def test_messages_of_selected_frames(repo: Path) -> None:
    capture = str(repo / "captures/rxe-rping.pcap")

    def followed(*words: str) -> list[str]:
        out = run("follow", capture, "6", *words).stdout.decode().splitlines()
        return [line for line in out if line.startswith(("> ", "< "))]

    every = followed()
    assert followed("--frames", "6-7") == [line for line in every if "frames 6-7," in line] != []
    reads = followed("-Y", "infiniband.reth")
    assert 0 < len(reads) < len(every) and set(reads) < set(every) and followed("-Y", "infiniband.mad") == []
