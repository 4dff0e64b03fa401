"""The tour of the Python interface runs, on its own capture and on others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import run

pytestmark = pytest.mark.slow

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("capture", ["captures/pkey-lab.pcap", "captures/opensm-first-sweep.pcap", "captures/rxe-rping.pcap"])
def test_tutorial_runs(repo: Path, capture: str) -> None:
    done = subprocess.run(
        [sys.executable, "docs/examples/tutorial.py", capture], cwd=repo, capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": str(repo), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{capture}: ") and "rows in batches" in done.stdout
    if capture == "captures/pkey-lab.pcap":
        assert "37 frames" in done.stdout and "P_Key 0x8999: 1 packets, first in frame 33" in done.stdout


def test_python_of_the_page(repo: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (repo / "docs/getting-data-out.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 1
    done = subprocess.run([sys.executable, "-c", blocks[0]], cwd=repo, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_rules_of_a_site_find_the_partition_it_does_not_have(repo: Path) -> None:
    rules, capture = repo / "docs/examples/site-rules.toml", repo / "captures/pkey-lab.pcap"
    done = run("lint", "--plugin", str(rules), "--select", "SITE", "--format", "concise", str(capture), text=True)
    assert ":33: warning SITE001 P_Key 0x8999 from LID 4 to LID 3" in done.stdout and done.returncode == 0
