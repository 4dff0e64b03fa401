"""The reports that the options of `lint` ask for, and the findings that each lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.cli.report_targets import Target, digests_of, limited, most_listed, targets_of
from ibdissect.errors import ConfigError
from tests.commands import run
from tests.report.test_formats import finding, report


@pytest.fixture(autouse=True)
def outside_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def test_the_first_is_that_of_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert targets_of(None, None, ()) == [Target("text")]
    assert targets_of("json", "x", ["junit=y=z.xml"]) == [Target("json", "x"), Target("junit", "y=z.xml")]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert targets_of(None, None, ["sarif=x"]) == [Target("github"), Target("sarif", "x")]
    assert targets_of(None, "x", ()) == [Target("text", "x")] and targets_of("text", None, ()) == [Target("text")]
    with pytest.raises(ConfigError, match="is named twice"):
        targets_of(None, None, ["json=a", "sarif=b/../a"])


def test_people_read_some_and_programs_all() -> None:
    text, json = Target("text"), Target("json", "x")
    assert (text.limit(None), json.limit(None), text.limit(-1), json.limit(5)) == (100, 10_000, None, 5)
    assert (most_listed([text], None), most_listed([text, json], None), most_listed([text, json], -1)) == (100, 10_000, None)


def test_what_is_left_out_stays_counted() -> None:
    many = report(*(finding(frame=frame) for frame in range(1, 9)))
    (few,) = limited([many], 3)
    assert (len(few.findings), few.left_out, len(many.findings), many.left_out) == (3, 5, 8, 0)


def test_files_are_read_once_more_only_for_a_format_that_shows_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("x") / "a"
    path.write_bytes(b"abc")
    assert digests_of([Target("json")], [str(path)]) == {}
    assert digests_of([Target("text"), Target("sarif", "x")], [str(path), "-"])[str(path)].size == 3


@pytest.mark.slow
def test_a_dash_is_standard_output_for_every_report(tmp_path: Path, repo: Path) -> None:
    lab = str(repo / "captures/pkey-lab.pcap")
    for words in (["lint", lab, "-o"], ["report", lab, "-o"], ["report", lab, "--output"], ["lint", lab, "--output-file"]):
        target = "json=-" if words[-1] == "--output-file" else "-"
        done = run(*words, target, cwd=tmp_path, text=True)
        assert len(done.stdout) > 100 and not [*tmp_path.iterdir()], words
