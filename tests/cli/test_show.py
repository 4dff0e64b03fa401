"""`ibdissect show` works as documented: formats byte for byte, masking, filters, exit status, hostile strings."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import tzset
from typing import Any

import pytest

from tests import commands
from tests.craft import erf_pcap, ethernet_pcap, smp
from tests.dissect.frames import HOSTILE, M_KEY, Q_KEY, R_KEY, SM_KEY, TRAP_KEY, all_frames, ethernet_frames
from tests.subnet.made import ANSWER, SET, node, port_info, switch

pytestmark = pytest.mark.slow

FORMATS = ("summary", "tree", "dump", "dotted", "scapy", "json", "jsonl")
KEYS = {M_KEY: 8, M_KEY + 1: 8, SM_KEY: 8, R_KEY: 4, Q_KEY: 4, TRAP_KEY: 8}
FIELD = {"name", "label", "offset", "length", "bit", "bits", "value", "text"}


def run(*words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return commands.run("show", *words, stdin=stdin)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("show") / "native.pcap"
    path.write_bytes(erf_pcap(all_frames()))
    return str(path)


@pytest.fixture(scope="module")
def ethernet(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("show") / "ethernet.pcap"
    path.write_bytes(ethernet_pcap(ethernet_frames()))
    return str(path)


@pytest.mark.parametrize("form", ["summary", "tree", "dump", "dotted", "jsonl"])
def test_formats_byte_for_byte(native: str, ethernet: str, form: str, golden: Callable[[str, bytes], None]) -> None:
    for name, path in (("native", native), ("ethernet", ethernet)):
        result = run(path, "--format", form)
        assert (result.returncode, result.stderr) == (0, b"")
        golden(f"{name}.{form}.txt", result.stdout)


def test_what_a_kind_of_port_does_not_have_is_undefined(tmp_path: Path) -> None:
    """As rules know it, once NodeInfo told the kind; not of ports that may have it."""
    known = [smp(ANSWER, 0x11, switch(2), path=[1]), smp(ANSWER, 0x11, node(5), path=[1, 2])]
    ways: list[Any] = [{"path": [9]}, {"path": [1]}, {"path": [1], "modifier": 3}, {"path": [1, 2]}]
    shown = [smp(ANSWER, 0x15, port_info(5), **way) for way in ways]
    path = tmp_path / "ports.pcap"
    path.write_bytes(erf_pcap([shown[1], *known, *shown, smp(SET, 0x15, port_info(5), path=[1])]))
    link, agent, external = "LinkWidthActive", "MasterSMLID", "VLStallCount"
    expected = [{external}, set(), set(), {external}, {link, external}, {agent}, {external}, set()]
    text = run(str(path), "--format", "tree").stdout.decode()
    frames = re.split(r"(?m)^Frame \d+:", text)[1:]
    assert [{*re.findall(r"(?m)^ +(\w+): .*\(undefined\)$", frame)} & {link, agent, external} for frame in frames] == expected
    assert not re.search(r"IsTrapSupported: .*undefined", text), "its CapabilityMask says it"
    last = run(str(path), "--format", "tree", "--frames", "5").stdout.decode()
    assert re.split(r"(?m)^Frame \d+:", last)[1].strip() == frames[4].strip(), "also where the frames before are not shown"


def test_json_is_the_array_of_jsonl(native: str) -> None:
    lines = [json.loads(line) for line in run(native, "--format", "jsonl").stdout.splitlines()]
    assert json.loads(run(native, "--format", "json").stdout) == lines
    assert [line["frame"] for line in lines] == list(range(1, len(all_frames()) + 1))
    assert json.loads(run(native, "--format", "json", "--frames", "1000").stdout) == []


def test_jsonl_has_the_shape_of_the_contract(native: str) -> None:
    for line in run(native, "--format", "jsonl").stdout.splitlines():
        frame = json.loads(line)
        assert set(frame) == {
            "frame", "time", "time_ns", "len", "caplen", "interface", "source", "destination", "protocol", "info", "layers", "malformed"
        }  # fmt: skip
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", frame["time"])
        for layer in frame["layers"]:
            assert set(layer) == {"layer", "offset", "length", "fields"}
            waiting = list(layer["fields"])
            while waiting:
                field = waiting.pop()
                assert set(field) - {"fields"} == FIELD
                assert 0 <= field["bit"] < 8
                assert field["length"] * 8 >= field["bits"] - 7
                assert layer["layer"] == "ERF" or field["offset"] + field["length"] <= frame["caplen"]
                waiting += field.get("fields", [])


def test_the_contract_example(shared: Path) -> None:
    line = json.loads(run(str(shared / "captures/real/infiniband.pcap"), "--format", "jsonl", "--frames", "7").stdout)
    head = {key: line[key] for key in line if key != "layers"}
    assert head == {
        "frame": 7, "time": "2008-05-14T19:48:08.680009536Z", "time_ns": 1210794488680009536, "len": 290, "caplen": 290, "interface": 1,
        "source": "LID 4", "destination": "LID 1", "protocol": "CM", "info": "ConnectRequest", "malformed": None,
    }  # fmt: skip
    lrh = next(layer for layer in line["layers"] if layer["layer"] == "LRH")
    assert (lrh["offset"], lrh["length"]) == (0, 8)
    assert lrh["fields"][0] == {
        "name": "infiniband.lrh.vl", "label": "Virtual Lane", "offset": 0, "length": 1, "bit": 0, "bits": 4, "value": 0, "text": "0"
    }  # fmt: skip


def spellings(key: int, size: int) -> list[str]:
    """Possible forms of a key in an output: decimal, hex digits, bytes, words."""
    digits = f"{key:0{2 * size}x}"
    pairs = [digits[i : i + 2] for i in range(0, len(digits), 2)]
    return [str(key), digits, " ".join(pairs), ":".join(pairs), "".join(rf"\x{pair}" for pair in pairs), digits[:8], digits[-8:]]


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_shows_a_key(native: str, form: str) -> None:
    masked = run(native, "--format", form).stdout.decode().lower()
    for key, size in KEYS.items():
        for spelling in spellings(key, size):
            assert spelling not in masked, (form, spelling)
    assert form == "summary" or "m_key#1" in masked


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "summary"])
def test_show_keys_shows_every_key(native: str, form: str) -> None:
    shown = run(native, "--format", form, "--show-keys").stdout.decode().lower()
    assert "m_key#" not in shown
    for key, size in KEYS.items():
        assert any(spelling in shown for spelling in spellings(key, size)), (form, hex(key))


def keys_of(path: str, *words: str) -> dict[tuple[int, str], tuple[object, str]]:
    found = {}
    for line in run(path, "--format", "jsonl", *words).stdout.splitlines():
        frame = json.loads(line)
        waiting = [field for layer in frame["layers"] for field in layer["fields"]]
        while waiting:
            field = waiting.pop()
            found[frame["frame"], field["name"]] = field["value"], field["text"]
            waiting += field.get("fields", [])
    return found


def test_keys_are_numbered_by_first_appearance(native: str) -> None:
    found = keys_of(native)
    assert found[1, "infiniband.smplid.mkey"] == (None, "M_Key#1")
    assert found[2, "infiniband.smplid.mkey"] == (None, "M_Key#1")
    assert found[3, "infiniband.smplid.mkey"] == (None, "M_Key#2")
    assert found[4, "infiniband.trap.mkey"] == (None, "M_Key#3")
    assert found[2, "infiniband.sminfo.sm_key"] == found[5, "infiniband.sa.smkey"] == (None, "SM_Key#1")
    assert found[10, "infiniband.deth.q_key"] == found[11, "infiniband.deth.q_key"] == (None, "Q_Key#1")
    assert found[1, "infiniband.deth.q_key"] == (0, "0x00000000")
    assert found[5, "infiniband.deth.q_key"] == (0x80010000, "0x80010000")


def test_numbers_do_not_depend_on_what_is_shown(native: str) -> None:
    alone = keys_of(native, "--frames", "3-4")
    assert alone[3, "infiniband.smplid.mkey"] == (None, "M_Key#2")
    assert alone[4, "infiniband.trap.mkey"] == (None, "M_Key#3")


def test_raw_bytes_around_a_key_are_masked(native: str) -> None:
    value, _ = keys_of(native)[4, "infiniband.notice.datadetails"]
    assert value is None
    words = run(native, "--format", "dump", "--frames", "4").stdout.decode()
    assert re.search(r"^ +\d+ \*{8} mkey=M_Key#3$", words, re.MULTILINE)


def test_hostile_strings_are_escaped_everywhere(native: str) -> None:
    for form in FORMATS:
        shown = run(native, "--format", form).stdout.decode()
        assert not set("\x1b\x00\u202e\x9b") & set(shown), form
    value, text = keys_of(native)[3, "infiniband.nodedescription.nodestring"]
    assert value == HOSTILE.split("\0")[0]
    assert text == r"\x1b[31m[bold]</script>=1+1\u202e"


def test_fields_are_printed_as_tshark_prints_them(native: str) -> None:
    names = ("frame.number", "infiniband.lrh.dlid", "infiniband.bth.p_key", "bth.m", "infiniband.reth.r_key", "eth.src")
    words = [word for name in names for word in ("-e", name)]
    lines = run(native, *words).stdout.decode().splitlines()
    assert lines[0] == "1\t65535\t0xffff\t0\t\t"
    assert lines[6] == "7\t2\t0xffff\t1\tR_Key#1\t"
    assert run(native, *words, "--show-keys", "--frames", "7").stdout.decode() == f"7\t2\t0xffff\t1\t0x{R_KEY:08x}\t\n"


def test_fields_join_occurrences_with_commas(ethernet: str) -> None:
    result = run(ethernet, "-e", "eth.addr", "-e", "udp.port", "-e", "frame.time_relative", "-e", "_ws.col.Protocol", "--frames", "1-3")
    first, second, third = (line.split("\t") for line in result.stdout.decode().splitlines())
    assert first[0].count(",") == 1
    assert first[1:] == ["49152,4791", "0.000000000", "RC"]
    assert second[2:] == ["0.001000000", "CNP"]
    assert third[1:] == ["", "0.002000000", "ARP"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], 17), (["--frames", "1-3,7,17-"], 5), (["--frames", "-2"], 2), (["-Y", "mad"], 7), (["-Y", "bth.opcode == 0x11"], 2),
        (["-Y", "mad", "--frames", "1-4"], 4), (["-Y", "_ws.malformed"], 1), (["--frames", "99"], 0),
    ],
)  # fmt: skip
def test_count(native: str, words: list[str], wanted: int) -> None:
    assert run(native, "--count", *words).stdout == f"{wanted}\n".encode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.pcap"], "no such file"),
        ([__file__], "not a capture"),
        (["CAPTURE", "-Y", "lrh.slidd == 1"], "slidd"),
        (["CAPTURE", "-Y", "lrh.slid =="], "filter"),
        (["CAPTURE", "--frames", "0"], "count from 1"),
        (["CAPTURE", "--frames", "9-2"], "--frames"),
        (["CAPTURE", "-e", "lrh.slidd"], "did you mean"),
        (["CAPTURE", "--format", "fields"], "-e"),
        (["CAPTURE", "--format", "json", "-e", "lrh.slid"], "-e"),
        (["CAPTURE", "--format", "xml"], "xml"),
        (["CAPTURE", "--plugin", "missing.py"], "missing.py"),
        (["CAPTURE", "--config", "missing.toml"], "missing.toml"),
    ],
)
def test_impossible_work_is_status_2(native: str, words: list[str], said: str) -> None:
    result = run(*[native if word == "CAPTURE" else word for word in words])
    assert result.returncode == 2
    assert result.stdout == b""
    assert said in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()


def test_damage_is_reported_and_status_0(native: str, tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(Path(native).read_bytes()[:-5])
    result = run(str(path))
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 16)
    assert "cut-off" in result.stderr.decode()
    assert run(str(path), "-q").stderr == b""


def test_a_pipe_is_read(native: str) -> None:
    assert run("-", "--format", "jsonl", stdin=Path(native).read_bytes()).stdout == run(native, "--format", "jsonl").stdout


def test_snapped_frames_are_marked(shared: Path) -> None:
    result = run(str(shared / "captures/rxe/fmt_snaplen96.pcap"), "--format", "tree", "-Y", "frame.len > 96")
    text = result.stdout.decode()
    assert text.count("[Truncated by the snap length: 96 of") == text.count("\nFrame ") + 1
    assert "Malformed" not in text


def test_a_closed_pipe_is_quiet(shared: Path) -> None:
    command = [sys.executable, "-m", "ibdissect", "show", str(shared / "captures/opensm/03-sweep-ft36.pcap"), "--format", "tree"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    read, write = os.pipe()
    command = [sys.executable, "-m", "ibdissect", "show", "-"]
    with subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(read)
        os.write(write, erf_pcap(all_frames()[:1]))
        assert process.stdout is not None and process.stderr is not None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert b"Traceback" not in process.stderr.read()
        os.close(write)


def test_colour_only_when_asked_for(native: str) -> None:
    assert b"\x1b[" not in run(native, "--format", "tree").stdout
    assert b"\x1b[" in run(native, "--format", "tree", "--color", "always").stdout


def test_a_file_on_standard_input_may_be_read_twice(tmp_path: Path) -> None:
    """A filter on findings, as the configuration chooses them."""
    path = tmp_path / "a.pcap"
    path.write_bytes(erf_pcap([smp(1, 0x10), smp(1, 0x10, modifier=1)]))
    words = ["--format", "fields", "-e", "frame.number", "-Y", 'ibdissect.code == "AM001"']
    assert run(str(path), *words).stdout == b"2\n"
    command = [sys.executable, "-m", "ibdissect", "show", "-", *words]
    with path.open("rb") as file:
        assert subprocess.run(command, stdin=file, capture_output=True, check=True, timeout=120).stdout == b"2\n"
    (tmp_path / "ibdissect.toml").write_text('ignore = "AM001"')
    command[4] = str(path)
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=120).stdout == b""


@pytest.mark.parametrize(
    ("clock", "time"),
    [
        ("r", "    0.000200"), ("d", "    0.000100"), ("e", "1700000000.000200000"), ("u", "22:13:20.000200"),
        ("ud", "2023-11-14 22:13:20.000200"), ("a", "23:13:20.000200"), ("ad", "2023-11-14 23:13:20.000200"),
    ],
)  # fmt: skip
def test_times_are_shown_as_asked_for(repo: Path, monkeypatch: pytest.MonkeyPatch, clock: str, time: str) -> None:
    lab = str(repo / "captures/pkey-lab.pcap")
    monkeypatch.setenv("TZ", "<+01>-1")
    tzset()
    try:
        done = commands.run("show", lab, "--frames", "3", "-t", clock, text=True)
    finally:
        monkeypatch.undo()
        tzset()
    assert done.stdout.startswith(f"     3 {time}  LID 65535"), done
    assert commands.run("show", lab, "-t", clock, "--format", "tree").returncode == 2


def test_chosen_columns_are_aligned(repo: Path) -> None:
    words = ("-e", "frame.number", "-e", "ibdissect.code", "-e", "bth.psn", "--format", "summary")
    done = commands.run("show", str(repo / "captures/pkey-lab.pcap"), "--frames", "31-32", *words, text=True)
    assert done.stdout.splitlines() == [
        "frame.number  ibdissect.code  infiniband.bth.psn",
        "31            PKY001          20",
        "32            PKY001,PKY021   20",
    ]


def test_a_ladder_has_its_stalls_to_scale(repo: Path) -> None:
    done = run(str(repo / "captures/slow-lab.pcap"), "--format", "ladder", "-Y", "ip.addr == 10.0.0.5")
    lines = done.stdout.decode().splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["376"])
    height = next(n for n in range(1, 99) if "┊" not in lines[at - 1 - n])
    assert 6 <= height <= 10 and sum("17 ms until it was sent again" in line for line in lines[at - height : at]) == 1
