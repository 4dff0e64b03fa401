"""How do tests run commands? In forks of the test process, which has loaded the package: a quarter of the cost of a new interpreter."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

import pytest

NEEDS_DUCKDB = pytest.mark.skipif(find_spec("duckdb") is None, reason="needs duckdb")
"""Not `importorskip`: at its exit, an interpreter that has loaded DuckDB prints what DuckDB leaked."""
PATIENCE_S = 300
"""A command that takes longer is killed."""


def run(
    *words: str, stdin: bytes | None = None, stdout: IO[bytes] | None = None, cwd: Path | str | None = None,
    env: dict[str, str] | None = None, text: bool = False,
) -> CompletedProcess[Any]:  # fmt: skip
    """What `python -m ibdissect WORDS` prints, or writes to `stdout`, and returns. `stdin` is a pipe; `text` decodes the output."""
    import ibdissect.cli.lint
    import ibdissect.rules

    ibdissect.rules.load()
    with TemporaryFile() as out, TemporaryFile() as err:
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
            child = os.fork()
        if child == 0:
            os.close(write)
            _run(list(words), os.open(os.devnull, os.O_RDONLY) if stdin is None else read, (stdout or out).fileno(), err.fileno(), cwd, env)
        os.close(read)
        with suppress(BrokenPipeError), open(write, "wb") as pipe:
            pipe.write(stdin or b"")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode().replace("\r\n", "\n") if text else file.read())
    return CompletedProcess(words, status, *said)


def _run(words: list[str], stdin: int, out: int, err: int, cwd: Path | str | None, env: dict[str, str] | None) -> NoReturn:
    """The command in the child: with the streams, signals, warnings and paths of a new process."""
    status: Any = 1
    try:
        signal.alarm(PATIENCE_S)
        for number, descriptor in enumerate((stdin, out, err)):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
            sys.path[:0] = env.get("PYTHONPATH", "").split(os.pathsep)
        os.chdir(cwd or ".")
        forkserver._forkserver.__init__()  # the test process has one of its own
        resource_tracker._resource_tracker.__init__()
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
        os._exit(status if isinstance(status, int) else 1)
