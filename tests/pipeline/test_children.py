"""Processes that work for a command load nothing from the working directory, and end when it does, however it ends."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ibdissect.errors import ConfigError
from ibdissect.pipeline import children
from tests.conftest import REPO

pytestmark = pytest.mark.slow

NEEDS_DASK = pytest.mark.skipif(find_spec("distributed") is None or find_spec("cryptography") is None, reason="needs the extra cluster")
NEEDS_SERVE = pytest.mark.skipif(find_spec("textual_serve") is None, reason="needs textual-serve")
NEEDS_EXPORT = pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow")
MODULES = (sys.stdlib_module_names | packages_distributions().keys()) - set(sys.builtin_module_names) - {"ibdissect", "__main__"}
"""What a process may import by its first name."""
_LIST = (REPO / "SECURITY.md").read_text().partition("imports before our first line: ")[2].partition("Python 3")[0]
BEFORE_US = set(re.findall(r"`(\w+)`", _LIST))
"""What Python imports for `python -m` before our first line, as SECURITY.md lists it."""
WITHOUT_SITE = {"PYTHONPATH": os.pathsep.join([str(REPO), *(path for path in sys.path if path.endswith("-packages"))])}
"""For `python -S`: what a .pth file of this environment imports beforehand, as those of editable installs do, is imported later."""
SCRIPT = "from ibdissect.__main__ import main\n\nif __name__ == '__main__':\n    main()\n"
SPAWNING = (
    "from multiprocessing import get_context\n\nfrom ibdissect.pipeline import processes\n\n"
    f"processes._context = lambda: get_context('spawn')\n{SCRIPT}"
)
"""As on systems that cannot fork."""
STUCK = """
from ibdissect.lint.rule import Rule, on_chunk

class Stuck(Rule):
    'Never lets go of the lock of Python.'
    code, name, message = 'ZZZ001', 'stuck', 'x'

    @on_chunk
    def look(self, table, context):
        sum(iter(int, 1))
"""
PATIENCE_S = 60


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of an archive: captures, and a module named like everything that is ever imported, which says that it ran."""
    folder = tmp_path / "archive"
    folder.mkdir()
    for i in range(3):
        shutil.copy(REPO / "captures/pkey-lab.pcap", folder / f"{i}.pcap")
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write(__name__ + '\\n')\n")
    (tmp_path / "program").mkdir()
    (tmp_path / "program/ibdissect").write_text(SCRIPT)
    (tmp_path / "program/spawning").write_text(SPAWNING)
    return folder


