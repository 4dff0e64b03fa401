"""Commands run by tests, all in one process that has loaded the package: a new interpreter for each takes 20 times the CPU time.

A command that changes its process gets a fork of its own, which takes 25 ms more. Commands with the same plugins of the repository, which
no test changes, share a process that has loaded these. All come from a process that was forked before the tests: a fork of the test
process itself, which grows, takes 60 ms more, and would have the plugins of earlier tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from time import tzset
from typing import IO, Any

import pytest

NEEDS_DUCKDB = pytest.mark.skipif(find_spec("duckdb") is None, reason="needs duckdb")
"""Not `importorskip`: at its exit, an interpreter that has loaded DuckDB prints what DuckDB leaked."""
FIRST = {
    "lint": ("lint --jobs 1",), "show": ("show", "show --format jsonl", "show --format tree"), "stats": ("stats",), "fabric": ("fabric",),
    "export": ("export --output - --format csv",), "report": ("report",),
}  # fmt: skip
"""What is run once, before a command runs for the first time, so that all processes find it imported and worked out."""
ALONE = frozenset({"--sandbox", "serve", "tui", "pytest"})
"""Commands and options that change the process, which is then of no use for another command."""
IMPORTED = {
    "export": ("pyarrow.parquet",), "sql": ("ibdissect.tables.sql",), "--engine": ("ibdissect.pipeline.cluster",),
    "--plugin": ("ibdissect.layers",),
}  # fmt: skip
"""What is only imported: a fork must not have DuckDB's threads."""
REPO = Path(__file__).parents[1]
CAPTURE = str(REPO / "captures/pkey-lab.pcap")
PATIENCE_S = 300
"""A command that takes longer is killed."""


def run(
    *words: str, stdin: bytes | None = None, stdout: IO[bytes] | None = None, cwd: Path | str | None = None,
    env: dict[str, str] | None = None, text: bool = False, here: bool = False,
) -> CompletedProcess[Any]:  # fmt: skip
    """What `python -m ibdissect WORDS` prints, or writes to `stdout`, and returns. `stdin` is a pipe; `text` decodes the output.

    With `pytest` as the first word, what `python -m pytest` prints with the other ones.

    `here`: in a fork of the test process, for a command that needs what that changed or opened. It has no `stdin`.
    """
    with TemporaryFile() as out, TemporaryFile() as err:
        read, write = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        files = nothing if stdin is None else read, (stdout or out).fileno(), err.fileno()
        asked = [words, str(cwd or os.getcwd()), dict(env if env is not None else os.environ), env is not None]
        if here:
            status = _forked(asked, files)
        else:
            _send(server(), asked, files)
        os.close(read)
        os.close(nothing)
        with suppress(BrokenPipeError), open(write, "wb") as pipe:
            pipe.write(stdin or b"")
        if not here:
            answer = server().recv(1 << 16).decode()
            if not answer.isdecimal():
                raise RuntimeError(f"the process that runs commands ended: {answer or 'it was killed'}")
            status = int(answer)
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode().replace("\r\n", "\n") if text else file.read())
    return CompletedProcess(words, os.waitstatus_to_exitcode(status), *said)


def status_here(*words: str) -> int:
    """With which status `ibdissect WORDS` ends in this process, which keeps what it prints."""
    from ibdissect.cli import run

    try:
        return run(list(words))
    except SystemExit as done:
        return int(str(done.code))


@cache
def server() -> socket.socket:
    """The connection to the process whose forks run the commands; `pytest_configure` makes it."""
    mine, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        mine.close()
        try:
            _serve(theirs)
        except BaseException:
            theirs.send(traceback.format_exc().encode())
        os._exit(0)
    theirs.close()
    atexit.register(_end, mine, child)
    return mine


def _end(mine: socket.socket, child: int) -> None:
    mine.close()
    os.waitpid(child, 0)


