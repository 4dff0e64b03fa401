"""Fixtures for all tests: paths of the repository, the reference tables and the shared captures."""

from __future__ import annotations

import gc
import inspect
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import commands

# A busy machine is no fault. In CI the examples are the same every time; elsewhere each run draws new ones.
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI")))
settings.register_profile("any", settings.get_profile("thorough"), max_examples=20)
settings.register_profile("fast lane", settings.get_profile("thorough"), max_examples=10)
settings.load_profile("any")

REPO = Path(__file__).resolve().parents[1]
SHARED = (REPO / "../shared").resolve()
REFERENCE = REPO / "tests/reference"
HAS_SHARED = (SHARED / "captures").is_dir()

if sys.dont_write_bytecode:
    # Many tests start commands; without bytecode files each would compile the whole package again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(REPO / ".pytest_cache/bytecode")
    sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs like that; commands that tests interrupt would inherit it and never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW_MODULE = re.compile(r"^pytestmark = \[?pytest\.mark\.slow\b", re.MULTILINE)
CAPTURE_SUFFIXES = (".pcap", ".pcapng", ".cap", ".erf", ".dmp", ".sniffer")


def shared_captures(folder: str = "") -> list[Path]:
    """Captures below ../shared/captures/`folder`, sorted; empty if ../shared is missing. For parametrize."""
    root = SHARED / "captures" / folder
    return sorted(path for path in root.rglob("*") if path.suffix in CAPTURE_SUFFIXES)


def a_third_of(paths: Sequence[Path], first: int = 0) -> list[Any]:
    """Every third of some captures for parametrize, from number `first` on; the others only with --thorough."""
    return [pytest.param(path, marks=[pytest.mark.thorough] * (i % 3 != first)) for i, path in enumerate(paths)]


@pytest.fixture(scope="session")
def repo() -> Path:
    """Root of the repository."""
    return REPO


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with recorded captures next to the repository; without it, tests that ask for it are left out."""
    return SHARED


def pytest_configure(config: pytest.Config) -> None:
    commands.server()
    if config.getoption("--thorough", False):
        settings.load_profile("thorough")
    elif config.option.markexpr == "not slow":
        settings.load_profile("fast lane")
    gc.disable()  # until all tests are collected


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without the slow tests, do not import modules that have no others: they import most, and make much at once."""
    if "slow" not in _left_out(config) or collection_path.suffix != ".py":
        return None
    return True if SLOW_MODULE.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no items that would be dropped: of five tests two."""
    if not inspect.isfunction(obj):
        return None
    marks = {mark.name for mark in getattr(obj, "pytestmark", ())} | ({"slow"} if inspect.iscoroutinefunction(obj) else set())
    return [] if marks & _left_out(collector.config) else None


def _left_out(config: pytest.Config) -> set[str]:
    """The marks of tests that do not run."""
    return {mark for mark, out in (("slow", config.option.markexpr == "not slow"), ("thorough", not config.getoption("--thorough"))) if out}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests as slow that read recorded captures outside the repository or run the terminal UI, and those that compare with a file
    that they can write; drop what cannot run or need not.
    """
    if config.getoption("--thorough"):
        for item in items:
            item.add_marker(pytest.mark.timeout(3600))  # instead of `timeout` in pyproject.toml
    else:
        items[:] = [item for item in items if item.get_closest_marker("thorough") is None]
    if not HAS_SHARED:
        items[:] = [item for item in items if not _needs_shared(item)]
    for item in items:
        if _needs_shared(item) or inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker("slow")
        if "written" in _fixtures(item):
            item.add_marker("written")


def _parameters(item: pytest.Item) -> dict[str, object]:
    """The parameters of a test, by name."""
    return getattr(getattr(item, "callspec", None), "params", {})


def _fixtures(item: pytest.Item) -> set[str]:
    """The names of the fixtures that a test asks for. Parameters are none, though pytest lists them, too."""
    return {*getattr(item, "fixturenames", ())} - {*_parameters(item)}


def _needs_shared(item: pytest.Item) -> bool:
    """Whether a test reads ../shared. Without that folder, many have an empty list of parameters, for which pytest marks them."""
    values = _parameters(item).values()
    empty = any("empty parameter set" in mark.kwargs.get("reason", "") for mark in item.iter_markers("skip"))
    return empty or "shared" in _fixtures(item) or any(isinstance(v, Path) and v.is_relative_to(SHARED) for v in values)


def pytest_collection_finish() -> None:
    """Leave what imports and collection made out of garbage collection, and collect less often: a tenth of all CPU time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not HAS_SHARED:
        terminalreporter.write_line("tests that need the captures in ../shared/captures were left out")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="also run all cases where other tests take some")
    parser.addoption("--update-golden", action="store_true", help="write the files that tests compare with; then look at the diff")


@pytest.fixture
def written(request: pytest.FixtureRequest) -> Callable[[Path, bytes | str], None]:
    """Compares what is made now with a file of the repository, or writes the file."""
    update = request.config.getoption("--update-golden")

    def compare(path: Path, made: bytes | str) -> None:
        data = made.encode() if isinstance(made, str) else made
        if update:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        assert data == path.read_bytes(), f"{path} differs; if that is meant: pytest -m written --update-golden, then look at the diff"

    return compare


@pytest.fixture
def golden(request: pytest.FixtureRequest, written: Callable[[Path, bytes | str], None]) -> Callable[[str, bytes], None]:
    """Compares bytes with the file of that name in the folder `golden` next to the test."""
    return lambda name, found: written(request.path.parent / "golden" / name, found)
