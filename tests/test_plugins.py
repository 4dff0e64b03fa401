"""Does one file with structures, a Scapy layer and rules appear everywhere, and does a broken one say so?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ibdissect.errors import PluginError
from ibdissect.plugins import load
from tests.craft import erf_pcap, gmp, rc

ACME = "docs/examples/acme.py"
BUFFERS = bytes([3, 0, 0, 80]) + bytes([0x10, 79, 0, 0]) + bytes([0x20, 81, 0, 7]) + bytes(24)


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A request without port, the answer with a buffer over its limit, a heartbeat."""
    frames = [
        gmp(0x0B, 0x01, 0xFF10),
        gmp(0x0B, 0x81, 0xFF10, BUFFERS, at=24),
        rc(0x04, bytes([0, 9, 2, 0, 0, 0, 77]), bth={"destqp": 0xACE}),
    ]
    path = tmp_path / "acme.pcap"
    path.write_bytes(erf_pcap(frames))
    return str(path)


def ibdissect(repo: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ibdissect", *words], cwd=repo, capture_output=True, text=True, timeout=60, check=False)


def test_rules_of_the_plugin_run_with_the_others(repo: Path, capture: str) -> None:
    done = ibdissect(repo, "lint", "--plugin", ACME, "--select", "ACME", "--format", "json", capture)
    findings = json.loads(done.stdout)["findings"]
    assert [(f["code"], f["frame"], f["message"]) for f in findings] == [
        ("ACME002", 1, "AcmeBuffers needs the port in the attribute modifier"),
        ("ACME001", 2, "port 3, VL 2: 81 % is above the limit of 80 %"),
    ]
    assert done.returncode == 1


def test_worker_processes_load_the_plugin_too(repo: Path, capture: str) -> None:
    words = ("lint", "--plugin", ACME, "--select", "ACME", "--format", "json", capture, "captures/pkey-lab.pcap")
    alone, together = (ibdissect(repo, *words, "--jobs", jobs) for jobs in ("1", "2"))
    assert alone.stdout == together.stdout and json.loads(together.stdout)["by_rule"] == {"ACME001": 1, "ACME002": 1}


def test_structures_of_the_plugin_are_decoded_listed_and_filtered(repo: Path, capture: str) -> None:
    tree = ibdissect(repo, "show", "--plugin", ACME, "--format", "tree", capture).stdout
    assert "AcmeBuffers" in tree and "failed (2)" in tree
    listed = ibdissect(repo, "fields", "--plugin", ACME, "infiniband.acme").stdout
    assert "infiniband.acme.buffer.level" in listed and "infiniband.acmebeat.uptime" in listed
    assert ibdissect(repo, "show", "--plugin", ACME, "--count", "-Y", "acme.buffer.level > 80", capture).stdout.strip() == "1"
    assert ibdissect(repo, "show", "--plugin", ACME, "--count", "-Y", "acmebeat.uptime == 77", capture).stdout.strip() == "1"


def test_without_the_plugin_nothing_of_it_is_there(repo: Path, capture: str) -> None:
    assert "AcmeBuffers" not in ibdissect(repo, "show", "--format", "tree", capture).stdout
    assert "acme" not in ibdissect(repo, "fields").stdout


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("import nonexistent_module_x", "nonexistent_module_x"),
        ("1/0", "ZeroDivisionError"),
        ("def (", "invalid syntax"),
        (
            "from ibdissect.wire.spec import *\nfrom ibdissect.wire.places import smp\n"
            "class Mine(Struct):\n    key, section, size = 'mine', 'x', 1\n    carried_by = smp(0x11)\n    a = uint(8, 'A')\n",
            "NodeInfo",
        ),
        (
            "from ibdissect.lint.rule import Rule\nfrom ibdissect.rules import load\nload()\n"
            "class Mine(Rule):\n    '''A rule that takes a code.'''\n    code = 'AM001'\n    name = 'x'\n",
            "AM001",
        ),
    ],
)
def test_a_broken_plugin_is_named(repo: Path, tmp_path: Path, capture: str, text: str, word: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(PluginError, match=word):
        load([str(path)])
    done = ibdissect(repo, "lint", "--plugin", str(path), capture)
    assert done.returncode == 2 and "broken" in done.stderr and "Traceback" not in done.stderr


def test_a_missing_plugin_is_named(repo: Path, capture: str) -> None:
    done = ibdissect(repo, "show", "--plugin", "no_such_thing", capture)
    assert done.returncode == 2 and "no_such_thing" in done.stderr
