"""`ChunkTable`: the places of each structure in a chunk of a capture, and the values of each field, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.capture.chunk import Chunk
from ibdissect.decode.equal_rows import by_value
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.catalog import builtin as builtin_catalog
from ibdissect.wire.column import ComputedField
from ibdissect.wire.kept import remember
from ibdissect.wire.keys_read import column_read
from ibdissect.wire.mad import MAD
from ibdissect.wire.spec import BYTE_KINDS, Field, Struct

from .bit_fields import extract, part_of_little
from .computed_fields import values_of
from .conversation_keys import Conversation
from .conversation_values import memory_at
from .find_structures import HEADERS, find
from .header_cache import FieldReader, HeaderCache, tight, u16
from .ignored_data import beside, failed, is_read, unread_bits
from .locate import EXTENDED_STRUCTS, Bool, Int, Located, locate
from .occurrences import Occurrences
from .reassembled import FrameSpan, Joined, SaRecord, WholeMessage, in_order, not_in_first
from .services import Services

if TYPE_CHECKING:
    from .ecn_marks_of_copies import Remarked

T = TypeVar("T")
V = TypeVar("V", bound=Struct)

NO_NUMBERS = BYTE_KINDS | {"hole", "nested"}
"""Kinds of fields whose values are bytes."""
SEND_ONLY = np.uint8(0x04)
BLOCK = 64
"""Bytes of a large structure that are gathered at a time."""


class FieldColumn(Record, frozen=True, eq=False):
    """The values of one field: one per occurrence, or per entry of a repeated field."""

    rows: Int
    """Row of the chunk, int64[k]."""
    at: Int
    """First byte of each value in the chunk's data, int64[k]."""
    values: npt.NDArray[Any]
    """Integers (uint8...uint64, bool for flags), or uint8[k, bytes] for byte fields."""


