"""`ibdissect lint` works as documented: exit status, formats, selection, several captures, pipes, masking."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import ibdissect
from ibdissect import cli
from ibdissect.errors import ConfigError
from ibdissect.lint.finding import CaptureReport
from tests import commands, craft
from tests.craft import erf_pcap, native, smp

pytestmark = pytest.mark.slow

BAD = erf_pcap([smp(1, 0x10, modifier=1)])
WARN = erf_pcap([smp(1, 0x02, modifier=5)])
CLEAN = erf_pcap([smp(1, 0x10)])


def run(
    *words: str, stdin: bytes | None = None, cwd: Path | None = None, here: bool = False, **env: str
) -> subprocess.CompletedProcess[bytes]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")} | env
    return commands.run("lint", *words, stdin=stdin, cwd=cwd, env=environment, here=here)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "bad.pcap").write_bytes(BAD)
    (tmp_path / "warn.pcap").write_bytes(WARN)
    (tmp_path / "clean.pcap").write_bytes(CLEAN)
    (tmp_path / "text.pcap").write_bytes(b"this is no capture, only text\n" * 9)
    (tmp_path / "notes.txt").write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["clean.pcap"], 0),
        (["warn.pcap"], 0),
        (["warn.pcap", "--fail-on", "warning"], 1),
        (["warn.pcap", "--fail-on", "info"], 1),
        (["bad.pcap"], 1),
        (["bad.pcap", "--fail-on", "never"], 0),
        (["bad.pcap", "--ignore", "AM001"], 0),
        (["bad.pcap", "--select", "PKY"], 0),
        (["clean.pcap", "bad.pcap"], 1),
        (["text.pcap"], 2),
        (["bad.pcap", "text.pcap"], 2),
        (["missing.pcap"], 2),
        (["clean.pcap", "--select", "NOPE001"], 2),
        (["clean.pcap", "--no-such-option"], 2),
        (["clean.pcap", "-Y", "no.such.field == 1"], 2),
        (["clean.pcap", "--frames", "x"], 2),
        (["*.none"], 2),
        ([], 2),
    ],
)
def test_exit_status(files: Path, words: list[str], status: int) -> None:
    done = run(*words, cwd=files)
    assert done.returncode == status, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    if status == 2:
        assert done.stderr.strip()


def test_an_unreadable_capture_does_not_stop_the_others(files: Path) -> None:
    done = run(".", "--format", "json", cwd=files)
    result = json.loads(done.stdout)
    assert done.returncode == 2
    assert [(c["path"], c["status"]) for c in result["captures"]] == [
        ("./bad.pcap", "ok"), ("./clean.pcap", "ok"), ("./text.pcap", "unreadable"), ("./warn.pcap", "ok"),
    ]  # fmt: skip
    assert {f["code"] for f in result["findings"]} >= {"AM001", "AM027"}
    assert b"skipped 1 file without a capture extension" in done.stderr


def test_a_directory_without_captures_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    done = run(str(tmp_path))
    assert done.returncode == 2 and b"without captures" in done.stderr


def test_the_same_bytes_whatever_jobs_is(files: Path) -> None:
    one, two = (run(".", "--format", "json", "--jobs", jobs, cwd=files) for jobs in ("1", "3"))
    assert one.stdout == two.stdout and one.returncode == two.returncode == 2


@pytest.mark.parametrize(("words", "threads"), [
    (["bad.pcap"], 2), (["bad.pcap", "--jobs", "3"], 2), (["bad.pcap", "warn.pcap", "--jobs", "3"], 1), (["bad.pcap", "--jobs", "1"], 1),
    (["bad.pcap", "clean.pcap"], 2),
])  # fmt: skip
def test_a_thread_reads_ahead_where_one_capture_is_checked_at_a_time(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], threads: int
) -> None:
    told = list[int]()
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    def checked(_units: object, work: partial[object], *_rest: object) -> tuple[list[CaptureReport], bool]:
        told.append(work.keywords["work"].keywords["options"].threads)
        return [], False

    monkeypatch.setattr("ibdissect.cli.lint._checked", checked)
    monkeypatch.chdir(files)
    assert cli.run(["lint", *words]) == 0 and told == [threads]


HEADER = erf_pcap([])
ARP = craft.ethernet_pcap([bytes(12) + b"\x08\x06" + bytes(46)] * 20)
MIXED = craft.ethernet_pcap([bytes(12) + b"\x08\x06" + bytes(46), craft.roce2()])


@pytest.mark.parametrize(
    ("data", "words", "why"),
    [
        (HEADER, (), "the capture holds no frames"), (HEADER, ("--select", "PKY"), "the capture holds no frames"),
        (ARP, ("--select", "PKY,MKY", "--fail-on", "info"), "no InfiniBand or RoCE was found in 20 frames"),
        (ARP, (), "no InfiniBand or RoCE was found in 20 frames"),
        (CLEAN, ("-Y", "frame.number == 99"), "-Y and --frames select none of 1 frame"),
        (CLEAN, ("--frames", "5-9"), "-Y and --frames select none of 1 frame"),
        (MIXED, ("--frames", "1"), "no InfiniBand or RoCE was found in 1 frame that -Y and --frames select"),
        (HEADER + BAD[24:40], (), "the capture holds no frames"),
    ],
)  # fmt: skip
def test_what_could_not_be_checked_does_not_pass(tmp_path: Path, data: bytes, words: tuple[str, ...], why: str) -> None:
    (tmp_path / "x.pcap").write_bytes(data)
    done = run("x.pcap", *words, cwd=tmp_path)
    assert done.returncode == 2 and f"error: x.pcap: nothing could be checked: {why}\n" in done.stderr.decode()
    for allowed in (("--allow-empty",), ("--config", "c.toml")):
        (tmp_path / "c.toml").write_text("allow-empty = true\n")
        done = run("x.pcap", *words, *allowed, "--fail-on", "error", cwd=tmp_path)
        assert done.returncode == 0 and f"warning: x.pcap: nothing could be checked: {why}\n" in done.stderr.decode()
    result = json.loads(run("x.pcap", *words, "--format", "json", cwd=tmp_path).stdout)
    assert result["captures"][0]["status"] == "empty" and why in result["captures"][0]["error"]


@pytest.mark.parametrize(("data", "words"), [
    (CLEAN, ("--select", "SA")), (MIXED, ("--select", "PKY")), (MIXED, ("--frames", "2")), (CLEAN, ("-Y", "infiniband.mad")),
])  # fmt: skip
def test_what_was_looked_at_was_checked_whatever_the_rules_need(tmp_path: Path, data: bytes, words: tuple[str, ...]) -> None:
    """As a P_Key rule looks at packets of a capture without SMPs, and says nothing."""
    (tmp_path / "x.pcap").write_bytes(data)
    assert run("x.pcap", *words, cwd=tmp_path).returncode == 0


def test_one_empty_capture_among_others(files: Path) -> None:
    (files / "header.pcap").write_bytes(HEADER)
    done = run("clean.pcap", "header.pcap", "bad.pcap", cwd=files)
    assert done.returncode == 2 and b"AM001" in done.stdout and done.stderr.count(b"nothing could be checked") == 1
    assert run("clean.pcap", "header.pcap", "--allow-empty", "--jobs", "2", cwd=files).returncode == 0


def test_one_reading_writes_several_reports(files: Path) -> None:
    outputs = [f"--output-file={name}=out.{name}" for name in ("json", "junit", "sarif", "gitlab", "markdown", "jsonl")]
    done = run("bad.pcap", "clean.pcap", *outputs, cwd=files)
    plain = run("bad.pcap", "clean.pcap", cwd=files)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    for name in ("json", "gitlab", "jsonl", "markdown"):
        assert (files / f"out.{name}").read_bytes() == run("bad.pcap", "clean.pcap", "--format", name, cwd=files).stdout
    artifacts = json.loads((files / "out.sarif").read_text())["runs"][0]["artifacts"]
    assert artifacts[0]["length"] == len(BAD) and len(artifacts[0]["hashes"]["sha-256"]) == 64
    assert b'time="' in (files / "out.junit").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--output-file", "junit"), "is not FORMAT=FILE"), (("--output-file", "junti=x"), "did you mean junit?"),
        (("--output-file", "json=x", "--output-file", "sarif=./x"), "is named twice"),
        (("--output-file", "json=bad.pcap"), "is one of the"),
        (("-o", "x", "--output-file", "json=x"), "is named twice"), (("--output-file", "json=no/where"), "cannot be written"),
    ],
)  # fmt: skip
def test_reports_that_cannot_be_written(files: Path, words: tuple[str, ...], said: str) -> None:
    done = run("bad.pcap", *words, cwd=files)
    assert done.returncode == 2 and said in done.stderr.decode()
    assert (files / "bad.pcap").read_bytes() == BAD


def test_exit_zero_is_for_findings_only(files: Path) -> None:
    assert run("bad.pcap", "--exit-zero", cwd=files).returncode == 0
    assert run("text.pcap", "--exit-zero", cwd=files).returncode == 2
    assert run("bad.pcap", "--no-such-option", "--exit-zero", cwd=files).returncode == 2


@pytest.mark.parametrize("form", ["json", "jsonl", "sarif", "gitlab", "junit"])
def test_formats_for_programs_list_all(tmp_path: Path, form: str) -> None:
    frames = [smp(1, 0x10, modifier=i, header={"transaction_id": i}) for i in range(1, 131)]
    (tmp_path / "many.pcap").write_bytes(erf_pcap(frames))
    done = run("many.pcap", "--select", "AM001", "--format", form, "--output-file", "full=out.txt", cwd=tmp_path)
    assert done.stdout.count(b"this one is 0x") >= 130
    text = (tmp_path / "out.txt").read_text()
    assert text.count("this one is 0x") == 100 and "30 more findings not shown" in text
    few = run("many.pcap", "--select", "AM001", "--format", form, "--max-findings", "7", cwd=tmp_path)
    assert few.stdout.count(b"this one is 0x") < 20
    if form != "jsonl":
        assert b"123" in few.stdout


def test_a_pipe_is_judged_in_one_pass() -> None:
    done = run("-", "--format", "json", stdin=BAD)
    result = json.loads(done.stdout)
    assert done.returncode == 1 and result["captures"][0]["phases"] == 1 and result["by_rule"] == {"AM001": 1}


def test_max_findings_limits_what_is_shown_and_not_what_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    path.write_bytes(erf_pcap([smp(1, 0x10, modifier=i, header={"transaction_id": i}) for i in range(1, 9)]))
    result = json.loads(run(str(path), "--format", "json", "--max-findings", "3", "--select", "AM001").stdout)
    assert len(result["findings"]) == 3 and result["by_rule"] == {"AM001": 8} and result["counts"]["error"] == 8
    everything = json.loads(run(str(path), "--format", "json", "--max-findings", "none", "--select", "AM001").stdout)
    assert len(everything["findings"]) == 8
    limited = json.loads(run(str(path), "--format", "json", "--frames", "2-3", "--select", "AM001").stdout)
    assert [f["frame"] for f in limited["findings"]] == [2, 3] and limited["captures"][0]["checked"] == 2


@pytest.mark.parametrize("number", ["0", "-1", "9" * 5000, "all", ""])
def test_a_limit_is_a_number_from_1_on(files: Path, number: str) -> None:
    done = run("bad.pcap", "--max-findings", number, cwd=files)
    assert done.returncode == 2 and b"is neither a number from 1 on nor `none`" in done.stderr


def test_keys_are_masked_unless_asked_for(repo: Path) -> None:
    path = str(repo / "captures/mkey-enforced.pcap.gz")
    key = "1122334455667788"
    for style in ("text", "json", "sarif", "junit", "github", "jsonl"):
        assert key not in run(path, "--format", style).stdout.decode()
    shown = run(path, "--show-keys").stdout.decode()
    assert key in shown
    assert "M_Key#1" in run(path).stdout.decode()


def test_report_goes_to_a_file_and_annotations_to_github(files: Path) -> None:
    done = run("bad.pcap", "--format", "sarif", "--output", "out.sarif", cwd=files)
    assert done.stdout == b"" and json.loads((files / "out.sarif").read_text())["version"] == "2.1.0"
    assert run("bad.pcap", cwd=files, GITHUB_ACTIONS="true").stdout.startswith(b"::error file=bad.pcap")
    assert run("bad.pcap", "--output", "no/such/dir/x", "--format", "json", cwd=files).returncode == 2


@pytest.mark.parametrize("option", ["--output", "--write-baseline"])
def test_no_capture_is_written_over(files: Path, option: str) -> None:
    (files / "link").symlink_to("bad.pcap")
    done = run("bad.pcap", "clean.pcap", option, "link", cwd=files)
    assert done.returncode == 2 and b"is one of the captures" in done.stderr
    assert (files / "bad.pcap").read_bytes() == BAD
    done = run(option, "bad.pcap", "clean.pcap", cwd=files)  # *.pcap behind an option that takes a file
    assert done.returncode == 2 and b"is a capture by its name" in done.stderr
    assert (files / "bad.pcap").read_bytes() == BAD


def test_a_report_replaces_a_file_whole_or_goes_into_a_pipe(files: Path) -> None:
    (files / "report").write_text("old")
    os.link(files / "report", files / "before")
    assert run("bad.pcap", "--output", "report", cwd=files).returncode == 1
    assert (files / "before").read_text() == "old" and "AM001" in (files / "report").read_text()
    with (files / "log").open("wb", buffering=0) as log:
        log.write(b"before ")
        command = [sys.executable, "-m", "ibdissect", "lint", "bad.pcap", "--format", "json", "--output", "/dev/stdout"]
        subprocess.run(command, cwd=files, stdout=log, timeout=120, check=False)
    assert (files / "log").read_bytes().startswith(b'before {\n  "schema"')
    read, write = os.pipe()
    assert run("bad.pcap", "--output", f"/dev/fd/{write}", "--format", "json", cwd=files, here=True).returncode == 1
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read().startswith(b'{\n  "schema"')


def test_a_cut_off_capture_is_checked_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(erf_pcap([smp(1, 0x10, modifier=1), native()])[:-7])
    result = json.loads(run(str(path), "--format", "json").stdout)
    assert result["captures"][0]["status"] == "truncated" and result["captures"][0]["frames"] == 1
    assert set(result["by_rule"]) == {"AM001", "CAP013"}


def test_configuration_chooses_rules_and_severities(files: Path) -> None:
    (files / "ibdissect.toml").write_text('ignore = ["AM001"]\n[severity]\nAM027 = "error"\n')
    assert run("bad.pcap", cwd=files).returncode == 0
    assert run("warn.pcap", cwd=files).returncode == 1
    (files / "ibdissect.toml").write_text('ignroe = ["AM001"]\n')
    done = run("bad.pcap", cwd=files)
    assert done.returncode == 2 and b"ignroe" in done.stderr and b"ignore" in done.stderr


def test_quiet_hides_the_summary_and_not_the_findings(files: Path) -> None:
    loud, quiet = run("bad.pcap", cwd=files), run("bad.pcap", "-q", cwd=files)
    assert b"AM001" in quiet.stdout and b"Found 1 error" in loud.stdout and b"Found" not in quiet.stdout
    assert loud.stdout.startswith(quiet.stdout) and quiet.stderr == b"" and quiet.returncode == 1


@pytest.mark.parametrize("packed", [False, True])
def test_sarif_marks_the_bytes_in_the_file(tmp_path: Path, packed: bool) -> None:
    capture = erf_pcap([smp(1, 0x10)] * 3 + [smp(1, 0x10, modifier=0x01020304)])
    (tmp_path / "bad.pcap").write_bytes(gzip.compress(capture) if packed else capture)
    (result,) = json.loads(run("bad.pcap", "--format", "sarif", "--select", "AM001", cwd=tmp_path).stdout)["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region["startLine"] == 1
    if packed:
        assert "byteOffset" not in region
    else:
        assert capture[region["byteOffset"] :][: region["byteLength"]] == bytes([1, 2, 3, 4])


def test_a_job_summary_has_what_annotations_leave_out(files: Path) -> None:
    (files / "bad.pcap").write_bytes(erf_pcap([smp(1, 0x10, modifier=1, header={"transaction_id": tid}) for tid in range(12)]))
    words = ("bad.pcap", "--format", "github", "--select", "AM001")
    summary = files / "summary.md"
    summary.write_text("before\n")
    short = run(*words, cwd=files, GITHUB_STEP_SUMMARY=str(summary)).stdout.decode()
    assert short.count("::error") == 10 and short.endswith("2 more in the job summary\n")
    assert summary.read_text().startswith("before\n## ibdissect\n") and summary.read_text().count("| ✖ error |") == 12
    assert run(*words, cwd=files).stdout.count(b"::error") == 12
    done = run("bad.pcap", "--format", "json", cwd=files, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1 and summary.read_text().count("## ibdissect") == 1
    done = run(*words, cwd=files, GITHUB_STEP_SUMMARY=str(files))
    assert done.returncode == 2 and b"the job summary cannot be written" in done.stderr


def test_a_capture_that_unpacks_to_too_much_is_checked_up_to_there(tmp_path: Path) -> None:
    others = [smp(1, 0x10, header={"transaction_id": tid}) for tid in range(1, 101)]
    (tmp_path / "a.pcap.gz").write_bytes(gzip.compress(erf_pcap([smp(1, 0x10, modifier=1), *others])))
    (tmp_path / "b.pcap").write_bytes(WARN)
    for jobs in ("2", "1"):
        done = run("--max-unpacked", "8K", "--format", "json", "--jobs", jobs, str(tmp_path))
        report = json.loads(done.stdout)
        assert done.returncode == 2 and b"it unpacks to more than 8,192 bytes (--max-unpacked)" in done.stderr
        assert [one["code"] for one in report["findings"]] == ["AM001", "CAP013", "AM027"]
        assert [one["status"] for one in report["captures"]] == ["truncated", "ok"]
        assert 1 < report["captures"][0]["frames"] < 101
    assert run(str(tmp_path / "a.pcap.gz")).returncode == 1, "the limit of an earlier command in this process"
    assert run("--max-unpacked", "1M", str(tmp_path / "a.pcap.gz")).returncode == 1
    assert b"is not a size; write 500M, 20G or 2T" in run("--max-unpacked", "1X", str(tmp_path)).stderr


def test_roce_on_another_port(tmp_path: Path) -> None:
    """One process, workers, frames, columns, Python: all read the port as RoCE."""
    frames = [craft.roce2(0x04, bytes(8), bth={"psn": 5, "p_key": 0, "destqp": port}, udp={"destination_port": port})
              for port in (4791, 4799)]  # fmt: skip
    for name in "ab":
        (tmp_path / f"{name}.pcap").write_bytes(craft.ethernet_pcap(frames))
    one, port = str(tmp_path / "a.pcap"), ("--roce-port", "4799")
    found = [commands.run("lint", *words, "--select", "PKY002", "--format", "json", str(tmp_path), text=True).stdout
             for words in ((), port, (*port, "--jobs", "2"))]  # fmt: skip
    assert [[entry["frame"] for entry in json.loads(text)["findings"]] for text in found] == [[1, 1], [1, 2, 1, 2], [1, 2, 1, 2]]
    assert commands.run("show", one, "-Y", "bth.psn == 5", "--count", *port, text=True).stdout == "2\n"
    assert commands.run("show", one, "-Y", "bth.psn == 5", "--count", text=True).stdout == "1\n"
    refused = commands.run("points", one, one, *port, text=True)
    assert refused.returncode == 2 and "--roce-port" in refused.stderr
    with ibdissect.open(one, roce_ports=[4799]) as capture:
        assert len(capture.table()["bth.psn"]) == 2
    with pytest.raises(ConfigError, match="99999: is not a UDP port"):
        ibdissect.open(one, roce_ports=[99999])


def test_a_check_does_not_load_what_it_does_not_need(repo: Path, tmp_path: Path) -> None:
    """np.isin and np.unique load numpy.ma for many numbers, a twentieth of the start: `decode.equal_rows` has the same without it. pathlib,
    with what it imports, is a hundredth; only configuration files need it."""
    names = [str(repo / f"captures/{name}.pcap") for name in ("opensm-first-sweep", "pkey-lab", "rxe-rping")]
    odd = [craft.roce2(bth={"psn": psn, "p_key": 0x8001, "destqp": psn}) for psn in range(2, 60)]  # many findings in one window
    (tmp_path / "odd.pcap").write_bytes(craft.ethernet_pcap(odd))
    words = ["lint", "-q", "--jobs", "1", *names, str(tmp_path / "odd.pcap")]
    code = f"""import sys
sys.modules.pop("pathlib", None)  # what finds an editable installation imports it
from ibdissect.cli import run
assert run({words!r}) == 1 and not {{"numpy.ma", "json", "glob", "pathlib"}} & {{*sys.modules}}"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(repo)}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
