"""The guides in docs/ are correct: the same answers as tshark, the quoted examples, a working configuration."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[1]
WIRESHARK = (REPO / "docs/coming-from-wireshark.md").read_text(encoding="utf-8")
PAIRS = re.findall(r"^\| `(tshark -n .*)` \| `ibdissect (.*)` \|$", WIRESHARK, re.M)
QUOTES = [
    (page.name, example, block)
    for page in sorted((REPO / "docs").glob("*.md"))
    for example, block in re.findall(r"^<!-- (docs/examples/\S+) -->\n```\w*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
]


def run(*words: str, cwd: Path = REPO) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)


def test_there_is_something_to_compare() -> None:
    assert len(PAIRS) >= 4 and {page for page, _, _ in QUOTES} >= {"ci.md", "configuration.md"}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_both_programs_answer_the_same(theirs: str, ours: str) -> None:
    expected = run(*shlex.split(theirs))
    found = run(sys.executable, "-m", "ibdissect", *shlex.split(ours))
    assert found.returncode == 0, found.stderr
    assert found.stdout == expected.stdout and expected.stdout.count("\n") > 2


@pytest.mark.parametrize(("page", "example", "block"), QUOTES, ids=lambda value: str(value)[:40].replace("\n", " "))
def test_what_a_page_quotes_is_in_the_example(page: str, example: str, block: str) -> None:
    text = (REPO / example).read_text(encoding="utf-8")
    if example.endswith(".py"):  # the page shows only some of its lines
        imports = [line for line in block.splitlines() if line.startswith("from ")]
        assert imports and all(line in text for line in imports), page
        compile(block, example, "exec")
    else:
        assert block in text, page


def test_the_configuration_of_the_page_works(tmp_path: Path) -> None:
    shutil.copytree(REPO / "captures", tmp_path / "captures")
    shutil.copy(REPO / "docs/examples/ibdissect-ci.toml", tmp_path / "ibdissect.toml")
    program = [sys.executable, "-m", "ibdissect", "lint", "captures"]
    environment = {"PYTHONPATH": str(REPO), "PATH": ""}
    for words, status, said in (
        ([], 2, "no such file; write it: --write-baseline"),
        (["--write-baseline", "known.json"], 0, "written"),
        ([], 0, "0 new"),
    ):
        done = subprocess.run([*program, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == status and said in done.stderr, done.stderr
    assert "the site's policy does not allow" in (tmp_path / "known.json").read_text()
