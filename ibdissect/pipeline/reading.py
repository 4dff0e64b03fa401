"""An opened capture read in order, as tables, learning connections and numbering keys on the way."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import pairwise, takewhile
from operator import itemgetter
from threading import Thread
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ibdissect.capture.chunk import Chunk, Damage, Reader, SetMember
from ibdissect.capture.file_names import CaptureSet, files_of
from ibdissect.capture.opening import Source, open_capture
from ibdissect.capture.remote import in_archive, is_url
from ibdissect.decode import ChunkTable
from ibdissect.decode.hidden.key_numbers import KeyNumbering, is_secret
from ibdissect.decode.networks import Networks
from ibdissect.decode.plugin_functions import functions_of, try_functions
from ibdissect.decode.reassembled import MAX_MESSAGE_BYTES, JoinedRecords, SaRecord, WholeMessage
from ibdissect.decode.services import Services
from ibdissect.errors import CaptureError
from ibdissect.lint.set_members import name_frames
from ibdissect.wire.catalog import Catalog, builtin, is_plugin
from ibdissect.wire.places import TcpPort
from ibdissect.wire.sa import SARecordPiece

if TYPE_CHECKING:
    from ibdissect.bounded import Dropped
    from ibdissect.dfilter.compile import Filter
    from ibdissect.dissect.shown_value import Presenter
    from ibdissect.lint.finding import Finding, Secret
    from ibdissect.mad.rmpp_reassembly import RecordReassembler
    from ibdissect.subnet.separate_subnets import SubnetMap
    from ibdissect.transport.reassembled_messages import MessageJoiner

Progress = Callable[[int, int], None]
"""Called with (frames so far, bytes so far)."""
Prepare = Callable[[ChunkTable], object]
AHEAD_FROM = 1 << 20
"""Bytes of a window from which on a thread reads the next one."""
_COLUMNS = ("offset", "caplen", "length", "time_ns", "link", "interface", "pseudo")


class Selection(Protocol):
    """Which frames are wanted: a display filter, frame numbers, or both."""

    def rows(self, table: ChunkTable) -> npt.NDArray[np.bool_]: ...

    @property
    def filter(self) -> Filter | None:
        """The display filter, if there is one."""

    @property
    def edges(self) -> Sequence[int]:
        """Frames where the selection changes; findings of a flow are counted separately on both sides."""

    @property
    def last(self) -> int:
        """The last frame that may be selected."""


class Reading:
    """An opened capture with its catalog, and what was learnt from it: services of queue pairs, numbers of keys.

    All commands, the terminal UI and the Python interface make their tables here, so that all see the same structures and
    give a key the same number.
    """

    def __init__(self, reader: Reader, *, catalog: Catalog | None = None, show_keys: bool = False) -> None:
        self.reader = reader
        self.catalog: Catalog = catalog if catalog is not None else builtin()
        self.show_keys = show_keys
        self.masker = KeyNumbering()
        self.services = Services()
        """The service of each connection, as learnt from the frames read so far."""
        self.networks = Networks()
        """Which interfaces and VLANs show one network, as learnt from the frames read so far."""
        self.joined = JoinedRecords()
        """Records that straddle RMPP segments, from the frames read so far."""
        self.joins = True
        """Put messages together? Only display, filters and key numbers need it; a plain check does not."""
        self.joined_messages = JoinedRecords(MAX_MESSAGE_BYTES)
        """Messages of upper layers that came in several packets, from the frames read so far."""
        self._joiner: RecordReassembler | None = None
        self._message_joiner: MessageJoiner | None = None
        self._joined_to = self._messages_to = self._tried_to = 0
        self.keys_to = 0
        """Last frame whose keys have been numbered."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.reader.close()

    @property
    def path(self) -> str:
        """The capture's name for messages."""
        return self.reader.path

    @property
    def damage(self) -> list[Damage]:
        """Damage in the capture file that the last pass found."""
        return self.reader.damage

    def read_twice(self, why: str) -> None:
        """Raise CaptureError for a pipe: it cannot be read again."""
        if not self.reader.rereadable:
            raise CaptureError(self.path, f"must be read twice {why}; a pipe can be read only once")

    def chunks(self) -> Iterator[Chunk]:
        """The records, one window at a time. Raises CaptureError on the second pass over a pipe."""
        return self.reader.chunks()

    def table_of(self, chunk: Chunk, frames: Sequence[int] | None = None) -> ChunkTable:
        """Any frames of the capture as a table, without learning from them. `frames`: their numbers, if they are not consecutive."""
        numbers = frames if frames is not None else range(chunk.first, chunk.first + len(chunk))

        def completed() -> list[tuple[int, SaRecord | WholeMessage]]:
            return sorted([*self.joined.among(numbers), *self.joined_messages.among(numbers)], key=itemgetter(0))

        made = ChunkTable(chunk, self.catalog, self.services, completed)
        made.frames = frames
        return made

    def tables(
        self, *, keys: bool = True, until: int | None = None, progress: Progress | None = None, prepare: Prepare | None = None,
        edges: Sequence[int] = (), first: Prepare | None = None,
    ) -> Iterator[ChunkTable]:  # fmt: skip
        """The capture from its beginning, one table per window, learning from each.

        `keys` False does not number keys, which saves reading every structure with a key. `until` is the last frame wanted.
        Each frame in `edges` starts a new window. `first` is called with each table before anything else. With `prepare`, a
        thread reads one window ahead and calls it with the table, for work that depends on that chunk alone.
        """
        self._join_again()
        made: Iterator[ChunkTable] = map(self.table_of, self._chunks(until) if not edges else _split(self._chunks(until), edges))
        if first is not None:
            made = _after(made, first)
        made = _after(made, self.services.placed.feed)  # before anybody looks for records
        for table in made if prepare is None else _one_ahead(made, prepare):
            self.learn(table, keys=keys)
            yield table
            chunk = table.chunk
            if progress is not None:
                progress(chunk.first + len(chunk) - 1, chunk.base + chunk.data.size)

    def _chunks(self, until: int | None) -> Iterator[Chunk]:
        for chunk in self.reader.chunks():
            last = chunk.first + len(chunk) - 1
            if until is not None and last >= until:
                yield chunk if last == until else _rows(chunk, 0, max(0, until - chunk.first + 1))
                return
            yield chunk

    def learn(self, table: ChunkTable, *, keys: bool = True) -> None:
        """Learn from the next frames in order, skipping those already processed."""
        last = table.chunk.first + len(table) - 1
        self.services.placed.feed(table)
        if last > self.services.fed:
            table.once(self.networks.tell_apart)
            self.services.feed(self._after(table, self.services.fed))
        if last > self._joined_to:
            self._join(self._after(table, self._joined_to))
            self._joined_to = last
        if self.joins and last > self._messages_to:
            self._join_messages(self._after(table, self._messages_to))
            self._messages_to = last
        if self.joins and last > self.services.kept.fed:
            self.services.kept.feed(self._after(table, self.services.kept.fed))
        if last > self._tried_to:
            if functions_of(self.catalog):
                try_functions(self._after(table, self._tried_to))
            self._tried_to = last
        if keys and last > self.keys_to:
            if not self.show_keys:
                self.masker.feed(self._after(table, self.keys_to))
            self.keys_to = last

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """What was given up of messages and PDUs, because there is a bound."""
        return *self.joined_messages.dropped, *self.services.kept.dropped

    def has_joined(self, frame: int) -> bool:
        """Whether it is known what a frame, read before, completes."""
        return self._message_joiner is None or self.joined_messages.forgotten_to < frame <= self._messages_to

    def _join_again(self) -> None:
        """Before another pass: put together again what an earlier pass found and forgot."""
        if self.joined.forgotten_to and self._joiner is not None:
            self.joined, self._joiner, self._joined_to = JoinedRecords(), None, 0
        if self.joined_messages.forgotten_to and self._message_joiner is not None:
            self.joined_messages, self._message_joiner, self._messages_to = JoinedRecords(MAX_MESSAGE_BYTES), None, 0

    def _join(self, table: ChunkTable) -> None:
        if self._joiner is None and (_has_plugins_mads(table) or len(table.occurrences(SARecordPiece))):
            from ibdissect.mad.rmpp_reassembly import RecordReassembler  # few captures have records that straddle segments

            self._joiner = RecordReassembler(self.joined)
        if self._joiner is not None:
            self._joiner.feed(table)

    def _join_messages(self, table: ChunkTable) -> None:
        if self._message_joiner is None and (self.services.any or any(isinstance(one.over, TcpPort) for one, _ in self.catalog.streams)):
            from ibdissect.transport.reassembled_messages import MessageJoiner  # few captures have messages of known services

            self._message_joiner = MessageJoiner(self.joined_messages, self.services)
        if self._message_joiner is not None:
            self._message_joiner.feed(table)

    def _after(self, table: ChunkTable, frame: int) -> ChunkTable:
        """The frames of a table after `frame`."""
        known = frame + 1 - table.chunk.first
        return table if known <= 0 else self.table_of(_rows(table.chunk, known, len(table)))

    def number_keys(self) -> None:
        """Number the keys of the whole capture in order of appearance."""
        for _ in self.tables():
            pass

    def presenter(self) -> Presenter:
        """Turns values into text; masks keys unless `show_keys`."""
        from ibdissect.dissect.shown_value import Presenter  # a clean capture does not need it

        return Presenter(self.masker, show_keys=self.show_keys)

    def key_name(self, kind: str, value: int, masker: KeyNumbering | None = None) -> str:
        """A key as it is shown in sentences: `R_Key#2`, or its value if keys are shown. Number the keys of the capture before.

        `masker`: that numbered them, if it is not the reading's.
        """
        secret = is_secret(kind, value) and not self.show_keys
        return (masker or self.masker).name(kind, value) if secret else f"0x{value:08x}"

    def finish(self, finding: Finding) -> None:
        """Make a finding's message final; mask its keys unless `show_keys`."""
        finding.finish(None if self.show_keys else self._masked)
        if self.reader.members:
            name_frames(finding, self.reader.members)

    def _masked(self, secret: Secret) -> str:
        return self.masker.name(secret.kind, secret.value) if secret.kind else "(hidden)"


