"""Every command in README and docs runs, and prints what the page shows."""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import commands

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[1]
STEP_BY_STEP = [REPO / "docs/first-dissector.md", REPO / "docs/first-rule.md"]
"""Pages on which the reader writes a plugin step by step: their commands use only the code above them."""
PAGES = [page for page in (REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))) if page not in STEP_BY_STEP]
EXTRAS = all(importlib.util.find_spec(name) for name in ("pyarrow", "duckdb"))
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def console_commands() -> list[tuple[str, str, str]]:
    """(page, command, expected output) of every console block."""
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            found += [(str(page.relative_to(REPO)), command, output) for command, output in in_block(block)]
    return found


def in_block(block: str) -> list[tuple[str, str]]:
    """(command, expected output) of a console block."""
    return [part.partition("\n")[::2] for part in re.split(r"^\$ ", block, flags=re.M)[1:]]


def test_paths_in_pages_exist() -> None:
    pages = [*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md"), *(REPO / "tests").rglob("*.md")]
    paths = re.compile(r"`((?:[\w-]+/)+[\w*]+\.(?:py|csv|md))`")
    named = [(page, path) for page in pages for path in paths.findall(page.read_text(encoding="utf-8"))]
    roots = (REPO, REPO / "ibdissect")
    gone = [(str(page), path) for page, path in named if not any(any(root.glob(path)) for root in (*roots, page.parent))]
    assert len(named) > 100 and {path for _, path in gone} <= {"ibdissect/a/b.py", "tests/a/test_b.py"}


def test_names_in_architecture_exist() -> None:
    """`room/file.py` (`Name`): the file defines the name. `head.name`: a module or class `head` has, or its room defines, the name."""
    text = (REPO / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = REPO / "ibdissect"
    define = re.compile(r"\b(?:def|class) (\w+)|^ *(?:self\.)?(\w+)(?::[^=\n]*)?(?: =|$)", re.M)
    defined = {path.relative_to(package): define.findall(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")}
    names = {path: {name for pair in found for name in pair} for path, found in defined.items()}

    beside = re.findall(r"`(\w[\w/]*\.py)` \(`(?:\w+\.)?(\w+)`", text)
    gone = [(file, name) for file, name in beside if name not in names[Path(file)]]
    dotted = set(re.findall(r"`((?:[\w/]+\.)+\w+)(?:\([^`]*\))?`", text))
    dotted = {name for name in dotted if name.split(".")[0] not in ("context", "event", "ibdissect", "np", "self", "pyproject")}
    named = [name for name in dotted if not name.endswith((".py", ".c", ".csv", ".html"))]
    for name in named:
        *_, head, last = re.split(r"[./]", name)
        files = [path for path in names if head in (*path.parts, path.stem) or head in names[path]]
        if not any(path.stem == last or last in names[path] for path in files):
            gone.append((name, last))
    assert len(beside) > 10 and len(named) > 40 and not gone


def matches(shown: str, printed: str) -> bool:
    """Whether `printed` is what the page shows; a line `...` stands for any number of lines."""
    lines = [re.escape(line.rstrip()) for line in shown.splitlines()]
    lines = [re.sub(r"\d+\\ rules", r"\\d+\\ rules", line) for line in lines]  # the number of rules may change
    pattern = "".join(r"(?:.*\n)*?" if line == r"\.\.\." else line + r"[ ]*\n" for line in lines)
    return re.fullmatch(pattern, printed if printed.endswith("\n") or not printed else printed + "\n") is not None


@pytest.mark.parametrize(("page", "command", "output"), console_commands(), ids=lambda value: str(value)[:60])
def test_command(page: str, command: str, output: str) -> None:
    check(page, command, output, REPO)


def check(page: str, command: str, output: str, folder: Path) -> None:
    """Run a command of a page in a folder and compare what it prints."""
    words = shlex.split(command)
    assert words[0] == "ibdissect", f"{page}: {command} is not ours to test"
    done = commands.run(*words[1:], cwd=folder, env={**os.environ, "PYTHONPATH": str(REPO)}, text=True)
    if not EXTRAS and "ibdissect[export]" in done.stderr:
        pytest.skip("needs the extra `export`")
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert matches(output, done.stdout), f"{page}: `{command}` prints\n{done.stdout}"


@pytest.mark.parametrize("page", STEP_BY_STEP, ids=lambda page: page.stem)
def test_a_reader_who_follows_the_page(page: Path, tmp_path: Path) -> None:
    """Follows a page: puts each Python block into acme.py, and runs each command in order."""
    shutil.copy(REPO / "docs/examples/acme.pcap", tmp_path)
    code, ran = "", 0
    for language, block in re.findall(r"^```(python|console)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
        if language == "python":
            code += block + "\n\n"
            (tmp_path / "acme.py").write_text(code, encoding="utf-8")
            continue
        for command, output in in_block(block):
            check(page.name, command, output, tmp_path)
            ran += 1
    assert ran > 2 and code


def test_every_row_of_the_threat_model_names_a_test() -> None:
    lines = (REPO / "docs/threat-model.md").read_text(encoding="utf-8").splitlines()
    columns = [line.strip("|").split(" | ") for line in lines if line.startswith("| ")]
    rows = [row for row in columns if row[-1].strip() != "prevented by"]
    assert len(rows) > 40
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", row[-1])
        assert named, f"no test: {row[0]}"
        for path, name in named:
            assert not name or f"def {name}(" in (REPO / path).read_text(encoding="utf-8"), f"{path} has no {name}"


def test_numbers_of_readme() -> None:
    from ibdissect.rules import load

    readme = (REPO / "README.md").read_text(encoding="utf-8")
    (number,) = re.findall(r"\*\*More than (\d+) rules\*\*", readme)
    assert len(load()) > int(number)
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in readme


def test_python_of_the_page() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (REPO / "docs/commands.md").read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", block], cwd=REPO, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr


def test_accepted_mistakes_are_of_functions_that_exist(repo: Path) -> None:
    """A row whose function was renamed accepts nothing any more."""
    missing = []
    for row in csv.DictReader((repo / "benchmarks/equivalent_mutants.csv").open(encoding="utf-8")):
        text = "".join(path.read_text(encoding="utf-8") for path in repo.glob(row["file"]) if path.suffix == ".py")
        words = [rf"\b(?:def|class) {re.escape(name)}\b" for name in row["function"].split(".") if name != "*"]
        if not text or not all(re.search(word, text) for word in words):
            missing.append((row["file"], row["function"]))
    assert missing == []
