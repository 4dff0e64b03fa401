"""Replies to the very packet of a finding: what was acknowledged or answered was not dropped, whatever earlier frames say."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import Dropped
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.addresses import End, ends_at
from ibdissect.decode.equal_rows import is_in
from ibdissect.decode.identity import Frame
from ibdissect.decode.locate import IS_RESPONSE
from ibdissect.decode.native_packets import Native
from ibdissect.lint.rule import Hit
from ibdissect.mad.transactions import Transactions
from ibdissect.wire.headers import AETH, BTH, PSNS
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import FULL, SET, SMP_CLASSES, STATUS
from ibdissect.wire.opcodes import OPERATION, RELIABLE, SERVICE, WITH_AETH
from ibdissect.wire.sm import SMP
from ibdissect.wire.spec import Field

MAX_WATCHED = 1 << 17
"""Packets of findings whose answers are awaited."""
KEPT_FRAMES = 64
"""Packets watched of each finding."""
WINDOW = 1 << 12
"""An acknowledgement stands for packets that are fewer PSNs before it: senders have no more in flight."""
NAK = 0x60
"""The kind of an AETH's syndrome that refuses the packet."""


class Reply(Record):
    """What came back for the packet of one frame."""

    frame: int
    good: bool
    """An acknowledgement, or a management answer with status 0; not one of subnet management with nothing but zeros, unless those were
    written: that is what a node reads where it has nothing.
    """
    full: bool
    """It carries the full form of its partition's P_Key."""
    of_request: bool = False
    """It answers a management request."""
    written: bytes = b""
    """The attribute in a request of subnet management."""
    shown: bytes = b""
    """The attribute in its answer."""
    status: int = 0
    """MAD.status of the answer to a management request."""

    def repeats(self, field: Field[Any]) -> bool:
        """Whether the answer to a Set shows what it wrote."""
        return bool(self.written) and _in(self.written, field) == _in(self.shown, field)

    def offers(self, field: Field[Any], mask: Field[Any]) -> bool:
        """Whether the answer to a Set shows a mask that has all the bits which the Set wrote into a field."""
        return bool(self.written) and not _in(self.written, field) & ~_in(self.shown, mask)


def _in(body: bytes, field: Field[Any]) -> int:
    """The bits of a field in an attribute, as a number."""
    bits = field.bits * field.count
    return int.from_bytes(body, "big") >> max(0, 8 * len(body) - field.bit - bits) & (1 << bits) - 1


