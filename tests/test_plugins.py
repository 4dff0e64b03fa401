"""Structures, a Scapy layer and rules from one file work everywhere, and a broken file gives a clear error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ibdissect.errors import PluginError
from ibdissect.plugins import load
from ibdissect.screen_model.packet_columns import POINT, with_fields
from tests import commands
from tests.craft import erf_pcap, gmp, rc

pytestmark = pytest.mark.slow

ACME = "docs/examples/acme.py"
BUFFERS = bytes([3, 0, 0, 80]) + bytes([0x10, 79, 0, 0]) + bytes([0x20, 81, 0, 7]) + bytes(24)


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A request without port, its answer with a buffer above the limit, and a heartbeat."""
    frames = [
        gmp(0x0B, 0x01, 0xFF10),
        gmp(0x0B, 0x81, 0xFF10, BUFFERS, at=24),
        rc(0x04, bytes([0, 9, 2, 0, 0, 0, 77]), bth={"destqp": 0xACE}),
    ]
    path = tmp_path / "acme.pcap"
    path.write_bytes(erf_pcap(frames))
    return str(path)


def ibdissect(repo: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return commands.run(*words, cwd=repo, text=True)


def test_rules_of_the_plugin_run_with_the_others(repo: Path, capture: str) -> None:
    done = ibdissect(repo, "lint", "--plugin", ACME, "--select", "ACME", "--format", "json", capture)
    findings = json.loads(done.stdout)["findings"]
    assert [(f["code"], f["frame"], f["message"]) for f in findings] == [
        ("ACME002", 1, "VendGet(attribute 0xff10) from LID 1 to LID 2: AcmeBuffers needs the port in the attribute modifier"),
        ("ACME001", 2, "VendGetResp(AcmeBuffers) from LID 1 to LID 2: port 3, VL 2: 81 % is above the limit of 80 %"),
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
            "from ibdissect.wire.spec import *\n"
            "class Mine(Struct):\n    key, section, size = 'mine', 'x', 1\n    carried_by = 0x11\n    a = uint(8, 'A')\n",
            "Mine.carried_by: 17 is not a place",
        ),
        (
            "from ibdissect.wire.spec import *\n"
            "class Mine(Struct):\n    key, section, size = 'mine', 'x', 1\n    a = uint(8, 'A', holds='lid')\n",
            "16 or 32 bits",
        ),
        (
            "from ibdissect.wire.spec import *\n"
            "class Mine(Struct):\n    key, section, size = 'mine', 'x', 1\n    a = uint(8, 'A', holds='nubmer')\n",
            "nubmer",
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


def test_one_place_needs_no_tuple_around_it(tmp_path: Path) -> None:
    text = "class One(Struct):\n    key, section, size = 'one', 'x', 1\n    carried_by = Mad(0x0B, 0x77)\n    a = uint(8, 'A')\n"
    path = plugin(tmp_path, text)
    assert [struct.__name__ for _, struct in load([path]).catalog.attributes[0x0B, 0x77]] == ["One"]


def test_a_missing_plugin_is_named(repo: Path, capture: str) -> None:
    done = ibdissect(repo, "show", "--plugin", "no_such_thing", capture)
    assert done.returncode == 2 and "no_such_thing" in done.stderr


WORDS = """
from ibdissect.lint.rule import *
from ibdissect.lint.rule import on_struct, on_chunk
from ibdissect.wire.spec import *
from ibdissect.wire.places import *
from ibdissect.wire.column import column
"""
BEAT = """
class Beat(Struct):
    key, section, size = "beat", "x", 2
    carried_by = (DestQP(0xACE),)
    first = uint(16, "First")
    body = rest("Body")
"""


def plugin(folder: Path, text: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(WORDS + BEAT + text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("def find(data):\n    yield 1 // (data[0] - data[0])\nclass Inner(Struct):\n    key, section, size = 'inner', 'x', 1\n"
         "    carried_by = (Parsed(Beat.body, find),)\n    a = uint(8, 'A')\n", 0, "find"),
        ("class Inner(Struct):\n    key, section, size = 'inner', 'x', 1\n    carried_by = (Inside(Beat.body),)\n"
         "    a = uint(8, 'A', show=lambda value: 1 // 0)\n", 0, "<lambda>"),
        ("class Inner(Struct):\n    key, section, size = 'inner', 'x', 1\n    carried_by = (Inside(Beat.body),)\n"
         "    def told(value):\n        raise LookupError('\\x1b[31m')\n    a = raw(1, 'A', show=told)\n", 0, "\\x1b[31m"),
        ("half = column(Beat, 'half', lambda beat: 1 // 0, 'Half')\n", 0, "ZeroDivisionError"),
        ("class Bad(Rule):\n    'Raises.'\n    code, name, message = 'BAD001', 'bad', 'x'\n    @on_struct(Beat)\n"
         "    def look(self, beat, seen):\n        raise KeyError('nothing')\n", 0, "rule BAD001 failed in frame 3"),
        ("class Bad(Rule):\n    'Names nothing.'\n    code, name, message = 'BAD002', 'bad', '{frist}'\n"
         "    on, when = Beat, Beat.first >= 0\n",
         2, "did you mean first?"),
        ("COLUMNS = ('infiniband.beat.frist',)\n", 2, "did you mean infiniband.beat.first?"),
        ("from scapy.packet import Packet\nfrom scapy.fields import BitField, StrLenField\nclass Odd(Packet):\n"
         "    carried_by = (DestQP(1),)\n"
         "    fields_desc = [BitField('a', 0, 3), StrLenField('b', b'', length_from=lambda pkt: 1)]\n", 2, "Odd.b"),
        ("odd = column(Beat, 'odd', Beat.first & 1, 'Odd', kind='float')\n", 2, "uint or text"),
    ],
    ids=["parser", "show", "show of bytes", "column", "handler", "message", "COLUMNS", "packet", "kind"],
)  # fmt: skip
def test_a_plugin_that_fails_costs_its_own_results(repo: Path, tmp_path: Path, capture: str, text: str, code: int, said: str) -> None:
    """0: reported and the command continues, but ends with 2 if the function ran; 2: rejected before the command starts."""
    path = plugin(tmp_path, text)
    shown = ibdissect(repo, "show", "--plugin", path, "--format", "jsonl", capture)
    linted = ibdissect(repo, "lint", "--plugin", path, "--fail-on", "never", capture)
    for done in (shown, linted):
        assert done.returncode == (2 if "failed" in done.stderr else code), shown.stderr + linted.stderr
    assert said in shown.stderr + linted.stderr and "mine.py" in shown.stderr + linted.stderr
    assert "Traceback" not in shown.stderr + linted.stderr
    if code == 0:
        assert len(shown.stdout.splitlines()) == 3 and "infiniband.beat.first" in shown.stdout
        assert (shown.stderr + linted.stderr).count("failed") <= 2, "once for each command"


def test_a_condition_that_raises_is_the_plugins_fault(repo: Path, tmp_path: Path, capture: str) -> None:
    path = plugin(tmp_path, "from ibdissect.wire.expr import Where\nclass Bad(Rule):\n"
                  "    'Raises.'\n    code, name, message = 'BAD003', 'bad', 'x'\n"
                  "    on, when = Beat, Where(Beat, lambda table: table.nothing)\n")  # fmt: skip
    other = tmp_path / "innocent.py"
    other.write_text("COLUMNS = ('infiniband.bth.psn',)")
    done = ibdissect(repo, "lint", "--plugin", path, "--plugin", str(other), capture)
    assert done.returncode == 2 and "rule BAD003 failed" in done.stderr and "(mine.py:" in done.stderr and "Traceback" not in done.stderr


def test_columns_may_name_what_ibdissect_computes(tmp_path: Path) -> None:
    path = tmp_path / "columns.py"
    path.write_text("COLUMNS = ('infiniband.bth.psn', 'ibdissect.response_time')")
    assert load([str(path)]).columns == ("infiniband.bth.psn", "ibdissect.response_time")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("COLUMNS = ('ibdissect.response_tine',)")
    with pytest.raises(PluginError, match=r"there is no field 'ibdissect\.response_tine"):
        load([str(wrong)])
    assert with_fields([POINT, POINT], ["ibdissect.response_time"])[1].title == "Response"


def test_two_plugins_that_claim_one_payload_are_both_named(repo: Path, tmp_path: Path, capture: str) -> None:
    first, second = plugin(tmp_path, ""), plugin(tmp_path, "", "other.py")
    done = ibdissect(repo, "show", "--plugin", first, "--plugin", second, capture)
    assert done.returncode == 2 and "mine.py" in done.stderr and "other.py" in done.stderr and "2766" in done.stderr


def test_one_name_for_a_number_and_for_bytes_is_refused(repo: Path, tmp_path: Path, capture: str) -> None:
    text = (
        "class Taken(Struct):\n    key, section, size = 'bth', 'x', 4\n    carried_by = (DestQP(9),)\n    psn = raw(4, 'PSN', ws='psn')\n"
    )
    done = ibdissect(repo, "show", "--plugin", plugin(tmp_path, text), capture)
    assert done.returncode == 2 and "mine.py" in done.stderr and "headers.py" in done.stderr


def test_a_rule_code_that_is_taken_names_both_files(repo: Path, tmp_path: Path, capture: str) -> None:
    text = "from ibdissect.rules import load\nload()\nclass Mine(Rule):\n    'A rule that takes a code.'\n    code, name = 'AM001', 'x'\n"
    done = ibdissect(repo, "lint", "--plugin", plugin(tmp_path, text), capture)
    assert done.returncode == 2 and "mine.py" in done.stderr and "AM/reserved_modifiers.py" in done.stderr


def test_little_endian_fields(repo: Path, tmp_path: Path, capture: str) -> None:
    text = (
        "class Turned(Struct):\n    key, section, size = 'turned', 'x', 4\n    carried_by = (Inside(Beat.body),)\n"
        "    a = uint(32, 'A', little=True)\n    low = part(a, 7, 4, 'Low')\n"
    )
    path = plugin(tmp_path, text)
    names = ("-e", "infiniband.turned.a", "-e", "infiniband.turned.low", "-Y", "turned")
    assert ibdissect(repo, "show", "--plugin", path, *names, capture).stdout == "2\t0\n"
    tree = json.loads(ibdissect(repo, "show", "--plugin", path, "--format", "jsonl", "-Y", "turned.a == 2", capture).stdout)
    beat = next(layer for layer in tree["layers"] if layer["layer"] == "Beat")
    (turned,) = beat["fields"][1]["fields"]
    assert (turned["value"], turned["offset"], turned["fields"][0]["offset"]) == (2, 22, 22)


LAYERS = """
import pickle, sys
from pathlib import Path
from ibdissect.plugins import layers
made = layers([sys.argv[1]])
if len(sys.argv) == 3:
    from ibdissect.layers import Lane, SMP
    packet = Lane(errors=7, lane=2)
    Path(sys.argv[2]).write_bytes(pickle.dumps([packet, SMP(m_key=5)]))
else:
    lane, smp = pickle.loads(sys.stdin.buffer.read())
    print(type(lane).__name__, lane.errors, bytes(lane).hex(), smp.m_key, lane.declared.__module__ == made.Lane.declared.__module__)
"""


@pytest.mark.slow
def test_layers_of_a_plugin_are_imported_and_pickled_between_processes(repo: Path, tmp_path: Path) -> None:
    plugin = str(repo / "docs/examples/zed/zed.py")
    subprocess.run([sys.executable, "-c", LAYERS, plugin, str(tmp_path / "p")], check=True)
    pickled = (tmp_path / "p").read_bytes()
    done = subprocess.run([sys.executable, "-c", LAYERS, plugin], input=pickled, capture_output=True, check=False)
    assert done.stdout == b"Lane 7 0200000700000000 5 True\n", done.stderr
