"""Do `stats` and the tables of messages and records agree with a counter that shares no code with them, and with each other?"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ibdissect.flow.statistics import Statistics
from ibdissect.session.reading import open_reading
from tests import changed_captures, independent_counter

SHARED = Path(__file__).parents[2] / "shared"
FOLDERS = ("captures/rxe", "captures/real", "captures/opensm", "numbers", "public", "faults", "points")
LARGEST = int(os.environ.get("NUMBERS_LARGEST", 400_000))
"""Bytes of the largest capture that is counted by bytes; NUMBERS_LARGEST=100000000 counts all of them, which takes minutes."""
CAPTURES = sorted(
    path for folder in FOLDERS for path in (SHARED / folder).rglob("*.pcap*") if path.is_file() and path.stat().st_size <= LARGEST
)
CHANGED = [
    SHARED / "captures/rxe" / name
    for name in ("rc_ops_mixed.pcap", "rc_batch_pipelined.pcap", "uc_send.pcap", "netem_reorder_resp.pcap", "cm_rping_big.pcap",
                 "rnr_recover.pcap", "ud_send_v6.pcap", "rc_send_mtu1024.pcap", "k612_netem_mess.pcap")
]  # fmt: skip
STREAM = ("packets", "payload_bytes", "unknown_sizes", "naks", "rnr_naks", "repeated", "missing")
MESSAGE = ("messages", "complete", "bytes", "unknown_sizes", "retries", "naks")
KINDS = ("SEND", "WRITE", "READ", "ATOMIC", "FLUSH", "ATOMIC WRITE")
FEW_BITS = {"netem_corrupt.pcap"}
"""Damaged packets: which of them are in step depends on those before; one more is left out here than there."""
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not SHARED.is_dir(), reason="there are no shared captures")]


def counted(source: Any) -> dict[str, Any]:
    """What `stats` says."""
    statistics = Statistics()
    with open_reading(source) as reading:
        for table in reading.tables(keys=False):
            statistics.feed(table)
    return statistics.result(None)


def summed(entries: Iterable[dict[str, Any]], key: tuple[str, ...], fields: tuple[str, ...]) -> dict[tuple[Any, ...], Counter[str]]:
    found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for entry in entries:
        for name in fields:
            found[tuple(entry[part] for part in key)][name] += entry[name]
        for kind, number in entry.get("kinds", {}).items():
            found[tuple(entry[part] for part in key)][kind] += number
    return found


def differences(path: Path) -> list[Any]:
    """Where `stats` and the independent counter differ."""
    mine, theirs = independent_counter.count(str(path)), counted(str(path))
    found: list[Any] = [
        (name, mine[name], theirs[name]) for name in ("frames", "bytes", "copies", "first_ns", "last_ns", "set_back")
        if mine[name] != theirs[name]
    ]  # fmt: skip
    lists = {"opcodes": ("opcode",), "p_keys": ("p_key",), "queue_pairs": ("dest_qp",), "conversations": ("source", "destination")}
    for name, key in lists.items():
        every = {tuple(entry[part] for part in key): [entry["frames"], entry["bytes"]] for entry in theirs[name]}
        wanted = {one if isinstance(one, tuple) else (one,): values for one, values in mine[name].items()}
        found += [(name, one, wanted.get(one), every.get(one)) for one in {*every, *wanted} if wanted.get(one) != every.get(one)]
    managed = sum(values[0] for values in mine["mads"].values()), sum(entry["frames"] for entry in theirs["mads"])
    found += [("mads", *managed)] if managed[0] != managed[1] else []
    parts: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
        ("streams", ("service", "source", "destination", "dest_qp", "responses"), STREAM),
        ("messages", ("service", "source", "destination", "dest_qp"), MESSAGE),
    )
    for name, key, fields in parts:
        every_ = summed(theirs[name], key, fields)
        for one in {*every_, *mine[name]}:
            for what in (*fields, *(KINDS if name == "messages" else ())):
                pair = mine[name].get(one, {}).get(what, 0), every_.get(one, Counter())[what]
                found += [(name, one, what, *pair)] if pair[0] != pair[1] else []
    for mark, what in (("ce", "ce"), ("fecn", "fecn"), ("becn", "becn"), ("cnp", "cnp"), ("fragment", "fragments")):
        pair = mine["marks"].get(mark, 0), sum(entry[what] for entry in theirs["congestion"])
        found += [(what, *pair)] if pair[0] != pair[1] else []
    return found


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: str(path.relative_to(SHARED)))
def test_the_independent_counter_agrees(path: Path) -> None:
    assert path.name in FEW_BITS or not differences(path)


@pytest.mark.parametrize("path", CHANGED, ids=lambda path: path.name)
@pytest.mark.parametrize("change", changed_captures.CHANGES)
def test_the_independent_counter_agrees_about_changed_captures(path: Path, change: str, tmp_path: Path) -> None:
    every = changed_captures.ethernet(path)
    assert every is not None
    changed = tmp_path / "changed.pcap"
    changed.write_bytes(changed_captures.written(changed_captures.CHANGES[change](every)))
    assert not differences(changed)
