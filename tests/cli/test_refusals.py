"""Impossible requests are rejected with status 2 and one line that says what is wrong and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ibdissect.cli import COMMANDS, run
from tests.conftest import REPO
from tests.craft import erf_pcap, rc, smp

LAB = str(REPO / "captures/pkey-lab.pcap")
BROWSER = "textual.drivers.web_driver:WebDriver"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fabric", LAB, "--dot", "--format", "json"), "does nothing with --format json"),
        (("scrub", LAB, "--output", "x.pcap", "--show-keys"), "keys are replaced by their numbers"),
        (("lint", LAB, "--select", "PKY", "--ignore", "PKY"), "leaves no rule that could check anything"),
        (("lint", LAB, "--explain", "ZZZ999"), "no rule has this code"),
        (("lint", LAB, "--explain", ""), "no rule has this code"),
        (("lint", LAB, "--extend-select", "ZZZ999"), "no rule has this code"),
        (("lint", "--fail-on", "info"), "Missing argument 'PATH...'"),
        (("lint", LAB, "--config", "fail-on=loud"), "--config: fail-on: 'loud' is none of"),
        (("lint", LAB, "--config", "fale-on=error"), "did you mean fail-on?"),
        (("lint", LAB, "--config", "[=]"), "cannot be read"),
        (("lint", LAB, "--config", "/dev/null", "--config", "/dev/zero"), "is a second configuration file"),
        (("diff", LAB, str(REPO / "docs/examples/subnet"), "-Y", "lrh"), "not both sides are captures"),
        (("diff", LAB, LAB, "--frames", "1"), "-Y selects by what frames hold"),
        (("follow", LAB, "1", "--names"), "follow: --names: does nothing here"),
        (("scrub", LAB, "--output", "x.pcap", "--names"), "the copy holds no names"),
        (("fabric", LAB, "--names"), "nodes are always shown with their names"),
        (("points", LAB, LAB, "--roce-port", "5000"), "--roce-port: 5000: is not for several capture points yet"),
        (("diff", LAB, LAB, "--subnet-time", "2026-11-30"), "BEFORE and AFTER say all"),
        (("export", LAB, "--output", "x.pcap", "-e", "frame.len"), "-e: frame.len: does nothing here: a capture holds frames only"),
        (("export", LAB, "--output", "x.pcap", "--findings"), "name a .csv or .parquet"),
        (("export", LAB, "--output", "x.csv", "--findings", "-e", "infiniband.lrh.dlid"), "findings have columns of their own"),
        (("export", LAB, "--output", "x.csv", "--first", "--records"), "export: --first: does nothing with --records"),
        (("export", LAB, "--output", "x.csv", "--findings", "--records"), "export: --records: does nothing with --findings"),
        (("export", LAB, "--output", "x.csv", "--max-findings", "7"), "--max-findings: 7: is for --findings"),
        (("export", LAB, "--output", "x.pcap", "--jobs", "2"), "--jobs: 2: is for --partition-by, and for the frames of a"),
        (("show", LAB, "--count", "--format", "json"), "--format: json: does nothing here: --count prints a number"),
        (("show", LAB, "--count", "-e", "frame.number"), "-e: frame.number: does nothing here"),
        (("points", LAB, LAB, "--packets"), "points: --packets: is a list for programs; use --format json"),
        (("export", LAB, "--output", "/dev/null.csv/x.csv"), "cannot be written"),
        (("annotate", LAB, "--output", "{folder}.pcapng"), "is not a regular file"),
        (("lint", "-", LAB), "standard input cannot be read together with files"),
        (("lint", LAB, "-Y", 'ibdissect.code == "PKY001"', "--format", "jsonl"), "choose rules with --select"),
        (("lint", LAB, "--baseline", "{folder}"), "is a directory"),
        (("lint", LAB, "--select", "PTS001"), "needs several captures; run `ibdissect points`"),
        (("diff", LAB, LAB, "--subnet", LAB), f"--subnet: {LAB}: cannot be used here"),
        (("rules", "ZZZ999"), "ZZZ999"),
        (("rules", "-Y", "lrh"), "-Y: lrh: cannot be used here"),
        (("rules", "--show-keys"), "rules: --show-keys: cannot be used here"),
        (("fields", "--frames", "1"), "--frames: 1: cannot be used here"),
        (("fields", "--subnet", LAB), "cannot be used here: no capture is read"),
        (("lint", LAB, "--subnet-time", "2026-11-30"), "name them with --subnet"),
        (("serve", LAB, "--frames", "1"), "use -Y 'frame.number in {1..10}'"),
        (("serve", "-"), "a pipe can be read only once"),
        (("tui", LAB, "--frames", "1"), "the terminal UI shows all frames"),
        (("tui", LAB, "-Y", "lrh =="), "the filter ends where more is expected"),
        (("tui", "{folder}/none.pcap"), "none.pcap"),
        (("show", LAB, "--plugin", "{folder}/none.toml"), "cannot be read"),
        (("show", LAB, "--plugin", "{folder}/bad.toml"), "not valid TOML"),
        (("show", LAB, "--plugin", "{folder}/pyproject.toml"), "declares no rule"),
        (("show", LAB, "--plugin", "{folder}/noend"), "is not a Python file"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value).replace(LAB, "LAB"),
)  # fmt: skip
def test_refused(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEXTUAL_DRIVER", BROWSER)  # else `tui` asks for a terminal first
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.pcapng").mkdir()
    (tmp_path / "folder/bad.toml").write_text("rule = [", encoding="utf-8")
    (tmp_path / "folder/pyproject.toml").write_text("[tool]\nibdissect = 3\n", encoding="utf-8")
    (tmp_path / "folder/noend").write_text("x", encoding="utf-8")
    assert run([word.replace("{folder}", str(tmp_path / "folder")) for word in words]) == 2
    out = capsys.readouterr()
    assert said in out.err and "Traceback" not in out.err and out.out == ""
    assert not list(tmp_path.glob("x.*")), "nothing is written"


@pytest.mark.slow
def test_help_leaves_out_what_is_always_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the options that all commands share: each is listed, or refused by name."""
    listing = []
    for name in COMMANDS:
        assert run([name, "--help"]) == 0
        if "--frames" in capsys.readouterr().out:
            listing.append(name)
    assert listing == ["lint", "report", "show", "follow", "stats", "fabric", "export", "sql", "annotate", "scrub"]


def test_a_pipe_without_a_keyboard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TEXTUAL_DRIVER", BROWSER)
    monkeypatch.setattr(sys, "stdin", None)
    assert run(["tui", "-"]) == 2
    assert "pipe a capture into it: ibdump -w - | ibdissect tui -" in capsys.readouterr().err
    assert run(["show", "-"]) == 2
    assert "there is no standard input" in capsys.readouterr().err


def test_the_version_by_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    from ibdissect.version_text import version_line

    assert run(["--version"]) == 0 and capsys.readouterr().out == version_line() + "\n"


def test_damage_is_reported_by_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(erf_pcap([smp(1, 0x11), rc(0x04, bytes(8))])[:-5])
    for command in ("fabric", "stats", "show"):
        assert run([command, str(path)]) == 0
        assert "cut-off" in capsys.readouterr().err, command


def test_quiet_fabric_leaves_ports_and_members_out(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = str(REPO / "captures/opensm-first-sweep.pcap")
    assert run(["fabric", sweep]) == 0
    whole = capsys.readouterr().out
    assert run(["fabric", "-q", sweep]) == 0
    short = capsys.readouterr().out
    assert "    port " in whole and "    port " not in short and "Nodes" in short
    assert set(short.splitlines()) < set(whole.splitlines())
