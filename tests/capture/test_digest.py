"""Files are told apart by their bytes, and captures by what they hold once unpacked."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
from pathlib import Path
from typing import Any

from tests.commands import run
from tests.craft import erf_pcap, flipped, native

DATA = erf_pcap([flipped(native(payload=bytes([number] * 60)), -1) for number in range(30)])
LINT = ("lint", "--jobs", "1", "--select", "ROC007", "--exit-zero")


def described(path: str, stdin: bytes | None = None) -> list[dict[str, Any]]:
    """Of a capture in SARIF: size and hash, if it has them."""
    done = run(*LINT, "--format", "sarif", path, stdin=stdin)
    found = json.loads(done.stdout)["runs"][0]["artifacts"]
    return [{name: one[name] for name in ("length", "hashes") if name in one} for one in found]


def test_a_file_as_it_lies_there(tmp_path: Path) -> None:
    (tmp_path / "a.pcap.gz").write_bytes(packed := gzip.compress(DATA))
    assert described(str(tmp_path / "a.pcap.gz")) == [{"length": len(packed), "hashes": {"sha-256": hashlib.sha256(packed).hexdigest()}}]
    assert described("-", DATA) == [{}]
    assert described(str(tmp_path / "no.pcap")) in ([], [{}])


def contents(folder: Path, *words: str) -> dict[str, str]:
    """What a baseline says of the captures, in hexadecimal."""
    run(*LINT, *words, "--write-baseline", "known.json", cwd=folder)
    return {entry["capture"]: entry["sha256"] for entry in json.loads((folder / "known.json").read_text()) if "sha256" in entry}


def test_what_a_capture_holds_is_the_same_however_it_is_packed(tmp_path: Path) -> None:
    for name, packed in (("a", DATA), ("a.gz", gzip.compress(DATA)), ("a.xz", lzma.compress(DATA)), ("a.bz2", bz2.compress(DATA))):
        (tmp_path / name).write_bytes(packed)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(DATA)[:-9])
    held = hashlib.sha256(DATA).hexdigest()
    assert contents(tmp_path, "a", "a.gz", "a.xz", "a.bz2", "cut.gz") == dict.fromkeys(("a", "a.gz", "a.xz", "a.bz2"), held)


def test_a_set_holds_what_its_members_hold(tmp_path: Path) -> None:
    (tmp_path / "a_00001_20261121120000.pcap").write_bytes(DATA)
    (tmp_path / "a_00002_20261121120001.pcap.gz").write_bytes(gzip.compress(DATA[:24] + DATA[500:]))
    names = sorted(os.listdir(tmp_path))
    held = hashlib.sha256(DATA + DATA[:24] + DATA[500:]).hexdigest()
    assert contents(tmp_path, "--set", *names) == {"a_*.pcap": held}