def _has_plugins_mads(table: ChunkTable) -> bool:
    """Whether a plugin declares what the MADs of a vendor's class hold that the table has."""
    classes = {place.mgmt_class for place, struct in table.catalog.of_vendors if is_plugin(struct)}
    return any(mgmt_class in classes for mgmt_class, _ in table.attributes()) if classes else False


def _after(tables: Iterator[ChunkTable], first: Prepare) -> Iterator[ChunkTable]:
    """The same tables; `first` was called with each."""
    for table in tables:
        first(table)
        yield table


def _one_ahead(tables: Iterator[ChunkTable], prepare: Prepare) -> Iterator[ChunkTable]:
    """The same tables in order; a thread makes and prepares the next one while the caller works on the current one.

    Only one window is read ahead, which bounds memory. Exceptions in the thread are raised here. After a small window, usually the last
    one of its file, there is no thread.
    """
    made: list[ChunkTable | BaseException | None] = []

    def make() -> None:
        try:
            table = next(tables, None)
            if table is not None:
                prepare(table)
            made.append(table)
        except BaseException as error:
            made.append(error)

    make()
    while (table := made.pop()) is not None:
        if isinstance(table, BaseException):
            raise table
        ahead = Thread(target=make, name="reading ahead") if table.window >= AHEAD_FROM else None
        if ahead is not None:
            ahead.start()
        try:
            yield table
        finally:
            if ahead is not None:
                ahead.join()
        if ahead is None:
            make()