class ChunkTable:
    """Columns of one chunk, computed on demand and kept as long as the chunk."""

    def __init__(
        self, chunk: Chunk, catalog: Catalog | None = None, services: Services | None = None, joined: Joined = tuple,
        *, shown_by: ChunkTable | None = None, located: Located | None = None,
    ) -> None:  # fmt: skip
        """`shown_by`: the table that returns this one as its `shown`. `located`: where the headers are, if known."""
        self.window = chunk.data.size
        """Bytes of the window; those of `joined` follow them in `chunk.data`."""
        self.joined: Sequence[tuple[int, SaRecord | WholeMessage]] = joined() if shown_by is not None else ()
        """The records that straddle segments, each with the row that completed it; only in `shown`."""
        if self.joined:
            data = np.concatenate([chunk.data, *(np.frombuffer(one.data, np.uint8) for _, one in self.joined)])
            chunk = replace(chunk, data=data, front=None)  # that of the last frames would lack the bytes behind the window
        self.chunk = chunk
        self.own: Int | None = None
        """The rows of the packets in this table; None: all, else those of one subnet (`only_rows`)."""
        self.networks: npt.NDArray[np.uint16] | None = shown_by.networks if shown_by is not None else None
        """The network of each packet, as `Networks.tell_apart` found; None: all are of one."""
        self.catalog = catalog if catalog is not None else builtin_catalog()
        known = shown_by.located if shown_by is not None else located
        self.located: Located = known if known is not None else locate(chunk, self.catalog.roce_ports)
        if self.joined:
            self.located = replace(self.located, front=HeaderCache(chunk))
        self.repeats = shown_by is not None
        """Whether a failed SA answer shows the record that it repeats from its request."""
        self.frames: Sequence[int] | None = shown_by.frames if shown_by is not None else None
        """The numbers of the frames, if they are not consecutive."""
        self.remembers: bool = shown_by is None or shown_by.remembers
        """Whether structures are read by what their conversations have shown before (`kept`)."""
        self.remarked: Remarked | None = None
        """Copies that are not in this table, but show marks of congestion first."""
        self.news: ChunkTable | None = None
        """The same without the subnet management packets whose contents an earlier chunk held; None: with them."""
        self.spoken: Conversation | None = None
        """The conversation of the message that is all of the table (`of_message`)."""
        self._shown: ChunkTable | None = None
        self._services, self._joined = services, joined
        self._messages: tuple[Int, npt.NDArray[np.uint64], Int] | None = None
        self._found: dict[StructType, Occurrences] = {}
        self._gathered: dict[tuple[StructType, int, int], npt.NDArray[np.uint8]] = {}
        self._values: dict[Field[Any], npt.NDArray[Any]] = {}
        self._places: dict[StructType, FieldReader] = {}
        self._read: dict[StructType, bool] = {}
        self._first: dict[StructType, Int] = {}
        self._groups: dict[tuple[int, int], Int] | None = None
        self._derived: dict[Callable[[ChunkTable], Any], Any] = {}

    @classmethod
    def of_message(
        cls, message: WholeMessage, frame: int, catalog: Catalog, services: Services, spoken: Conversation | None = None,
    ) -> ChunkTable:  # fmt: skip
        """One row with the bytes of a message and nothing else. `spoken`: its conversation."""
        at, none, size, zero = np.zeros(1, np.int64), np.full(1, -1), np.array([len(message.data)]), np.zeros(1, np.uint16)
        chunk = Chunk(frame, 0, np.frombuffer(message.data, np.uint8), at, size, size, at, zero, zero, none)
        yes, code = np.ones(1, np.bool_), np.zeros(1, np.uint8)
        located = Located(1, size, ~yes, code, HeaderCache(chunk), size, {"payload": at}, size, code + SEND_ONLY, size, yes)
        made = cls(chunk, catalog, services, located=located)
        made.spoken = spoken
        made._messages = at, np.array([message.service], np.uint64), np.array([message.side])
        if message.stream is not None:
            made.joined = ((0, replace(message, data=b"", spans=(FrameSpan(frame, 0, len(message.data)),))),)
        return made

    def __len__(self) -> int:
        return self.located.n

    def numbers(self, rows: Int) -> list[int]:
        """The frame numbers of rows."""
        numbers: list[int] = (rows + self.chunk.first).tolist()
        return numbers if self.frames is None else [self.frames[row] for row in rows.tolist()]

    def leave_out(self, rows: Any) -> None:
        """Remove the headers of rows (indices, or bool[n]), so that nobody takes them for packets. ERF records stay: they count losses."""
        for name, at in self.located.start.items():
            if name != "erf":
                self.located.start[name] = at.copy()
                self.located.start[name][rows] = -1
        self.located.malformed[rows] = 0

    def only_rows(self, rows: Bool) -> ChunkTable:
        """The same chunk with only those of the packets where `rows`, bool[n], holds."""
        located = replace(self.located, start=dict(self.located.start), malformed=self.located.malformed.copy())
        made = ChunkTable(self.chunk, self.catalog, self._services, self._joined, located=located)
        made.own, made.networks, made.frames = np.flatnonzero(rows), self.networks, self.frames
        made.leave_out(~rows)
        return made

    @property
    def services(self) -> Services:
        """The services of connections, learnt from the capture so far, or from this chunk if it is used alone."""
        if self._services is None:
            self._services = Services()
            self._services.feed(self)
            self._services.kept.feed(self)
            self._services.placed.feed(self)
        return self._services

    @property
    def completes(self) -> bool:
        """Whether a frame completes a record that straddles segments, or a message (`shown.joined`)."""
        return bool(self._joined() if self._shown is None else self._shown.joined)

    @property
    def shown(self) -> ChunkTable:
        """The same chunk with the records that failed SA answers repeat, and those that straddle segments (`joined`).

        Used to show and select packets, and for conditions of rules about records that straddle segments. Followers and all other rules use
        `self`: nothing is learnt from these records.
        """
        if self.repeats or not (self.completes or self.once(failed).any()):
            return self  # not kept in `_shown`: a table that refers to itself stays in memory until the garbage collector comes
        found = self._shown
        if found is None:
            found = self._shown = ChunkTable(self.chunk, self.catalog, self._services, self._joined, shown_by=self)
        return found

    def messages(self) -> tuple[Int, npt.NDArray[np.uint64], Int]:
        """Rows whose payload starts a message on a known connection, the service of each, and the side it goes to (see `services`)."""
        if self._messages is None:
            rows, services, sides = self.services.messages(self)
            self._messages = rows, np.array(services, np.uint64), np.array(sides, np.int64)
        return self._messages

    # -- where structures are

    def occurrences(self, struct: StructType) -> Occurrences:
        """Every occurrence of a structure in the chunk; each has at least `struct.size` bytes."""
        found = self._found.get(struct)
        if found is None:
            found = find(self, struct)
            if self.joined:
                found = found.pick(in_order(self, found.rows, found.at))
            self._found[struct] = found
        return found

    def attributes(self) -> dict[tuple[int, int], Int]:
        """Rows of the chunk by management class and attribute id of their MAD."""
        if self._groups is None:
            self._groups = {}
            mad = self.located.start.get("mad")
            if mad is not None:
                rows = np.flatnonzero(mad >= 0)
                place = FieldReader(self.located.front, rows, mad[rows])
                mgmt_class, attribute = place.part(MAD.mgmt_class.bit // 8, 1)[:, 0], u16(place.part(MAD.attribute_id.bit // 8, 2), 0)
                for value, index in by_value(mgmt_class.astype(np.int64) << 16 | attribute):
                    self._groups[value >> 16, value & 0xFFFF] = rows[index]
        return self._groups

    # -- what fields hold

    def matrix(self, struct: StructType) -> npt.NDArray[np.uint8]:
        """The bytes of every occurrence, uint8[k, struct.size]."""
        return self._bytes(struct, 0, struct.size)

    def _bytes(self, struct: StructType, start: int, size: int) -> npt.NDArray[np.uint8]:
        """Some bytes of every occurrence, uint8[k, size]: gathered once for all columns of the structure."""
        found = self._gathered.get((struct, start, size))
        if found is None:
            found = self._place(struct).part(start, size)
            if not found.flags.c_contiguous:  # slice of wider rows: reading one column costs as much as copying all
                found = tight(found)
            self._gathered[struct, start, size] = found
        return found

    def _around(self, field: Field[Any]) -> tuple[npt.NDArray[np.uint8], int]:
        """The bytes around a field in every occurrence, and at which of their bits it starts: of large structures only BLOCK bytes."""
        struct, start = field.owner, field.bit // 8 // BLOCK * BLOCK
        size = min(BLOCK, struct.size - start)
        if field.bit + field.wire_bits * field.count > (start + size) * 8:
            start, size = 0, struct.size
        return self._bytes(struct, start, size), field.bit - start * 8

    def _place(self, struct: StructType) -> FieldReader:
        if struct not in self._places:
            there = self.occurrences(struct)
            unread = None if self._wholly_read(struct) else self.once(unread_bits)
            self._places[struct] = FieldReader(self.located.front, there.rows, there.at, unread)
        return self._places[struct]

    def _wholly_read(self, struct: StructType) -> bool:
        """Whether no bit is unread in any occurrence of a structure."""
        known = self._read.get(struct)
        if known is None:
            found = None if struct in HEADERS or struct in EXTENDED_STRUCTS else self.once(beside)
            known = self._read[struct] = found is None or not found.touches(self.occurrences(struct).at, struct.size)
        return known

    def values(self, field: Field[Any]) -> npt.NDArray[Any]:
        """A field in every occurrence of its structure: integers[k] or [k, count], uint8[k, bytes] for byte fields; read-only.

        Numbers of more than 64 bits are Python integers.
        """
        found = self._values.get(field)
        if found is None:
            found = self._values[field] = self._extracted(field)
        if field.secret:
            column_read(field.secret, field.bits, found)
        return found

    def _extracted(self, field: Field[Any]) -> npt.NDArray[Any]:
        if isinstance(field, ComputedField):
            return values_of(field, self)
        word, bit = divmod(field.bit, 32)
        if field.count == 1 and 0 < field.bits <= 32 - bit and not field.little:
            column = self._place(field.owner).word(word)
            if column is not None:
                value = column[:, bit // 8 : (bit + field.bits) // 8] if field.kind in NO_NUMBERS else extract(column, bit, field.bits)
                return value.astype(np.bool_) if field.kind == "flag" else value
        rows, first = self._around(field)
        if field.kind in NO_NUMBERS:
            return rows[:, first // 8 : first // 8 + field.bits * field.count // 8]
        if field.bits > 64:
            low, (shift, mask) = first // 8, field.shift_mask
            wide = np.empty(len(rows), object)
            wide[:] = [int.from_bytes(row.tobytes(), "big") >> shift & mask for row in rows[:, low : (first + field.bits + 7) // 8]]
            return wide
        if field.count == 1:
            value = extract(rows, first, field.wire_bits)
        else:
            value = np.stack([extract(rows, bit - field.bit + first, field.bits) for bit in field.entries()], axis=1)
        if field.little:
            value = part_of_little(field, value.byteswap())
        return value.astype(np.bool_) if field.kind == "flag" else value

    def where(self, struct: StructType, conditions: Iterable[tuple[Field[Any], Collection[int]]]) -> Bool:
        """Occurrences of a structure whose fields have one of these values each, bool[k]."""
        found = np.ones(len(self.occurrences(struct)), np.bool_)
        for field, values in conditions:
            found &= np.isin(self.values(field), list(values))
        return found

    def column(self, field: Field[Any], *, repeated: bool = False) -> FieldColumn:
        """All values of a field with their places; a repeated field has one row per entry.

        Honours the field's `when`, and leaves out bits that no receiver reads. `repeated`: also values that a message repeats from
        its first packet.
        """
        found, values = self.occurrences(field.owner), self.values(field)
        rows, at, keep = found.rows, found.at + field.bit // 8, None
        if field.when is not None:
            keep = self.where(field.owner, (field.when,))
            rows, at, values = rows[keep], at[keep], values[keep]
        if field.count > 1:
            starts = np.array([(bit - field.bit) // 8 for bit in field.entries()], np.int64)
            rows, at = np.repeat(rows, field.count), (at[:, None] + starts).ravel()
            values = values.reshape(len(rows), -1) if field.kind in BYTE_KINDS else values.ravel()
        read = self.read_mask(field, None if keep is None else np.flatnonzero(keep), repeated=repeated)
        return FieldColumn(rows, at, values) if read is None else FieldColumn(rows[read], at[read], values[read])

    def read_mask(self, field: Field[Any], which: Int | None, *, repeated: bool = False) -> Bool | None:
        """Which entries of a field count, in the occurrences `which` (None: all) of its structure, bool[k]; None: all.

        Without `repeated`, entries of a message put together from packets are left out if its first packet shows them already.
        """
        if field.owner in HEADERS or field.owner in EXTENDED_STRUCTS:
            return None
        whole = self._wholly_read(field.owner)
        if whole and not self.joined:
            return None
        found = self.occurrences(field.owner)
        found = found if which is None else found.pick(which)
        read = None if whole else is_read(self, field, found.at)
        if self.joined and not repeated:
            new = not_in_first(self, field, found)
            read = new if read is None else read & new
        return None if read is None or read.all() else read.ravel()

    def of_rows(self, field: Field[Any]) -> tuple[npt.NDArray[Any], Bool]:
        """A field of the first occurrence in each row: values[n] (0 if absent) and presence bool[n]."""
        index = self.first(field.owner)
        there = index >= 0
        values = self.values(field)
        if not len(values):
            return np.zeros((len(self), *values.shape[1:]), values.dtype), there
        return np.where(there.reshape(-1, *[1] * (values.ndim - 1)), values[np.maximum(index, 0)], 0), there

    def values_at(self, field: Field[Any], rows: Int) -> npt.NDArray[Any]:
        """The values of `of_rows` for some rows of the chunk; 0 if absent."""
        index = self.first(field.owner).take(rows)
        values, there = self.values(field), index >= 0
        if there.all():
            return values.take(index, axis=0)
        if not there.any():
            return np.zeros((len(rows), *values.shape[1:]), values.dtype)
        found = values[np.maximum(index, 0)]
        found[~there] = 0
        return found

    def first(self, struct: StructType) -> Int:
        """The index of the structure's first occurrence in each row, -1 for none."""
        index = self._first.get(struct)
        if index is None:
            rows = self.occurrences(struct).rows
            index = np.arange(len(rows))
            if len(rows) != len(self) or not np.array_equal(rows, index):  # else exactly one per row
                index, number = np.full(len(self), -1, np.int64), index
                index[rows[::-1]] = number[::-1]
            self._first[struct] = index
        return index

    def once(self, derive: Callable[[ChunkTable], T]) -> T:
        """The result of a function of the whole chunk, computed on first use."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        found: T = self._derived[derive]
        return found

    def results(self, function: Callable[..., Any]) -> dict[Any, Any]:
        """What a function of the chunk and of other arguments gave, by these: for it to look up and to add to."""
        found: dict[Any, Any] = self._derived.setdefault(function, {})
        return found

    def has(self, derive: Callable[[ChunkTable], Any]) -> bool:
        """Whether `once` has computed this already."""
        return derive in self._derived

    def view(self, struct: type[V], i: int) -> V:
        """Occurrence `i` of a structure as a view on a copy of its frame; the view's offset counts from the frame's start."""
        found = self.occurrences(struct)
        row = int(found.rows[i])
        base = int(self.chunk.offset[row])
        start, data = int(found.at[i]), self.chunk.frame_bytes(row)
        if start < base or start >= self.window:  # the ERF header precedes the frame; joined records are in no frame
            view = struct(self.chunk.data[start : int(found.stop[i])].tobytes(), 0, int(found.stop[i]) - start)
        else:
            unread = self.once(beside)
            view = struct(data if unread is None else unread.cleared(data, base), start - base, int(found.stop[i]) - base)
        if struct.tail is not None and struct.tail.depends():
            remember(view, memory_at(self, struct, i))
        return view
