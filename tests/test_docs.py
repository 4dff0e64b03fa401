"""Does every command of README and docs run, and print what the page shows?"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
PAGES = [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]
EXTRAS = all(importlib.util.find_spec(name) for name in ("pyarrow", "duckdb"))
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def commands() -> list[tuple[str, str, str]]:
    """(page, command, expected output) of every console block."""
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, output = part.partition("\n")
                found.append((str(page.relative_to(REPO)), command, output))
    return found


def matches(shown: str, printed: str) -> bool:
    """Whether `printed` is what the page shows; a line `...` stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line.rstrip()) + r"[ ]*\n" for line in shown.splitlines())
    return re.fullmatch(pattern, printed if printed.endswith("\n") or not printed else printed + "\n") is not None


@pytest.mark.parametrize(("page", "command", "output"), commands(), ids=lambda value: str(value)[:60])
def test_command(page: str, command: str, output: str) -> None:
    words = shlex.split(command)
    assert words[0] == "ibdissect", f"{page}: {command} is not ours to test"
    done = subprocess.run(
        [sys.executable, "-m", "ibdissect", *words[1:]],
        cwd=REPO,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    if not EXTRAS and "ibdissect[export]" in done.stderr:
        pytest.skip("needs the extra `export`")
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert matches(output, done.stdout), f"{page}: `{command}` prints\n{done.stdout}"


def test_python_of_readme(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (REPO / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", block], cwd=REPO, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
