"""Captures of the protocol of docs/examples/talk.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tests import commands
from tests.craft import interfaces_pcapng, ud

PLUGIN = str(Path(__file__).parents[1] / "docs/examples/talk.py")
Said = tuple[str, int, int]
"""`1:read` is what host 1 asks of host 2; its tag, and milliseconds since the PDU before."""


def frame(what: str, tag: int, *, sequence: int, celsius: int = 20) -> bytes:
    """A PDU of a host, 1 or 2."""
    host, op = what.split(":")
    data = bytes((1 if op == "read" else 2, tag)) + sequence.to_bytes(2, "big") + celsius.to_bytes(4, "big")
    slid = int(host)
    return ud(data, dest_qp=0xACE, src_qp=0xACE, slid=slid, dlid=3 - slid, q_key=7)


def capture(path: Path, *said: Said, celsius: int = 20, sequences: Sequence[int] = ()) -> str:
    """A capture of PDUs, with rising sequence numbers by default."""
    frames = [frame(what, tag, sequence=sequences[i] if sequences else i + 1, celsius=celsius) for i, (what, tag, _) in enumerate(said)]
    times = list(accumulate((wait * 1_000_000 for _, _, wait in said), initial=1_700_000_000_000_000_000))[1:]
    path.write_bytes(interfaces_pcapng([(0, one) for one in frames], times=times))
    return str(path)


def findings(path: str, code: str, *more: str) -> list[tuple[int, list[int]]]:
    """Frame and proof of each finding of a rule."""
    done = commands.run("lint", "--plugin", PLUGIN, "--select", code, "--infos", "--format", "json", *more, path, text=True)
    assert done.returncode in (0, 1), done
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return [(one["frame"], [each["frame"] for each in one["related"]]) for one in found]
