"""Printing on a terminal that has a progress bar: the bar is taken away before anything else is written.

Commands print with `echo` (and `cli.common_options.say`), never past it: what is written while a bar is drawn would be glued to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress

_drawn: list[Progress] = []
"""The bar on the terminal, if there is one."""


def echo(text: object = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text, with a line break unless `nl` is false, on standard output or standard error. While a bar is drawn, it ends a line."""
    if not text and not nl:
        return
    with lifted():
        click.echo(text, nl=nl, err=err)


@contextmanager
def lifted() -> Iterator[None]:
    """Within this context no bar is on the terminal; afterwards it is drawn again, below what was written."""
    bars = [*_drawn]
    _drawn.clear()
    for bar in bars:
        bar.stop()
    try:
        yield
        if bars:
            sys.stdout.flush()
    finally:
        for bar in bars:
            bar.start()
        _drawn.extend(bars)


@contextmanager
def _on_terminal(bar: Progress) -> Iterator[None]:
    _drawn.append(bar)
    try:
        yield
    finally:
        _drawn.clear()


@contextmanager
def progress_bar(files: list[str], *, quiet: bool = False, by_capture: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A callback (frames, bytes so far in the current file) that moves a bar; None if standard error is not a terminal.

    `by_capture`: the callback is called after each capture, with its frames and the number of captures so far.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    total = len(files) if by_capture else sum(os.path.getsize(file) for file in files if os.path.isfile(file)) or None
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %  {task.fields[frames]} frames"), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar as progress, _on_terminal(progress):
        task = progress.add_task("", total=total, frames=0)
        before = last = counted = 0

        def moved(frames: int, position: int) -> None:
            nonlocal before, last, counted
            counted = counted + frames if by_capture else frames
            if position < last:
                before += last
            last = position
            progress.update(task, completed=before + position, frames=f"{counted:,}")

        yield moved
