"""Options are listed under titles, each once, and old names of options still work, with a warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ibdissect.cli import run
from ibdissect.cli.lint import command
from tests.conftest import REPO

LAB = str(REPO / "captures/pkey-lab.pcap")


def test_every_option_has_a_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "--help"]) == 0
    text = capsys.readouterr().out
    assert [line[:-1] for line in re.findall(r"^[A-Z][a-z ]+:$", text, re.M)] == list(command.sections)
    listed = [name for names in command.sections.values() for name in names]
    own = {one.name for one in command.params} - {"paths"}
    assert len(set(listed)) == len(listed) and own <= set(listed), "a new option needs its place in Lint.sections"
    for option in ("--select", "--format", "--output-file", "--jobs", "--config", "--help"):
        assert len(re.findall(rf"^  (?:-\w, )?{option}\b(?!-)", text, re.M)) == 1, option
    assert "PATH...  " not in text


def test_old_names_work_and_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--to", "x.pcap"], ["--to=x.pcap"]):
        assert run(["scrub", LAB, *[word.replace("x.pcap", str(tmp_path / "x.pcap")) for word in words]]) == 0
        assert "warning: --to of `scrub` is called --output now\n" in capsys.readouterr().err
        assert (tmp_path / "x.pcap").exists()
    assert run(["fabric", str(REPO / "captures/opensm-first-sweep.pcap"), "--write", "partitions.conf"]) == 0
    assert "--write of `fabric` is called --format now" in capsys.readouterr().err


def test_only_options_are_renamed(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["export", LAB, "--tooth", "x"], ["export", "-o", "x.csv", "--", "--to"], ["points", LAB, "--write", "x"]):
        assert run(words) == 2
        assert " is called " not in capsys.readouterr().err, words
