"""Which processes work for a command: `--jobs`, or a Dask cluster named with `--engine`?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from ibdissect.capture.sets import Unit
from ibdissect.errors import ConfigError
from ibdissect.session.spread import Engine

from .common import Common

engine_option = click.option(
    "--engine",
    metavar="dask|dask://HOST:PORT|FILE",
    help="Work on captures with Dask: all cores of this machine (or --jobs N), a cluster's scheduler, or its scheduler file.",
)

jobs_option = click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Work on N captures at a time, in processes.")


@contextmanager
def chosen_engine(name: str | None, jobs: int | None, files: Sequence[Unit], common: Common) -> Iterator[Engine[Any] | None]:
    """What makes a pool of processes; None for one process. ConfigError if the cluster cannot be used."""
    if name is None:
        if (jobs or 1) > 1 and len(files) > 1:
            from ibdissect.session.processes import Processes

            yield partial(Processes, slots=min(jobs or 1, len(files)))
        else:
            yield None
        return
    if "-" in files:
        raise ConfigError("--engine", name, "the workers cannot read the standard input of this process", hint="name files")
    try:
        from ibdissect.session.cluster import Dask
    except ModuleNotFoundError as error:
        raise ConfigError(
            "ibdissect[cluster]", str(error.name), "is not installed", hint="install it: python -m pip install 'ibdissect[cluster]'"
        ) from error
    with Dask(name, workers=jobs, plugins=common.plugin_names) as cluster:
        common.tell(f"dashboard: {cluster.dashboard}")
        yield cluster.pool
