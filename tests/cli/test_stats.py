"""`ibdissect stats` prints correct statistics."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from ibdissect.cli.stats import lines
from ibdissect.traffic.statistics import Statistics
from tests import craft
from tests.cases import every
from tests.commands import run
from tests.conftest import REPO


def test_text(repo: Path) -> None:
    done = run("stats", str(repo / "captures/rxe-rping.pcap"), text=True)
    assert done.returncode == 0 and "\x1b" not in done.stdout
    for title in ("Protocol hierarchy", "OpCodes", "Conversations", "Streams", "Communication Management"):
        assert title in done.stdout


def test_json_and_filter(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(craft.erf_pcap([craft.rc(0x04, b"data"), craft.gmp(4, 1, 0x12), craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)]))
    whole = json.loads(run("stats", str(path), "--format", "json").stdout)
    assert whole["schema"] == 1 and whole["frames"] == 3 and whole["response_times"][0]["answered"] == 1
    part = json.loads(run("stats", str(path), "--format", "json", "--frames", "2-3").stdout)
    assert part["frames"] == 2 and {entry["opcode"] for entry in part["opcodes"]} == {0x64}


def test_top_limits_the_lists(tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    path.write_bytes(craft.erf_pcap([craft.rc(0x04, b"data", slid=lid) for lid in range(1, 30)]))
    found = json.loads(run("stats", str(path), "--format", "json", "--top", "5").stdout)
    assert len(found["conversations"]) == len(found["lids"]["source"]) == len(found["streams"]) == 5


@every(("ns", "error", "text"), [(1, 0, "0.000001 ms"), (1_022_001, 0, "1.022001 ms"), (1_022_001, 0.044, "≤ 1.02 ms"), (None, 0, "-")])
def test_latencies_have_all_digits_that_are_true(ns: int | None, error: float, text: str) -> None:
    names = ("service", "source", "destination", "dest_qp", "complete", "bits_per_second", "retries", "naks", "cnps")
    message = dict.fromkeys(names) | {"kinds": {"SEND": 1}, "bytes": 8, "unknown_sizes": 0, "unread_answers": 0, "percentile_error": error}
    told = Statistics().result() | {"messages": [message | dict.fromkeys(("p50_ns", "p90_ns", "p95_ns", "p99_ns"), ns)]}
    assert f" {text} " in [*lines(told | {"causes": [], "times": []}, lambda text, style: text)][-1]


@every("name", ["stats", "fabric", "diagnose", "report", "export", "sql", "points", "diff"])
def test_help_says_where_numbers_are_defined(name: str) -> None:
    assert "docs/numbers.md" in (import_module(f"ibdissect.cli.{name}").command.help or "")


@pytest.mark.slow
def test_several_captures_in_processes(tmp_path: Path) -> None:
    """Each in turn and in order, with the figures of each alone; what cannot be read is an error, and the others remain."""
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes((REPO / "captures/pkey-lab.pcap").read_bytes())
    (tmp_path / "bad.pcap").write_bytes(b"no capture")
    one, two = (run("stats", ".", "--jobs", jobs, "--format", "json", cwd=tmp_path, text=True) for jobs in ("1", "2"))
    assert one.stdout == two.stdout and one.returncode == two.returncode == 2 and "bad.pcap: not a capture" in two.stderr
    alone = json.loads(run("stats", "./a.pcap", "--format", "json", cwd=tmp_path).stdout)
    assert json.loads(two.stdout) == [alone, alone | {"capture": "./b.pcap"}]
    for words in (["--jobs", "2"], []):
        text = run("stats", "a.pcap", "b.pcap", *words, cwd=tmp_path, text=True).stdout
        assert text.startswith("a.pcap\n37 frames") and "\nb.pcap\n37 frames" in text
    assert run("stats", ".", "--format", "json", cwd=tmp_path, text=True).stdout == two.stdout
    assert "Usage: ibdissect stats [OPTIONS] CAPTURE..." in run("stats", "--help", text=True).stdout
