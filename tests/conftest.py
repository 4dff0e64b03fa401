"""What do tests of every room need: where the repository and the shared captures are."""

from __future__ import annotations

from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
SHARED = (REPO / "../shared").resolve()

CAPTURE_SUFFIXES = (".pcap", ".pcapng", ".cap", ".erf", ".dmp", ".sniffer")


def shared_captures(folder: str = "") -> list[Path]:
    """Captures below ../shared/captures/`folder`, sorted; empty where ../shared is missing. For parametrize."""
    root = SHARED / "captures" / folder
    return sorted(path for path in root.rglob("*") if path.suffix in CAPTURE_SUFFIXES)


@pytest.fixture(scope="session")
def repo() -> Path:
    """Root of the repository."""
    return REPO


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with reference facts and captures beside the repository; skips the test without it."""
    if not (SHARED / "captures").is_dir():
        pytest.skip("needs ../shared")
    return SHARED