def hear_hangups() -> None:
    """In a process that is about to start: the signal that `nohup` hides from whatever runs below it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def on_a_terminal(words: list[str], folder: Path, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], bytes]]]:
    """A command on a terminal of its own, which is read, and what it has printed."""
    environment = {name: value for name, value in os.environ.items() if name not in (children.SAFE, "CI")}
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        words, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True, preexec_fn=hear_hangups,
        env={**environment, "TERM": "xterm-256color", **more},
    )  # fmt: skip
    os.close(terminal)
    printed = bytearray()

    def read() -> None:
        with suppress(OSError):  # nobody writes any more
            while data := os.read(main, 1 << 16):
                printed.extend(data)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield process, lambda: bytes(printed)
    finally:
        process.kill()
        process.wait()
        reader.join(PATIENCE_S)
        os.close(main)


def until(true: Callable[[], object], seconds: float = PATIENCE_S) -> bool:
    """Whether something becomes true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def listens(port: int) -> bool:
    """Whether somebody accepts connections on a port of this machine."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE_S):
        return True
    return False


def started_by(number: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == number and fields[0] not in "ZX":
                found.append(int(folder.name))
    return found


IN_PROCESSES: list[Any] = [
    ("lint", "--jobs", "2", "."),
    pytest.param(("lint", "--engine", "dask", "--jobs", "2", "."), marks=NEEDS_DASK),
    pytest.param(("export", "--jobs", "2", "0.pcap", "--output", "../o.csv"), marks=NEEDS_EXPORT),
]
OTHERS: list[Any] = [
    ("lint", "--jobs", "2", "--cache", "../cache", "--sandbox", "."), ("lint", "0.pcap"), ("stats", "--jobs", "2", "."),
    ("show", "--format", "tree", "0.pcap"), ("fabric", "0.pcap"), ("points", "0.pcap", "1.pcap"),
    ("scrub", "0.pcap", "--output", "../s.pcap"),
    ("annotate", "0.pcap", "--output", "../a.pcapng"), ("rules", "PKY001"), ("--version",),
    pytest.param(("export", "--jobs", "2", ".", "--output", "../parts", "--partition-by", "capture"), marks=NEEDS_EXPORT),
    pytest.param(("stats", "--engine", "dask", "--jobs", "2", "."), marks=NEEDS_DASK),
]  # fmt: skip


@pytest.mark.parametrize("words", IN_PROCESSES, ids=" ".join)
@pytest.mark.parametrize("how", ["module", "spawning"])
def test_nothing_in_the_working_directory_runs_however_it_starts(hostile: Path, how: str, words: tuple[str, ...]) -> None:
    if how == "module":
        _runs_nothing([sys.executable, "-S", "-m", "ibdissect", *words], without_those_before_us(hostile), CI="1", **WITHOUT_SITE)
    else:
        _runs_nothing([sys.executable, str(hostile.parent / "program/spawning"), *words], hostile, CI="1")


def without_those_before_us(hostile: Path) -> Path:
    """The folder without the modules that `python -m` imports there before our first line."""
    for name in BEFORE_US:
        (hostile / f"{name}.py").unlink()
    return hostile


def test_what_python_imports_before_us_is_listed(tmp_path: Path) -> None:
    """The package that says it stands for ours; modules that are built in or frozen are not looked for in folders."""
    (tmp_path / "ibdissect").mkdir()
    (tmp_path / "ibdissect/__init__.py").write_text(
        "import sys\n"
        "print(*{n.partition('.')[0] for n, m in sys.modules.items() if 'SourceFileLoader' in str(getattr(m, '__loader__', ''))})\n"
    )
    (tmp_path / "ibdissect/__main__.py").touch()

    def imported(*words: str) -> set[str]:
        words = (sys.executable, "-S", *words)
        return set(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()) - {"ibdissect"}

    before = imported("-m", "ibdissect") - imported("-c", "import ibdissect")
    assert before <= BEFORE_US, before - BEFORE_US
    assert before == BEFORE_US or sys.version_info >= (3, 12)


@pytest.mark.parametrize("words", [("-P", "-m", "ibdissect"), ("-m", "ibdissect")], ids=" ".join)
def test_what_runs_as_a_module(hostile: Path, words: tuple[str, ...]) -> None:
    """With -P nothing there runs, as SECURITY.md says; without it what it lists does."""
    done = subprocess.run([sys.executable, "-S", *words, "--version"], cwd=hostile, env={**os.environ, **WITHOUT_SITE}, check=False)
    assert (done.returncode == 0) == (not (hostile / "ran").exists()) == ("-P" in words)


@pytest.mark.parametrize("words", [*IN_PROCESSES, *OTHERS], ids=" ".join)
def test_nothing_in_the_working_directory_runs(hostile: Path, words: tuple[str, ...]) -> None:
    _runs_nothing([sys.executable, str(hostile.parent / "program/ibdissect"), *words], hostile)


def _runs_nothing(words: list[str], hostile: Path, **more: str) -> None:
    with on_a_terminal(words, hostile, **more) as (process, printed):
        assert process.wait(PATIENCE_S) in (0, 1), printed().decode()
    assert not (hostile / "ran").exists(), (hostile / "ran").read_text()
    assert b"Traceback" not in printed()


@pytest.mark.parametrize("words", [("0.pcap",), pytest.param(("serve", "0.pcap"), marks=NEEDS_SERVE)], ids=" ".join)
@pytest.mark.parametrize("how", ["program", "module"])
def test_nothing_there_runs_with_a_screen(hostile: Path, how: str, words: tuple[str, ...]) -> None:
    program, more = [str(hostile.parent / "program/ibdissect")], dict[str, str]()
    if how == "module":
        hostile, program, more = without_those_before_us(hostile), ["-S", "-m", "ibdissect"], WITHOUT_SITE
    with on_a_terminal([sys.executable, *program, *words], hostile, **more) as (process, printed):
        assert until(lambda: b"http://127.0.0.1" in printed() or len(printed()) > 4000), printed().decode()
        if words[0] == "serve":
            import asyncio
            import re

            import aiohttp

            address = re.search(rb"http://127\.0\.0\.1:(\d+)/\S+/", printed())
            assert address is not None
            port = int(address[1])
            assert until(lambda: listens(port)), "the address is printed a moment before somebody listens"

            async def opened() -> None:
                async with (
                    aiohttp.ClientSession() as session, session.ws_connect(f"{address[0].decode()}ws?width=80&height=24") as screen
                ):  # fmt: skip
                    await asyncio.wait_for(screen.receive(), PATIENCE_S)

            asyncio.run(opened())
        assert process.poll() is None
    assert not (hostile / "ran").exists(), (hostile / "ran").read_text()


def test_where_python_ignores_variables_no_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Flags:
        ignore_environment, safe_path = True, False

    monkeypatch.setattr(sys, "flags", Flags)
    said = "-E: other processes would load modules from the working directory; add -P"
    with pytest.raises(ConfigError, match=said), children.safe_path():
        pass


def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in ("", None):
        if before is None:
            monkeypatch.delenv(children.SAFE, raising=False)
        else:
            monkeypatch.setenv(children.SAFE, before)
        with children.safe_path():
            assert os.environ[children.SAFE] == "1"
        assert os.environ.get(children.SAFE) == before


def test_a_module_that_is_no_part_of_us_keeps_its_path(tmp_path: Path) -> None:
    """`python -m` of somebody's own package, which imports this one while it is found."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/__init__.py").write_text("import ibdissect")
    (tmp_path / "own/__main__.py").write_text("import beside")
    (tmp_path / "beside.py").write_text("print('found')")
    environment = {name: value for name, value in os.environ.items() if name != children.SAFE}
    done = subprocess.run([sys.executable, "-m", "own"], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "found\n", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
@pytest.mark.parametrize(
    "words",
    [
        ("lint", "--jobs", "2"), ("lint", "--jobs", "2", "--plugin", "stuck.py"), ("stats", "--jobs", "2"),
        pytest.param(("lint", "--engine", "dask", "--jobs", "2"), marks=NEEDS_DASK),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_workers_end_with_the_command(tmp_path: Path, number: int, words: tuple[str, ...], terminal: bool) -> None:
    """Also where a worker never returns to Python: the captures are pipes that nobody writes to, or the rule counts without end."""
    (tmp_path / "stuck.py").write_text(STUCK)
    if "--plugin" in words:
        shutil.copy(REPO / "captures/pkey-lab.pcap", tmp_path / "0.pcap")
        shutil.copy(REPO / "captures/pkey-lab.pcap", tmp_path / "1.pcap")
    else:
        os.mkfifo(tmp_path / "0.pcap")
        os.mkfifo(tmp_path / "1.pcap")
    command = [sys.executable, "-m", "ibdissect", *words, "0.pcap", "1.pcap"]
    least = 3
    if terminal:
        with on_a_terminal(command, tmp_path) as (process, _):
            _ends(process, number, least)
        return
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=hear_hangups
    ) as process:
        assert process.stdout is not None
        _ends(process, number, least)
        assert process.stdout.read() == b"", "nobody holds the other end"


def _ends(process: subprocess.Popen[bytes], number: int, least: int) -> None:
    assert until(lambda: len(started_by(process.pid)) >= least)
    time.sleep(2)  # the workers have begun
    process.send_signal(number)
    process.wait(PATIENCE_S)
    left = until(lambda: not started_by(process.pid), 10)
    for one in started_by(process.pid):
        os.kill(one, signal.SIGKILL)
    assert left, "workers outlive the command"