def _serve(asked: socket.socket) -> None:
    """Answer each request with the status of its command, as `waitpid` gives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; it ends with the test process
    ran, workers = set[str](), dict[tuple[str, ...], _Worker]()
    while True:
        request, files = _received(asked)
        if not files:
            for worker in workers.values():
                worker.end()
            return
        words, _, env, own_env = request
        plugins = _plugins(words)
        for command in {"lint", *words} & (FIRST.keys() | IMPORTED.keys()) - ran:
            ran.add(command)
            _run_first(command)
        plugins = _plugins(words)
        if plugins is None or ALONE.intersection(words) or (own_env and "PYTHONPATH" in env):
            status = _forked(request, files)
        else:
            for others in workers.keys() - {(), plugins} if plugins else ():
                workers.pop(others).end()
            worker = workers.pop(plugins, None) or _Worker([asked, *(other.connection for other in workers.values())], len(plugins))
            status, stays = worker.run(request, files)
            if stays:
                workers[plugins] = worker
        for file in files:
            os.close(file)
        asked.send(str(status).encode())


def _plugins(words: list[str]) -> tuple[str, ...] | None:
    """The plugins that a command names; None if a test may change one of them."""
    named = tuple(name for option, name in pairwise(words) if option == "--plugin")
    return named if all(Path(name).is_absolute() and Path(name).is_relative_to(REPO) for name in named) else None


def _send(to: socket.socket, asked: list[Any], files: Sequence[int]) -> None:
    text = json.dumps(asked).encode()
    socket.send_fds(to, [len(text).to_bytes(4, "big") + text], files)


def _received(connection: socket.socket) -> tuple[list[Any], list[int]]:
    """What to run, and its standard streams; no streams if there is nothing more to run."""
    head, files, *_ = socket.recv_fds(connection, 4, 3)
    text, size = b"", int.from_bytes(head, "big")
    while len(text) < size:
        text += connection.recv(size - len(text))
    return json.loads(text or b"[]"), files


class _Worker:
    """A process that runs one command after the other, as long as they leave nothing behind but the same plugins."""

    def __init__(self, of_others: Sequence[socket.socket], plugins: int) -> None:
        """`of_others`: connections that this process has, and the worker must not: they would never end."""
        self.connection, asked = socket.socketpair()
        self.child = os.fork()
        if self.child == 0:
            for one in (*of_others, self.connection):
                one.close()
            try:
                while _worked(asked, plugins):
                    pass
            finally:
                os._exit(0)
        asked.close()

    def run(self, asked: list[Any], files: list[int]) -> tuple[int, bool]:
        """The status of a command, and whether the process stays for another one."""
        _send(self.connection, asked, files)
        status, _, stays = self.connection.recv(64).decode().partition(" ")
        ended = self.end() if stays != "1" else 0
        return int(status or ended), stays == "1"

    def end(self) -> int:
        """The status with which the process ended, whose CPU time is then part of the tests'."""
        self.connection.close()
        return os.waitpid(self.child, 0)[1]


def _worked(asked: socket.socket, plugins: int) -> bool:
    """Run a command; whether the process can run another one."""
    request, files = _received(asked)
    if not files:
        return False
    status = _run(request, *files)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, file in enumerate(files):
        os.dup2(nothing, number)
        os.close(file)
    os.close(nothing)
    stays = _as_new(plugins)
    asked.send(f"{status << 8} {int(stays)}".encode())
    return stays


def _as_new(plugins: int) -> bool:
    """Whether a command has left this process as it found it, without a process, thread or plugin of its own but those it named."""
    module = sys.modules.get("ibdissect.plugins")
    with suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        return False
    loads = module._load.cache_info() if module else None
    return threading.active_count() == 1 and (not loads or loads.misses == loads.currsize == min(plugins, 1))


def _forked(asked: list[Any], files: Sequence[int]) -> int:
    """The status with which the command ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _run(asked, *files)
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def _run_first(command: str) -> None:
    from ibdissect.cli import run

    for module in IMPORTED.get(command, ()):
        with suppress(ImportError):
            importlib.import_module(module)
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        for words in FIRST.get(command, ()):
            run([*words.split(), CAPTURE])
    gc.freeze()


def _run(asked: list[Any], stdin: int, out: int, err: int) -> int:
    """The status of a command with the streams, signals, warnings and paths of a new process."""
    words, cwd, env, own_paths = asked
    status: Any = 1
    try:
        signal.alarm(PATIENCE_S)
        for number, descriptor in enumerate((stdin, out, err)):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8", closefd=False), os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        os.environ.clear()
        os.environ.update(env)
        tzset()
        if own_paths:
            sys.path[:0] = env.get("PYTHONPATH", "").split(os.pathsep)
        os.chdir(cwd)
        forkserver._forkserver.__init__()  # type: ignore[misc]  # the test process has one of its own
        resource_tracker._resource_tracker.__init__()  # type: ignore[misc]
        if words[:1] == ["pytest"]:
            sys.exit(pytest.main(words[1:]))
        sys.argv = ["ibdissect", *words]
        from ibdissect.__main__ import main

        main()
        status = 0
    except SystemExit as done:
        status = done.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        signal.alarm(0)
    return status if isinstance(status, int) else 1