class RepliesToFindings:
    """Replies to the packets of findings. One per capture."""

    after: ClassVar = (Transactions,)
    learns_from: ClassVar = ChunkTable

    def __init__(self, transactions: Transactions) -> None:
        self.transactions = transactions
        self.replies: dict[Frame, Reply] = {}
        """By frame."""
        self._asked: dict[Frame, tuple[bool, bytes]] = {}
        """Frames with management requests that wait, whether their P_Key is a full one, and the attribute of subnet management in them."""
        self._sent: dict[tuple[End, End], list[tuple[int, int]]] = {}
        """PSN and frame of packets that wait for an acknowledgement, by responder and requester."""
        self._watched: set[Frame] = set()
        self._looked_at = 0
        """First frame of the last chunk that was looked at."""
        self.dropped = Dropped("packets whose answers matter")

    def watch(self, hit: Hit, table: ChunkTable | None) -> None:
        """Await the replies to the packets of a hit in the present chunk."""
        if table is not None:
            self.watch_frames([frame for frame in frames_of(hit) if frame >= table.chunk.first], table)

    def watch_frames(self, frames: Sequence[int], table: ChunkTable) -> None:
        """Await the replies to packets in the present chunk. Those of many findings at once take hardly more time than those of one."""
        fresh = [int(frame) for frame in frames if frame not in self._watched]
        if not fresh:
            return
        if len(self._watched) + len(fresh) > MAX_WATCHED:
            self.dropped.add(fresh[0], int(table.chunk.time_ns[fresh[0] - table.chunk.first]), len(fresh))
            return
        self._watched.update(fresh)
        rows = np.array(sorted(fresh), np.int64) - table.chunk.first
        asks = table.located.at("mad")[rows] >= 0
        managed, rows = rows[asks], rows[~asks]
        contents = _contents(table, managed, table.values_at(BTH.destqp, managed) == 0)
        for row, p_key, shown in zip(managed.tolist(), table.values_at(BTH.p_key, managed).tolist(), contents, strict=True):
            self._asked[row + table.chunk.first] = bool(p_key & FULL), shown or b""
        native = table.once(Native)
        at = np.searchsorted(native.rows, rows)
        there = at < len(native.rows)
        at, rows = at[there], rows[there]
        mine = native.rows[at] == rows
        opcodes, rows = native.opcode[at[mine]].tolist(), rows[mine]
        for row, opcode, psn in zip(rows.tolist(), opcodes, table.values_at(BTH.psn, rows).tolist(), strict=True):
            if opcode & SERVICE in RELIABLE and not IS_RESPONSE[opcode]:
                requester, responder = ends_at(table, row)
                self._sent.setdefault((responder, requester), []).append((psn, row + table.chunk.first))
        if self._looked_at == table.chunk.first:
            self._look(table, [frame for frame in fresh if frame in self._asked])

    def take(self, table: ChunkTable) -> None:
        """Look for replies in a chunk, when its followers were fed."""
        self._looked_at = table.chunk.first
        self._look(table, self._asked)

    def _look(self, table: ChunkTable, asked: Collection[int]) -> None:
        answers = list(self.transactions.answers_to(asked)) if asked else []
        rows = np.array([one.frame for one in answers], np.int64) - table.chunk.first
        contents = _contents(table, rows, is_in(table.values_at(MAD.mgmt_class, rows), np.array(sorted(SMP_CLASSES))))
        for one, attribute, shown in zip(answers, table.values_at(MAD.attribute_id, rows).tolist(), contents, strict=True):
            if one.request.attribute != attribute:
                continue  # another exchange with this transaction id
            full, written = self._asked.pop(one.request.frame)
            took = one.request.method == SET and shown == written
            good = not one.status & STATUS and (shown is None or any(shown) or took)
            self.replies[one.request.frame] = Reply(
                one.frame, good, full, of_request=True, written=written, shown=shown or b"", status=one.status
            )  # fmt: skip
        if self._sent:
            self._acknowledged(table, table.once(Native))

    def _acknowledged(self, table: ChunkTable, native: Native) -> None:
        ends = np.array([(one.lid or 0) << 16 | (other.lid or 0) for one, other in self._sent], np.int64)
        index = np.flatnonzero(IS_RESPONSE[native.opcode] & is_in(native.slid << 16 | native.dlid, ends))
        if not len(index):
            return
        rows = native.rows[index]
        index = index[~refusing(table, rows, native.opcode[index])]
        psns = table.values_at(BTH.psn, native.rows[index]).astype(np.int64)
        frames, way = native.rows[index] + table.chunk.first, native.slid[index] << 16 | native.dlid[index]
        networks: Any = table.networks[native.rows[index]] if table.networks is not None else 0
        for (responder, requester), waiting in list(self._sent.items()):
            mine = (way == (responder.lid or 0) << 16 | (requester.lid or 0)) & (networks == requester.network)
            left = []
            for psn, frame in waiting:
                found = index[mine & (frames > frame) & ((psns - psn) % PSNS < WINDOW)]
                if len(found):
                    first = found[0]
                    self.replies[frame] = Reply(int(native.rows[first]) + table.chunk.first, True, bool(native.p_key[first] & FULL))
                else:
                    left.append((psn, frame))
            if left:
                self._sent[responder, requester] = left
            else:
                del self._sent[responder, requester]

    def reply(self, hit: Hit) -> Reply | None:
        """The first good reply to one of a hit's packets, else any; None if nothing came back.

        Packets that were not watched because too many are count as answered: nothing is known of them.
        """
        frames = frames_of(hit)
        found = [self.replies[frame] for frame in frames if frame in self.replies]
        if found:
            return next((one for one in found if one.good), found[0])
        return Reply(hit.frame, True, True) if self.dropped.count and hit.frame not in self._watched else None

    def written(self, hit: Hit) -> bytes:
        """The attribute in a request of subnet management that nobody answered; empty: somebody did, or it is another packet."""
        return self._asked.get(hit.frame, (False, b""))[1]

    def answered(self, frames: Sequence[int]) -> bool:
        """Whether something came back for each of some packets that were watched, or nothing is known of it."""
        return all(frame in self.replies or (frame not in self._watched and self.dropped.count) for frame in frames)


def frames_of(hit: Hit) -> list[int]:
    """The packets of a hit that are watched."""
    return [int(frame) for frame in hit.frames[:KEPT_FRAMES]] if len(hit.frames) else [hit.frame]


def _contents(table: ChunkTable, rows: Int, of_smps: Bool) -> list[bytes | None]:
    """The attributes of the SMPs in some rows; None where `of_smps`, bool[n], is false."""
    start, stop = SMP.data.span
    at, data = table.located.at("mad")[rows].tolist(), table.chunk.data
    return [data[mad + start : mad + stop].tobytes() if smp else None for mad, smp in zip(at, of_smps.tolist(), strict=True)]


def refusing(table: ChunkTable, rows: Int, opcodes: Int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which responses are NAKs or ask to wait: they have an AETH with such a syndrome; bool[n]."""
    at = table.located.at("bth")[rows] + BTH.size
    inside = at < table.located.limit[rows]
    syndrome = table.chunk.data[np.where(inside, at + AETH.syndrome.span[0], 0)]
    return np.where(inside, (syndrome & NAK) != 0, True) & np.isin(opcodes & OPERATION, WITH_AETH)
