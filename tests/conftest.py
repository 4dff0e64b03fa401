"""What do tests of every room need: where the repository and the shared captures are."""

from __future__ import annotations

from collections.abc import Callable
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is printed now into the golden files, then look at the diff")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, bytes], None]:
    """Compares bytes with the file of that name in the folder `golden` beside the test."""
    folder = Path(str(request.fspath)).parent / "golden"
    update = request.config.getoption("--update-golden")

    def compare(name: str, found: bytes) -> None:
        path = folder / name
        if update:
            folder.mkdir(exist_ok=True)
            path.write_bytes(found)
        assert found == path.read_bytes(), f"{path} differs; if that is meant: pytest --update-golden"

    return compare
