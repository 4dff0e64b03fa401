"""`ibdissect rules` lists, explains and documents every rule, and docs/rules.md lists them."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ibdissect.rules import load
from tests import commands


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return commands.run("rules", *words, text=True)


def test_lists_every_rule_once() -> None:
    assert [line.split()[0] for line in run().stdout.splitlines()] == [rule.code for rule in load()]


def test_explains_by_code_and_by_name() -> None:
    page = run("PKY001").stdout
    assert page == run("limited-to-limited").stdout
    assert all(heading in page for heading in ("Why it matters", "What to do", "Example", "Reference"))


def test_json() -> None:
    rules = json.loads(run("AM", "--format", "json").stdout)
    assert {rule["code"] for rule in rules} == {rule.code for rule in load() if rule.code.startswith("AM")}


@pytest.mark.slow
def test_says_which_file_defines_a_rule(repo: Path) -> None:
    for rule in json.loads(run("--format", "json").stdout):
        family = rule["code"].rstrip("0123456789")
        assert rule["defined_in"].startswith(f"ibdissect/rules/{family}/")
        assert f'"{rule["code"]}"' in (repo / rule["defined_in"]).read_text(encoding="utf-8")
    plugin = str(repo / "docs/examples/first_rule.py")
    assert run("PKY005").stdout.rstrip().endswith("Defined in\n  ibdissect/rules/PKY/agreements.py")
    assert run("ACME011", "--plugin", plugin).stdout.rstrip().endswith(f"Defined in\n  {plugin}")


def test_an_unknown_code_names_the_nearest() -> None:
    done = run("limited-to-limitd")
    assert done.returncode == 2 and "did you mean limited-to-limited" in done.stderr


def test_the_page_of_all_rules_is_current(repo: Path, written: Callable[[Path, bytes | str], None]) -> None:
    written(repo / "docs/rules.md", runpy.run_path(str(repo / "docs/rules_page.py"))["page"]())


@pytest.mark.slow
def test_markdown_has_all_pages_and_their_contents() -> None:
    text = run("--format", "markdown").stdout
    for rule in load():
        place = f"{rule.code.lower()}-{rule.name}"
        assert f"\n- [{rule.code} {rule.name}](#{place}): " in text and f"\n## {rule.code} {rule.name}\n" in text
