"""`--write-baseline` and `--baseline` hide known findings, report new and fixed ones, and reject damaged files."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import commands
from tests.craft import erf_pcap, rc, smp

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[2]
OLD = [smp(1, 0x10, modifier=1), smp(1, 0x10, modifier=2, header={"transaction_id": 5})]
NEW = smp(1, 0x10, modifier=3, header={"transaction_id": 6})


def lint(cwd: Path, *words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "GITHUB_ACTIONS"} | {"PYTHONPATH": str(REPO)}
    done = commands.run("lint", "--select", "AM", *words, stdin=stdin, cwd=cwd, env=environment)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A capture with two findings, both known."""
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures/a.pcap").write_bytes(erf_pcap(OLD))
    done = lint(tmp_path, "captures", "--write-baseline", "known.json")
    assert done.returncode == 0 and "baseline known.json: 2 findings written" in done.stderr
    assert "Found 2 errors" in done.stdout  # what becomes known is told once more
    return tmp_path


def test_what_is_known_is_hidden_even_when_frames_move(project: Path) -> None:
    (project / "captures/a.pcap").write_bytes(erf_pcap([rc(0x04, bytes(8)), *OLD]))
    done = lint(project, "captures", "--baseline", "known.json")
    assert done.returncode == 0 and "No new findings, 2 known findings hidden" in done.stdout
    assert "baseline known.json: 2 known, 0 new, 0 fixed" in done.stderr
    assert lint(project, "-q", "captures", "--baseline", "known.json").stderr == ""


def test_new_and_fixed_in_text_and_json(project: Path) -> None:
    (project / "captures/a.pcap").write_bytes(erf_pcap([OLD[1], NEW]))
    done = lint(project, "captures", "--baseline", "known.json")
    assert done.returncode == 1 and all(
        text in done.stdout for text in ("    :2  +0.001000 s  ", "✖ error AM001", "Found 1 error, 1 known finding hidden:")
    )
    assert "1 known, 1 new, 1 fixed" in done.stderr and "fixed: captures/a.pcap: AM001: " in done.stderr
    result = json.loads(lint(project, "captures", "--baseline", "known.json", "--format", "json").stdout)
    assert [finding["frame"] for finding in result["findings"]] == [2]
    assert result["counts"]["error"] == 1 and result["by_rule"] == {"AM001": 1}
    fixed = result["baseline"].pop("fixed")
    assert result["baseline"] == {"path": "known.json", "known": 1, "new": 1, "unchecked": 0, "not_checked": []}
    assert [(entry["capture"], entry["code"], entry["count"]) for entry in fixed] == [("captures/a.pcap", "AM001", 1)]
    assert "baseline" not in json.loads(lint(project, "captures", "--format", "json").stdout)


def test_the_configuration_may_name_it_and_it_may_be_renewed(project: Path) -> None:
    (project / "ibdissect.toml").write_text('baseline = "known.json"\n')
    assert "baseline known.json: 2 known" in lint(project, "captures").stderr
    assert lint(project / "captures", "a.pcap").returncode == 0
    (project / "captures/a.pcap").write_bytes(erf_pcap([*OLD, NEW]))
    assert lint(project, "captures").returncode == 1
    before = (project / "known.json").read_text()
    assert lint(project, "captures", "--write-baseline", "known.json").returncode == 0
    after = (project / "known.json").read_text()
    entries = [[line for line in text.splitlines() if "fingerprint" in line] for text in (before, after)]
    assert set(entries[0]) < set(entries[1]) and list(map(len, entries)) == [2, 3]
    assert lint(project, "captures").returncode == 0


def test_the_same_whatever_jobs_is_and_however_often(project: Path) -> None:
    (project / "captures/b.pcap").write_bytes(erf_pcap([NEW]))
    for name, jobs in (("one.json", "1"), ("two.json", "2")):
        assert lint(project, "captures", "--write-baseline", name, "--jobs", jobs).returncode == 0
    assert (project / "one.json").read_bytes() == (project / "two.json").read_bytes()
    assert [path.name for path in project.iterdir() if path.name.startswith(".")] == []


