"""Special files and undecodable file names in a directory are handled, and the network is never used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

import pytest

from ibdissect.report import FORMATS
from tests import commands
from tests.test_hostile import harmless

pytestmark = pytest.mark.slow

NAMES = [b"a\nb.pcap", b"\x1b[31mred.pcap", b"\xff\xfe.pcap", "\u202egpj.pcap".encode(), b"$(id).pcap", b"-rf.pcap", b"%s%n.pcap",
         b"<b>&'\".pcap", b"::error::x.pcap", b"[bold]x[@click=quit].pcap", b"]]>.pcap", b" .pcap", b"*.pcap"]  # fmt: skip
ODD = ["device.pcap", "gone.pcap", "itself.pcap", "pipe.pcap"]


def run(*words: str) -> subprocess.CompletedProcess[bytes]:
    return commands.run(*words)


@pytest.fixture
def folder(tmp_path: Path, repo: Path) -> Path:
    """Captures with hostile names, and files that only look like captures."""
    data = (repo / "captures/pkey-lab.pcap").read_bytes()
    for name in NAMES:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(data)
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "itself.pcap").symlink_to("itself.pcap")
    (tmp_path / "gone.pcap").symlink_to("nowhere")
    (tmp_path / "device.pcap").symlink_to("/dev/zero")
    (tmp_path / "folder.pcap").mkdir()
    os.mkfifo(tmp_path / "pipe.pcap")
    return tmp_path


@pytest.mark.parametrize("form", FORMATS)
def test_a_directory_of_hostile_names(form: str, folder: Path) -> None:
    """Each capture is checked once, its name escaped; no waiting for pipes, no reading of devices, no endless links.

    What has the name of a capture and is none is said in each format, and the job fails.
    """
    done = run("lint", str(folder), "--fail-on", "never", "--format", form)
    text = harmless(done.stdout.decode())
    harmless(done.stderr.decode())
    assert done.returncode == 2 and b"Traceback" not in done.stderr, done.stderr
    for name in ODD:
        assert (name in text or form in ("text", "concise", "full", "jsonl")) and name in done.stderr.decode()
    if form == "json":
        paths = [os.fsencode(capture["path"]) for capture in json.loads(text)["captures"] if capture["status"] != "unreadable"]
        assert sorted(os.path.basename(path) for path in paths) == sorted(NAMES)
    elif form == "jsonl":
        assert {os.path.basename(os.fsencode(json.loads(line)["capture"])) for line in text.splitlines()} == set(NAMES)
    elif form == "sarif":
        found = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in json.loads(text)["runs"][0]["results"]}
        assert len(found) == len(NAMES)
    elif form == "junit":
        assert len(ET.fromstring(text)) == len(NAMES) + len(ODD)
    elif form == "github":
        assert all(line.startswith(("::error file=", "::warning file=", "::notice file=")) for line in text.splitlines())


@pytest.mark.parametrize("name", ["device.pcap", "itself.pcap", "gone.pcap", "folder.pcap"])
def test_named_outright(name: str, folder: Path) -> None:
    """Files that are not captures, and directories without captures, give a clear error."""
    done = run("lint", str(folder / name))
    assert done.returncode == 2 and name.encode() in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(folder: Path) -> None:
    (folder / "folder.pcap").chmod(0)
    (folder / "*.pcap").chmod(0)
    try:
        done = run("lint", str(folder), "--fail-on", "never")
        assert done.returncode == 2 and b"permission denied" in done.stderr.lower()
        assert f"in {len(NAMES)} captures".encode() in done.stdout or b"1 unreadable" in done.stdout
    finally:
        (folder / "folder.pcap").chmod(0o700)


GUARD = """
import json, sys
LOCAL = (1, 16)  # AF_UNIX, AF_NETLINK
def guard(event, args):
    # Scapy reads the interfaces and routes of this machine when it is loaded: local sockets, over which nothing leaves.
    local = event == "socket.__new__" and args[1] in LOCAL or event == "socket.bind" and args[0].family in LOCAL
    if event.startswith(("socket.", "urllib.", "http.")) and event != "socket.gethostname" and not local:
        sys.stderr.write(f"NETWORK {event} {args}\\n")
        raise RuntimeError("no network")
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
        sys.stderr.write(f"PROCESS {event} {args}\\n")
        raise RuntimeError("no processes")
sys.addaudithook(guard)
from ibdissect.cli import run
for words in json.loads(sys.argv[1]):
    if status := run(words):
        sys.exit(f"status {status} of {words}")
"""
ALONE = {
    "lint": ("lint", "{}", "--fail-on", "never"), "show": ("show", "{}"), "tree": ("show", "{}", "--format", "tree"),
    "scapy": ("show", "{}", "--format", "scapy"), "filter": ("show", "{}", "-Y", "ip.addr == 10.0.0.1 or mad", "--format", "jsonl"),
    "stats": ("stats", "{}"), "fabric": ("fabric", "{}"), "rules": ("rules",), "fields": ("fields", "bth"),
    "export": ("export", "{}", "--output", "{}.out.csv"), "annotate": ("annotate", "{}", "--output", "{}.out.pcapng"),
    "scrub": ("scrub", "{}", "--output", "{}.out.pcap"), "sql": ("sql", "{}", "select count(*) from packets"),
}  # fmt: skip


def test_nothing_asks_the_network(repo: Path, tmp_path: Path) -> None:
    """Every command works under an audit hook that forbids sockets and programs."""
    path = tmp_path / "x.pcap"
    path.write_bytes((repo / "captures/rxe-rping.pcap").read_bytes())
    needs = {"export": "pyarrow", "sql": "duckdb"}
    words = [[word.format(path) for word in words] for name, words in ALONE.items() if name not in needs or find_spec(needs[name])]
    environment = {**os.environ, "PYTHONPATH": str(repo)}
    done = subprocess.run([sys.executable, "-c", GUARD, json.dumps(words)], capture_output=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0 and b"NETWORK" not in done.stderr and b"PROCESS" not in done.stderr, done.stderr
