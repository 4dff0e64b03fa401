"""`ibdissect points` prints tables of 80 columns, JSON for scripts, and ends with the status that its help promises."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ibdissect.cli import run
from tests.points.world import World, behind


def written(folder: Path, **lost: dict[int, str]) -> list[str]:
    world = World(clocks={"server": behind(-3_600_000_000_000, 12)})
    world.conversation(60, **lost)
    return world.write(folder)


@pytest.mark.slow
def test_text_and_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["points", *written(tmp_path)]) == 0
    assert "No findings" in capsys.readouterr().out
    paths = written(tmp_path, lost={7: "server"})
    assert run(["points", *paths]) == 1
    printed = capsys.readouterr().out
    tables, finding = printed.split(f"{paths[1]}:15: ")
    assert "PTS001 lost-between-points: RC 10.0.0.1 → 10.0.1.2 QP 0x000045: lost between tap and server" in finding
    assert max(map(len, tables.splitlines())) <= 80


@pytest.mark.slow
def test_other_formats_and_chosen_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = written(tmp_path, lost={7: "server"})
    config = tmp_path / "site.toml"
    config.write_text('select = ["RC"]\nfail-on = "info"\nseverity = {PTS001 = "info"}')  # `select` is for lint
    for options, status, said in (
        (["--format", "sarif"], 1, '"ruleId": "PTS001"'), (["--format", "junit"], 1, "QP 0x000045: lost between tap and server"),
        (["--format", "github"], 1, "::error file="), (["--format", "jsonl", "--fail-on", "never"], 0, '"code": "PTS001"'),
        (["--ignore", "PTS001"], 0, "No findings"), (["--select", "PTS002"], 0, "checked with 1 rule."),
        (["--config", str(config)], 1, "Found 1 info: "),
    ):  # fmt: skip
        assert run(["points", *paths, *options]) == status, options
        assert said in capsys.readouterr().out
    config.write_text('select = ["PTS002"]')  # no choice for `lint`
    for command, rules in (["points", *paths], 1), (["lint", paths[0]], "[0-9]{3}"):
        run([*command, "--config", str(config)])
        assert re.search(f"checked with {rules} rule", capsys.readouterr().out)


@pytest.mark.slow
def test_json_has_the_documented_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = written(tmp_path, lost={7: "server"})
    assert run(["points", *paths, "--format", "json"]) == 1
    short = json.loads(capsys.readouterr().out)
    assert run(["points", *paths, "--format", "json", "--packets", "--write", str(tmp_path / "all.pcapng")]) == 1
    long = json.loads(capsys.readouterr().out)
    names = "schema reference points pairs lost not_captured ambiguous conversations notes findings"
    assert list(short) == names.split()
    assert {**short, "packets": long["packets"]} == long and long["packets"][0] == [1, 1, 1]
    assert (tmp_path / "all.pcapng").stat().st_size > 20_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{client}"], "nothing to compare it with"),
        (["{client}", "{client}x"], "no such file"),
        (["{client}", "{tap}", "{client}"], "{client}: is named twice: nothing is lost between a file and itself"),
        (["{client}", "-"], "a pipe can be read only once; save it as a file first"),
        (["{client}", "{tap}", "--packets"], "use --format json"),
        (["{client}", "{tap}", "--select", "RC001"], "leaves no rule of the family PTS"),
        (["{client}", "{tap}", "--frames", "1"], "whole captures"),
        (["{client}", "{tap}", "--write", "{tap}"], "--write: {tap}: unknown extension .pcap"),
    ],
)
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    paths = {Path(path).stem: path for path in written(tmp_path)}
    assert run(["points", *(word.format(**paths) for word in words)]) == 2
    assert said.format(**paths) in capsys.readouterr().err


@pytest.mark.slow
def test_a_filter_limits_the_findings_and_a_report_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = written(tmp_path, lost={7: "server"})
    assert run(["points", *paths, "-Y", "frame.number == 15", "--format", "json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["findings"]) == 1
    assert run(["points", *paths, "-Y", "frame.number == 3", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["findings"] == [] and len(found["lost"]) == 1  # matched in whole captures
    status = run(["points", *paths])
    printed, target = capsys.readouterr().out, tmp_path / "report"
    assert run(["points", *paths, "-o", str(target)]) == status == 1
    assert target.read_text() == printed and capsys.readouterr().out == ""
    assert run(["points", *paths, "-o", paths[0]]) == 2
