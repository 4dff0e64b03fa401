"""--show-settings prints a configuration that does the same, and says where each value is from."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from string import ascii_uppercase

import pytest

from tests import commands
from tests.conftest import REPO

LAB = str(REPO / "captures/pkey-lab.pcap")
CONFIG = """
select = ["PKY", "TXN001", "LAB"]
ignore = ["PKY002"]
fail-on = "warning"
[per-path-ignores]
"a b/**" = ["PKY003"]
[severity]
TXN = "info"
[options.TXN001]
patience = 5.0
[site]
partitions = [0xFFFF]
[[rule]]
code = "LAB001"
name = "x"
when = "frame.len > 3"
message = "y"
"""


CODES = (f"LA{letter}" for letter in ascii_uppercase)
"""A family for each test: the process that runs commands may know the rules of the test before."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ibdissect.toml").write_text(CONFIG.replace("LAB", next(CODES)))
    return tmp_path


def lint(*words: str) -> tuple[int, str]:
    done = commands.run("lint", *words, text=True)
    return done.returncode, done.stdout or done.stderr


def shown(*words: str) -> str:
    status, text = lint(*words, "--show-settings")
    assert status == 0, text
    return text


def test_it_is_a_configuration(project: Path) -> None:
    text = shown("--fail-on", "info", LAB)
    values = tomllib.loads(text)
    assert values["fail-on"] == "info" and values["severity"] == {"TXN": "info"} and values["site"] == {"partitions": [0xFFFF]}
    assert values["options"] == {"TXN001": {"patience": 5.0}} and values["per-path-ignores"] == {"a b/**": ["PKY003"]}
    assert "PKY001" in values["select"] and not {"PKY", "PKY002"} & {*values["select"]} and values["rule"][0]["code"].startswith("LA")
    assert 'fail-on = "info"  # command line' in text and 'color = "auto"  # usual' in text and "ibdissect.toml" in text
    status, first = lint(LAB, "--format", "json")
    (project / "ibdissect.toml").write_text(text.replace('"info"  # command line', '"warning"'))
    again = lint(LAB, "--format", "json")
    assert status == again[0] == 1 and json.loads(again[1])["findings"] == json.loads(first)["findings"] != []


def test_without_a_capture_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = shown()
    assert text.startswith("# configuration: none") and 'fail-on = "error"  # usual' in text and "# baseline: none" in text


def test_values_of_the_command_line_override_the_file(project: Path) -> None:
    words = ("fail-on=never", "options.TXN001.patience=7", 'severity.PKY001="info"', "select=['AM', 'TXN001']", "allow-empty=true")
    values = tomllib.loads(shown(*(word for value in words for word in ("--config", value))))
    assert (values["fail-on"], values["allow-empty"], values["options"]["TXN001"]) == ("never", True, {"patience": 7})
    assert values["severity"] == {"TXN": "info", "PKY001": "info"} and values["select"] == ["AM", "TXN001"]
    assert lint(LAB, "--config", "fail-on=never")[0] == 0


def test_rules_are_added_to_those_of_the_file(project: Path) -> None:
    assert "CC" in tomllib.loads(shown("--extend-select", "CC"))["select"]
    assert "PKY005" not in tomllib.loads(shown("--extend-ignore", "PKY005"))["select"]
    assert tomllib.loads(shown("--select", "CC", "--extend-select", "AM"))["select"] == ["AM", "CC"]
