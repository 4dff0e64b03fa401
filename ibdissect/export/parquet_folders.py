"""Rows of many captures in one Parquet dataset, in folders named after capture and hour, that grows by whole files."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from types import TracebackType
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ibdissect.capture.file_names import Unit, files_of
from ibdissect.capture.file_owners import followed
from ibdissect.capture.remote import is_url
from ibdissect.decode.equal_rows import run_starts
from ibdissect.errors import CaptureError, writing
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import printable

from .whole_files import mode_of
from .writers import parquet_writer

KEYS = {"capture": 0, "day": 10, "hour": 13}
"""What folders can be named after, with the number of characters of a time in ISO 8601."""
MAX_OPEN, MAX_FILES = 64, 10_000
"""Files written at a time: beyond that one is finished, and its partition gets another. And files of one capture."""


@contextmanager
def unfinished_files(folder: str) -> Iterator[str]:
    """A hidden folder for files that are not finished, in the folder of a dataset; removed at the end, also after a killed process."""
    with ExitStack() as stack:
        with writing(folder):
            followed(folder)
            stack.enter_context(_made(folder))
            private = tempfile.mkdtemp(prefix=".", suffix=".part", dir=folder)
            stack.callback(shutil.rmtree, private, ignore_errors=True)
        yield private


@contextmanager
def _made(folder: str) -> Iterator[None]:
    """Make a folder, with those above it; those of them that are empty at the end, as on a full disk, are removed."""
    missing = list[str]()
    above = os.path.abspath(folder)
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    try:
        os.makedirs(folder, exist_ok=True)
        yield
    finally:
        for one in missing:
            with suppress(OSError):  # it was not made, or is not empty
                os.rmdir(one)


def keys_of(folder: str) -> tuple[str, ...]:
    """What the folders of a dataset are named after, from the outer to the inner ones; empty where there is none."""
    found = list[str]()
    while names := [entry.name for entry in os.scandir(folder) if "=" in entry.name and entry.is_dir()] if os.path.isdir(folder) else []:
        found.append("|".join(sorted({name.partition("=")[0] for name in names})))
        folder = os.path.join(folder, names[0])
    return tuple(found)


class Partitions:
    """Adds the rows of one capture to a dataset: `capture=NAME/hour=TIME/CONTENT.parquet`.

    Files are written under temporary names and renamed when the block succeeds; otherwise they are removed. A file is named after
    its contents and the capture's path, so adding the same rows again changes nothing.
    """

    def __init__(self, folder: str, keys: tuple[str, ...], schema: pa.Schema, source: Unit, private: str) -> None:
        """`private`: where files lie that are not finished."""
        self.folder, self.keys, self.schema, self.private = folder, keys, schema, private
        self.origin = [file if is_url(file) else os.path.abspath(file) for file in files_of(source)]
        self.name = quote(printable(_name(str(source))), safe="")
        self.rows = 0
        """Rows added so far."""
        self._open: dict[str, tuple[ExitStack, Any, str]] = {}
        """By partition: an ExitStack that closes its file, the writer, and the temporary name."""
        self._done: list[tuple[str, str]] = []
        """Partition and temporary name of finished files."""

    def __enter__(self) -> Partitions:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            with writing(self.folder):
                for partition in list(self._open):
                    self._finish(partition)
                if kind is None:
                    for number, (partition, private) in enumerate(self._done):
                        self._place(partition, private, number)
        finally:
            for _, private in self._done:
                with suppress(OSError):  # renamed, or the folder is gone
                    os.unlink(private)

    def add(self, batch: pa.RecordBatch, time_ns: npt.NDArray[np.int64]) -> None:
        """Add rows with their times. Raises CaptureError if they cannot be written."""
        self.rows += batch.num_rows
        width = max(KEYS[key] for key in self.keys)
        unit = {0: "Y", 10: "D", 13: "h"}[width]
        times = time_ns.astype("datetime64[ns]").astype(f"datetime64[{unit}]")
        edges = [*run_starts(times).tolist(), len(times)]
        with writing(self.folder):
            for start, stop in pairwise(edges):
                if stop > start:
                    self._writer(self._partition(str(times[start]))).write_batch(batch.slice(start, stop - start))

    def _partition(self, time: str) -> str:
        return "/".join(f"{key}={self.name if key == 'capture' else time[: KEYS[key]]}" for key in self.keys)

    def _writer(self, partition: str) -> Any:
        if partition not in self._open:
            if len(self._open) >= MAX_OPEN:
                self._finish(next(iter(self._open)))
            if len(self._done) >= MAX_FILES:
                hint = "partition it by capture alone"
                raise CaptureError(self.folder, f"would get more than {MAX_FILES} files of one capture, whose times jump", hint=hint)
            with ExitStack() as stack:
                descriptor, private = tempfile.mkstemp(suffix=".part", dir=self.private)
                file = stack.enter_context(os.fdopen(descriptor, "wb"))
                writer = stack.enter_context(parquet_writer(file, self.schema))
                self._open[partition] = stack.pop_all(), writer, private
        return self._open[partition][1]

    def _finish(self, partition: str) -> None:
        stack, _, private = self._open.pop(partition)
        self._done.append((partition, private))
        stack.close()

    def _place(self, partition: str, private: str, number: int) -> None:
        """Give a finished file its name, which no other capture's equal rows have."""
        digest = hashlib.sha256(f"{self.origin}\n{number}\n".encode("utf-8", "surrogateescape"))
        with open(private, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
            os.fsync(file.fileno())
        content = digest.hexdigest()[:32]
        place = os.path.join(self.folder, partition, f"{content}.parquet")
        os.chmod(private, mode_of(place))
        with _made(os.path.dirname(followed(place))):
            os.replace(private, place)


def _name(source: str) -> str:
    """The name of a file, of what a URL names without its query, or of a member of an archive."""
    if is_url(source):
        source = public_name(source).partition("::")[0].replace("?...", "")
    return os.path.basename(source)
