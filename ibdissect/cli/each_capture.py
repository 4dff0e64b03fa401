"""The loop of a command over many captures, in processes (`--jobs`) or on a Dask cluster (`--engine`), and the outcome of each.

Ctrl+C ends the work after the current window and keeps the results so far; the second one ends it at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

import click
from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect import failures, plugin_timeout
from ibdissect.capture.chunk import Damage
from ibdissect.capture.file_names import Unit, files_of
from ibdissect.capture.windows import allow_reads, interrupt_reads
from ibdissect.errors import ConfigError, IbdissectError, missing_extra
from ibdissect.pipeline.check import Stop
from ibdissect.pipeline.ordered_pool import Engine, Stopped, Work, spread
from ibdissect.pipeline.reading import Progress
from ibdissect.shown_urls import public_name

from .common_options import CommonOptions, say
from .console import progress_bar

INTERRUPTED = 130
"""Exit status, as shells report a program ended by SIGINT."""


class FrameCount(Protocol):
    """The result of work on a capture; it has the number of frames."""

    frames: int


T = TypeVar("T")
R = TypeVar("R", bound=FrameCount)
F = TypeVar("F", bound=Callable[..., Any])

TRUSTED = "ibdissect.trusts_network"


def engine_option(command: F) -> F:
    """The options --engine and --trust-network; the latter is no parameter of the command."""
    engine = click.option(
        "--engine",
        metavar="dask|dask+tls://HOST:PORT|FILE",
        help="Work on captures with Dask: all cores of this machine (or --jobs N), a cluster's scheduler, or its scheduler file.",
    )
    trust = click.option(
        "--trust-network", is_flag=True, expose_value=False, callback=lambda context, _, on: context.meta.update({TRUSTED: on}),
        help="With --engine: do without TLS, as whoever reaches the scheduler may run programs.",
    )  # fmt: skip
    return engine(trust(command))


def jobs_option(what: str) -> Callable[[F], F]:
    """The option --jobs; `what` N processes do."""
    return click.option("--jobs", type=click.IntRange(min=1), metavar="N", help=what)


@contextmanager
def chosen_engine(name: str | None, jobs: int | None, common: CommonOptions, *, most: int | None = None) -> Iterator[Engine[Any] | None]:
    """The function that makes a pool of processes, at most `most`; None for one process. ConfigError if the cluster cannot be used."""
    if name is None:
        slots = min(jobs or 1, most or jobs or 1)
        if slots > 1:
            from ibdissect.pipeline.processes import Processes

            yield partial(Processes, slots=slots)
        else:
            yield None
        return
    try:
        from ibdissect.pipeline.cluster import Dask
    except ModuleNotFoundError as error:
        raise missing_extra("cluster", str(error.name)) from error
    context = click.get_current_context(silent=True)
    trusted = context is not None and bool(context.meta.get(TRUSTED))
    with Dask(name, workers=jobs, plugins=common.plugin_names, trusted=trusted) as cluster:
        if cluster.dashboard:
            common.tell(f"dashboard: {cluster.dashboard}")
        yield cluster.pool


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Within this context, the first Ctrl+C only asks to stop; the function that it gives says whether Ctrl+C was pressed."""
    asked = False

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        try:
            interrupt_reads()  # a read from a pipe may block for hours
        finally:
            plugin_timeout.end_plugins()  # a plugin's function may run for ever

    # Signals can be handled only in the main thread; if SIGINT is ignored (background job of a script), leave it so.
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        allow_reads()
        plugin_timeout.allow_plugins()


@contextmanager
def each_capture(
    units: Sequence[Unit], work: Work[R], lost: Callable[[Unit], R], jobs: int | None, engine: str | None, common: CommonOptions
) -> Iterator[tuple[Iterator[R], Stop]]:
    """The results of work on several captures, in their order as they come, with a progress bar; and whether Ctrl+C ended it.

    `lost` gives the result for a capture whose process died.
    """
    if engine is not None and "-" in units:
        raise ConfigError("--engine", engine, "the workers cannot read the standard input of this process", hint="name files")
    files = [file for unit in units for file in files_of(unit)]
    with chosen_engine(engine, jobs, common, most=len(units)) as made, interruptible() as stop:
        names = files if made is None else list(map(str, units))
        with progress_bar(names, quiet=common.quiet, by_capture=made is not None) as progress:

            def results() -> Iterator[R]:
                if made is None:
                    for unit in units:
                        if not stop():
                            yield work(unit, stop=stop, progress=progress)
                    return
                for done, result in enumerate(spread(units, made(work), lost, stop), 1):
                    if progress is not None:
                        progress(result.frames, done)
                    yield result

            yield results(), stop


class Outcome(Record, Generic[T]):
    """What became of one capture among several."""

    name: str
    result: T | None = None
    frames: int = 0
    damage: Sequence[Damage] = ()
    error: str | None = None
    hidden: int = 0
    """Number of checksums that the filter did not compare, as they tell a hidden key."""
    failed: Sequence[str] = ()
    """Failures of plugin functions."""


class EachCapture(Generic[T]):
    """The outcomes of work on several captures. Prints errors, and where captures are damaged.

    The work is called with a silent `common`, too. It raises IbdissectError, and Stopped if `stop` says so.
    """

    def __init__(self, units: Sequence[Unit], work: Work[Outcome[T]], jobs: int | None, engine: str | None, common: CommonOptions) -> None:
        quiet = replace(common, quiet=True, plugins=common.plugin_names)
        self.units, self.work = units, partial(_attempt, partial(work, common=quiet))
        self.jobs, self.engine, self.common = jobs, engine, common
        self.status = 0
        """Afterwards the exit status: 2 if a capture could not be read, 130 after Ctrl+C."""

    def __iter__(self) -> Iterator[Outcome[T]]:
        self.common.selection(self.common.loaded()[0])  # what is wrong with a filter is said once, not for each capture
        with each_capture(self.units, self.work, _died, self.jobs, self.engine, self.common) as (outcomes, stopped):
            hidden = 0
            for outcome in outcomes:
                hidden += outcome.hidden
                self.common.tell_damage(outcome.name, outcome.damage)
                failures.tell(outcome.failed)
                if outcome.error is not None:
                    self.status = 2
                    say(f"error: {outcome.error}")
                elif outcome.result is not None:
                    yield outcome
            self.common.tell_hidden(hidden)
            if stopped():
                self.status = INTERRUPTED


def _attempt(work: Work[Outcome[T]], unit: Unit, *, stop: Stop | None = None, progress: Progress | None = None) -> Outcome[T]:
    try:
        with failures.handed_over() as failed:
            outcome = work(unit, stop=stop, progress=progress)
        outcome.failed = failed
        return outcome
    except IbdissectError as error:
        return Outcome(public_name(str(unit)), error=str(error))
    except Stopped:
        return Outcome(public_name(str(unit)))


def _died(unit: Unit) -> Outcome[Any]:
    name = public_name(str(unit))
    return Outcome(name, error=f"{name}: the process that worked on it died")