def test_no_key_is_written_even_when_keys_are_shown(tmp_path: Path) -> None:
    capture = str(REPO / "captures/mkey-enforced.pcap.gz")
    for extra in ((), ("--show-keys",)):
        assert lint(tmp_path, "--select", "MKY", capture, "--write-baseline", f"{len(extra)}.json", *extra).returncode == 0
    text = (tmp_path / "1.json").read_text()
    assert "MKY002" in text and "1122334455667788" not in text
    assert text == (tmp_path / "0.json").read_text()
    assert "1 fixed" not in lint(tmp_path, "--select", "MKY", capture, "--baseline", "0.json", "--show-keys").stderr


def test_more_than_are_shown_are_known(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(erf_pcap([smp(1, 0x10, modifier=i, header={"transaction_id": i}) for i in range(1, 9)]))
    assert lint(tmp_path, "a.pcap", "--write-baseline", "b.json", "--max-findings", "2").returncode == 0
    assert "8 known, 0 new" in lint(tmp_path, "a.pcap", "--baseline", "b.json", "--max-findings", "2").stderr
    (tmp_path / "a.pcap").write_bytes(erf_pcap([smp(1, 0x10, modifier=i, header={"transaction_id": i}) for i in range(5, 15)]))
    result = json.loads(lint(tmp_path, "a.pcap", "--baseline", "b.json", "--max-findings", "2", "--format", "json").stdout)
    assert [f["frame"] for f in result["findings"]] == [5, 6] and result["by_rule"] == {"AM001": 6}


def test_rules_that_a_path_ignores_are_not_fixed_there(project: Path) -> None:
    (project / "ibdissect.toml").write_text('[per-path-ignores]\n"captures/a.pcap" = ["AM001"]\n')
    assert "0 known, 0 new, 0 fixed, 2 not checked" in lint(project, "captures", "--baseline", "known.json").stderr


@pytest.mark.parametrize("name", ["captures/renamed.pcap", "captures/a.pcap.gz", "elsewhere/x.pcap.gz"])
def test_a_capture_is_known_by_what_it_holds(project: Path, name: str) -> None:
    data = (project / "captures/a.pcap").read_bytes()
    (project / "captures/a.pcap").unlink()
    (project / "elsewhere").mkdir()
    (project / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    done = lint(project, name, "--baseline", "known.json")
    assert done.returncode == 0 and "2 known, 0 new, 0 fixed" in done.stderr and "not checked" not in done.stderr
    assert f"{name} is compared with captures/a.pcap" in done.stderr
    (project / name).write_bytes(erf_pcap([*OLD, NEW]))  # neither name nor bytes
    done = lint(project, name, "--baseline", "known.json")
    assert done.returncode == 1 and "0 known, 3 new, 0 fixed, 2 not checked" in done.stderr


def test_the_capture_of_tonight_is_compared_with_that_of_last_night(project: Path) -> None:
    nights = project / "nights"
    nights.mkdir()
    for day, frames in ((26, OLD[:1]), (27, OLD)):
        (nights / f"bench-202611{day}.pcap").write_bytes(erf_pcap(frames))
    assert lint(project, "nights", "--write-baseline", "known.json").returncode == 0
    (nights / "bench-20261128.pcap").write_bytes(erf_pcap([*OLD, NEW]))
    done = lint(project, "nights", "--baseline", "known.json")  # the others are there, too, and keep their own entries
    assert done.returncode == 1 and "5 known, 1 new, 0 fixed\n" in done.stderr
    assert "nights/bench-20261128.pcap is compared with nights/bench-20261127.pcap" in done.stderr
    for day in (26, 27):
        (nights / f"bench-202611{day}.pcap").unlink()
    done = lint(project, "nights", "--baseline", "known.json")  # in the place of the first that is gone, which had one of the two
    assert done.returncode == 1 and "1 known, 2 new, 0 fixed, 2 not checked" in done.stderr
    assert "not checked: nights/bench-20261127.pcap: 2 findings (AM001)" in done.stderr


def test_a_copy_beside_the_original_is_new(project: Path) -> None:
    (project / "captures/b.pcap").write_bytes((project / "captures/a.pcap").read_bytes())
    assert "2 known, 2 new, 0 fixed" in lint(project, "captures", "--baseline", "known.json").stderr


def test_a_baseline_of_the_first_schema_is_read(project: Path) -> None:
    lines = (project / "known.json").read_text().splitlines()
    old = [line for line in lines if "sha256" not in line]
    assert len(old) < len(lines)
    (project / "known.json").write_text("\n".join(old).replace('"schema": 2', '"schema": 1'))
    assert "2 known, 0 new, 0 fixed" in lint(project, "captures", "--baseline", "known.json").stderr


def test_what_was_not_checked_is_named(project: Path) -> None:
    (project / "captures/b.pcap").write_bytes(erf_pcap(OLD))
    assert lint(project, "captures", "--write-baseline", "known.json").returncode == 0
    done = lint(project, "captures/a.pcap", "--baseline", "known.json")
    assert "2 known, 0 new, 0 fixed, 2 not checked\n  not checked: captures/b.pcap: 2 findings (AM001)\n" in done.stderr
    result = json.loads(lint(project, "captures/a.pcap", "--baseline", "known.json", "--format", "json").stdout)["baseline"]
    assert result["unchecked"] == 2 and {one["capture"] for one in result["not_checked"]} == {"captures/b.pcap"}


@pytest.mark.parametrize("broken", [b"no capture", erf_pcap([])])
def test_no_baseline_is_written_of_what_was_not_checked(project: Path, broken: bytes) -> None:
    before = (project / "known.json").read_bytes()
    (project / "captures/b.pcap").write_bytes(broken)
    done = lint(project, "captures", "--write-baseline", "known.json")
    assert done.returncode == 2 and "known.json is not written" in done.stderr
    assert (project / "known.json").read_bytes() == before
    allowed = lint(project, "captures", "--write-baseline", "known.json", "--allow-empty")
    assert allowed.returncode == (2 if broken == b"no capture" else 0)


def test_what_could_not_be_checked_is_not_fixed(project: Path) -> None:
    (project / "captures/a.pcap").write_bytes(erf_pcap([]))
    for words in ((), ("--allow-empty",)):
        assert "0 known, 0 new, 0 fixed, 2 not checked" in lint(project, "captures", "--baseline", "known.json", *words).stderr


def test_a_pipe_is_compared_too(project: Path) -> None:
    data = erf_pcap(OLD)
    assert lint(project, "-", "--write-baseline", "pipe.json", stdin=data).returncode == 0
    assert lint(project, "-", "--baseline", "pipe.json", stdin=data).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--baseline", "missing.json"], "no such file; write it: --write-baseline missing.json"),
        (["--baseline", "broken.json"], "broken.json: line 4: is a damaged baseline"),
        (["--baseline", "bytes.json"], "bytes.json: file: is a damaged baseline: no text"),
        (["--baseline", "captures"], "is a directory"),
        (["--write-baseline", "no/where.json"], "no/where.json: cannot be written"),
        (["--write-baseline", "part.json", "--frames", "1"], "would know a part of the captures only"),
    ],
)
def test_mistakes_and_damage_are_status_2(project: Path, words: list[str], said: str) -> None:
    (project / "broken.json").write_text((project / "known.json").read_text()[:-80])
    (project / "bytes.json").write_bytes(b"\xff\xfe")
    done = lint(project, "captures", *words)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_an_unreadable_capture_is_still_status_2(project: Path) -> None:
    (project / "captures/text.pcap").write_text("no capture\n" * 9)
    done = lint(project, "captures", "--baseline", "known.json")
    assert done.returncode == 2 and "2 known, 0 new, 0 fixed" in done.stderr