def open_reading(source: Source, *, catalog: Catalog | None = None, show_keys: bool = False) -> Reading:
    """Open a capture to read it in order. Raises CaptureError if it cannot be opened."""
    return Reading(open_capture(source), catalog=catalog, show_keys=show_keys)


def plain_files(source: Source, reader: Reader) -> Sequence[SetMember] | None:
    """The files whose frames can be read in place; None for others: pipes, "-", file objects, archives, compressed. CaptureError."""
    if not isinstance(source, (str, os.PathLike, CaptureSet)) or source == "-" or not reader.rereadable or reader.packed:
        return None
    if any(map(in_archive, files_of(source))):
        return None
    if isinstance(source, CaptureSet):
        return reader.members
    path = os.fspath(source)
    if is_url(path):
        return [SetMember(path, 1, 0)]
    try:
        open(path, "rb").close()
    except OSError as error:  # it existed when the capture was opened
        raise CaptureError(reader.path, f"cannot be read: {error.strerror}") from error
    return [SetMember(path, 1, 0)]


def _split(chunks: Iterable[Chunk], edges: Sequence[int]) -> Iterator[Chunk]:
    """The chunks, split before each frame in `edges`."""
    for chunk in chunks:
        inside = sorted({edge - chunk.first for edge in edges if chunk.first < edge < chunk.first + len(chunk)})
        for start, stop in pairwise([0, *inside, len(chunk)]) if inside else ():
            yield _rows(chunk, start, stop)
        if not inside:
            yield chunk


def _rows(chunk: Chunk, start: int, stop: int) -> Chunk:
    columns = {name: getattr(chunk, name)[start:stop] for name in _COLUMNS}
    return replace(chunk, first=chunk.first + start, front=None, **columns)


def division_of(reading: Reading, site: SubnetMap, first: Collection[int]) -> SubnetMap:
    """Which addresses belong to which subnet, as `subnet.separate_subnets.divide` says; `site` if the capture can be read only once."""
    from ibdissect.subnet.separate_subnets import divide  # most captures need no such module

    return site if not reading.reader.rereadable or reading.reader.far else divide(reading.tables(keys=False), site, first)


def tables_before(reading: Reading, frame: int) -> Iterator[ChunkTable]:
    """The windows that begin before a frame, again. A copy of the reader reads them: `reading` keeps what the whole pass noted."""
    return map(reading.table_of, takewhile(lambda chunk: chunk.first < frame, copy(reading.reader).chunks()))


def tables_with(reading: Reading, frames: Sequence[int]) -> Iterator[ChunkTable]:
    """The windows with any of these frames (ascending), again, read as in `tables_before`."""
    for chunk in copy(reading.reader).chunks(frames):
        if bisect_left(frames, chunk.first) < bisect_left(frames, chunk.first + len(chunk)):
            yield reading.table_of(chunk)
        if chunk.first + len(chunk) > frames[-1]:
            return
