"""`ibdissect diagnose`: why connections failed, and where their time went."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
from msgspec import Struct as Record

from ibdissect import engine
from ibdissect.capture.chunk import SetMember
from ibdissect.capture.file_names import Unit
from ibdissect.cli.common_options import CommonOptions, common_options, say, without
from ibdissect.cli.console import echo
from ibdissect.cli.each_capture import EachCapture, Outcome, engine_option, jobs_option
from ibdissect.cli.output import captures_argument, open_for, set_option, units_of
from ibdissect.cli.points import compared
from ibdissect.decode import ChunkTable
from ibdissect.diagnosis.connection import Diagnosis
from ibdissect.errors import ConfigError
from ibdissect.heap import uncollected
from ibdissect.pipeline.check import Stop
from ibdissect.pipeline.ordered_pool import Stopped
from ibdissect.pipeline.reading import Progress
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import visible_json

if TYPE_CHECKING:
    from ibdissect.points.comparison import Comparison


class Diagnosed(Record):
    """The connections of one capture."""

    diagnosis: Diagnosis
    members: Sequence[SetMember]


@click.command()
@captures_argument
@set_option
@click.option(
    "--points", is_flag=True,
    help="The captures are of the same traffic, at several points: one story of each connection, with where packets were lost.",
)
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--top", type=click.IntRange(min=1), default=20, show_default=True, metavar="N",
    help="Connections shown of each host with a common cause, and of the others.",
)  # fmt: skip
@click.option("--all", "every", is_flag=True, help="Show healthy and unclear connections, too.")
@jobs_option("Follow N captures at a time, in processes.")
@engine_option
@without(
    "filter", "frames", reason="a connection is followed in all frames, as those left out would look lost",
    hint="filter the connections of --format json",
)  # fmt: skip
@common_options
def command(
    captures: tuple[str, ...], as_set: bool, points: bool, format_: str, top: int, every: bool, jobs: int | None, engine: str | None,
    common: CommonOptions,
) -> int:  # fmt: skip
    """Tell the story of every connection: which failed, were refused or slow, and why, with the frames that prove it; `-` reads standard
    input. Exit status 0: no connection failed. 1: one failed. 2: a capture could not be read.

    All frames are read, and -Y is refused: packets that a filter leaves out would look lost. Filter the connections of --format json.

    Several captures are reported one after the other. With --points they are captures of the same traffic (client.pcap server.pcap):
    their clocks are aligned and packets matched, as `points` does, and each connection is reported once, with where packets were lost.
    Exit status 2 if they share no packet. docs/numbers.md defines each number.
    """
    if points and as_set:
        raise ConfigError("--points", "--set", "a set is one capture in several files", hint="merge each set into one file first")
    comparison = compared(captures, common) if points else None
    units = units_of(captures, as_set)
    with uncollected() if len(units) == 1 else contextlib.nullcontext():  # of several, each leaves cycles behind
        each = EachCapture(units, _diagnose, jobs, engine, common)
        alone = (outcome.result for outcome in each if outcome.result is not None)
        told = alone if comparison is None else _merged(comparison, [*alone], each)
        return _tell(told, format_, top, each, common, every=every, several=len(units) > 1 and comparison is None)


def _merged(comparison: Comparison, found: list[Diagnosed], each: EachCapture[Diagnosed]) -> Iterator[Diagnosed]:
    """One diagnosis of all points; nothing if one could not be read."""
    from ibdissect.points.connections_at_points import diagnosed

    if not each.status:
        yield Diagnosed(diagnosed(comparison, [one.diagnosis for one in found]), [])


def _tell(
    told: Iterable[Diagnosed], format_: str, top: int, each: EachCapture[Diagnosed], common: CommonOptions, *, every: bool, several: bool
) -> int:
    """Print; returns the exit status."""
    paint = common.paint(sys.stdout)
    found: list[Diagnosed] = []
    failed = False
    for one in told:
        failed |= any(connection.severity == "error" for connection in one.diagnosis.connections)
        if format_ == "json":
            found.append(one)
        else:
            from ibdissect.diagnosis.text import lines

            echo("\n".join([*lines(one.diagnosis, paint, top, every=every), *([""] if several else [])]))
    if format_ == "json":
        from ibdissect.diagnosis.json_objects import json_text

        for text in json_text([one.diagnosis for one in found]):
            echo(visible_json(text))
    gc.freeze()  # the process ends: what is left need not be searched for cycles
    return each.status or int(failed)


def _diagnose(capture: Unit, *, common: CommonOptions, progress: Progress | None = None, stop: Stop | None = None) -> Outcome[Diagnosed]:
    from ibdissect.pipeline.diagnosing import diagnosed

    told = engine.compiled()

    def each(table: ChunkTable) -> None:
        nonlocal told
        if not told and table.chunk.base + table.window > engine.SLOW_FROM:
            told = True
            say("note: the engine is interpreted, which takes 40 times as long: install a C compiler and Python's headers, or a wheel")
        if stop is not None and stop():
            raise Stopped

    with uncollected(), open_for(capture, common) as opened:
        name = public_name(str(capture))
        found = Diagnosed(diagnosed(opened, name, progress, each), opened.reader.members)
    return Outcome(name, found, found.diagnosis.frames, opened.damage)
