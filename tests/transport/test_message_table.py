"""Filters and columns know the message of a frame."""

from __future__ import annotations

from pathlib import Path

from tests.commands import run


def test_filters_and_columns(repo: Path) -> None:
    capture = str(repo / "captures/rxe-rping.pcap")
    names = [name for column in ("kind", "first_frame", "latency", "complete") for name in ("-e", f"ibdissect.message.{column}")]
    lines = run("show", capture, "--frames", "2,6-7", *names).stdout.decode().splitlines()
    assert lines == ["CM connect\t1\t0.093221000\t1", *["READ\t6\t0.001224000\t1"] * 2]
    slow = 'ibdissect.message.kind == "READ" && ibdissect.message.latency > 0.0007'
    assert run("show", capture, "--count", "-Y", slow).stdout == b"4\n"
    assert run("show", capture, "--count", "-Y", "not ibdissect.message.complete").stdout == b"0\n"
    assert run("lint", capture, "-Y", "ibdissect.message.naks > 0").returncode == 2
