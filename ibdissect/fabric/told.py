"""What did the same port say before? The answers of an attribute over time, as columns: no Python step per packet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ibdissect.dropped import Dropped
from ibdissect.record import record
from ibdissect.table.locate import Int
from ibdissect.table.table import extract
from ibdissect.wire.spec import Field

from . import columns as c
from .events import ChunkFollowed
from .model import SWITCH, Node

MAX_KEPT = 131072
"""Ports, switches or managers whose latest answer is remembered per attribute: 10 MB; the oldest go first."""
_NO_KEY = -1
Bytes = npt.NDArray[np.uint8]


@record(eq=True, frozen=False)
class Told:
    """SMPs of one attribute in a chunk, requests and good answers, in frame order; arrays of one length."""

    event: ChunkFollowed
    rows: Int
    method: npt.NDArray[np.uint8]
    modifier: Int
    mad: Int
    """Offset of the MAD in its frame."""
    bodies: Bytes
    """The attribute, uint8[n, 64]."""
    slot: Int
    entered: Int
    kind: Int
    """NodeType of the node addressed or answering; 0 where it is not known."""
    ports: Int
    """NumPorts of that node."""
    about_ports: bool = False
    """The modifier selects a port, as that of PortInfo does."""
    key: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Whom it is about; -1 where that is not known."""
    before: Bytes = field(default_factory=lambda: np.empty((0, 64), np.uint8))
    """The attribute as the latest answer about the same port showed it; zeros where there was none."""
    since: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Frame of that answer; 0 where there was none."""
    columns: dict[object, npt.NDArray[Any]] = field(default_factory=dict)
    """Columns that were asked for."""

    def __len__(self) -> int:
        return len(self.rows)

    def now(self, of: Field[Any]) -> npt.NDArray[Any]:
        """A field as each SMP has it."""
        return self.kept((of, True), lambda: extract(self.bodies, of.bit, of.bits))

    def was(self, of: Field[Any]) -> npt.NDArray[Any]:
        """The field as the latest answer showed it."""
        return self.kept((of, False), lambda: extract(self.before, of.bit, of.bits))

    def kept(self, what: object, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """A column made once for all who ask for it by the same name."""
        found = self.columns.get(what)
        if found is None:
            found = self.columns[what] = make()
        return found

    @property
    def number(self) -> Int:
        """Number of the port that a PortInfo is about; of no use for other attributes."""
        number = self.modifier & 0xFF
        return self.kept("number", lambda: np.where((self.kind == SWITCH) | (number != 0), number, self.entered))

    @property
    def frames(self) -> Int:
        """Frame numbers."""
        return self.rows + self.event.table.chunk.first

    @property
    def answers(self) -> npt.NDArray[np.bool_]:
        """Which are answers."""
        mask: npt.NDArray[np.bool_] = self.method == c.GET_RESP
        return mask

    @property
    def sets(self) -> npt.NDArray[np.bool_]:
        """Which are Sets."""
        mask: npt.NDArray[np.bool_] = self.method == c.SET
        return mask

    def node(self, i: int) -> Node | None:
        """The node of SMP `i`."""
        return self.event.subnet.slots.get(int(self.slot[i]))


class Tellings:
    """An attribute over the whole capture; one per context for all rules that ask."""

    attribute: ClassVar[int] = 0

    def __init__(self) -> None:
        self._of: ChunkFollowed | None = None
        self._told: Told | None = None
        self.dropped = Dropped("ports, switches and managers")
        self._lesson_key: Int = np.empty(0, np.int64)
        self._lesson_frame: Int = np.empty(0, np.int64)
        self._lesson_body: Bytes = np.empty((0, 64), np.uint8)
        """Answers up to and with the present chunk, sorted by key, then frame."""

    def keys(self, told: Told) -> Int:
        """Whom each SMP is about, as a number; -1 where that is not known."""
        raise NotImplementedError

    def of(self, event: ChunkFollowed) -> Told:
        """The SMPs of a chunk, each with what was told before."""
        if self._of is event and self._told is not None:
            return self._told
        self._of, self._told = event, self._gathered(event)
        told = self._told
        if len(told):
            told.about_ports = self.attribute == c.PORT_INFO
            told.key = self.keys(told)
            self._learn(told)
            told.before, told.since = self._before(told.key, told.frames)
        return told

    def at(self, key: Int, frames: Int) -> tuple[Bytes, Int]:
        """The attribute as it was told last before each frame, uint8[n, 64], and when, 0: never. Ask after `of` for the same chunk."""
        return self._before(key, frames)

    def _gathered(self, event: ChunkFollowed) -> Told:
        parts = []
        for smps in (event.requests, event.answers):
            index = smps.of_attribute.get(self.attribute)
            if index is not None:
                parts.append((smps, index))
        if not parts:
            none = np.empty(0, np.int64)
            empty = np.empty((0, 64), np.uint8)
            return Told(event, none, none.astype(np.uint8), none, none, empty, none, none, none, none)

        def column(name: str) -> npt.NDArray[Any]:
            return np.concatenate([getattr(smps, name)[index] for smps, index in parts])

        def of_nodes(name: str) -> Int:
            return np.concatenate([getattr(smps, name)[smps.which[index]] for smps, index in parts])

        order = np.argsort(rows := column("rows"), kind="stable")
        return Told(
            event, rows[order], column("method")[order], column("modifier")[order].astype(np.int64), column("mad")[order],
            column("bodies")[order], column("slot")[order], column("entered")[order],
            of_nodes("kinds")[order], of_nodes("num_ports")[order],
        )  # fmt: skip

    def _learn(self, told: Told) -> None:
        """Put the answers of a chunk behind what is remembered; forget the oldest when it is too much."""
        fresh = np.flatnonzero(told.answers & (told.key != _NO_KEY))
        if not len(fresh):
            return
        keep = self._latest()
        key, frame, body = self._lesson_key[keep], self._lesson_frame[keep], self._lesson_body[keep]
        if len(key) > MAX_KEPT:
            young = np.sort(np.argsort(frame, kind="stable")[len(key) - MAX_KEPT :])
            self.dropped.add(int(told.frames[0]), int(told.event.table.chunk.time_ns[told.rows[0]]), len(key) - MAX_KEPT)
            key, frame, body = key[young], frame[young], body[young]
        key = np.concatenate([key, told.key[fresh]])
        frame = np.concatenate([frame, told.frames[fresh]])
        body = np.concatenate([body, told.bodies[fresh]])
        order = np.lexsort((frame, key))
        self._lesson_key, self._lesson_frame, self._lesson_body = key[order], frame[order], body[order]

    def _latest(self) -> Int:
        key = self._lesson_key
        return np.flatnonzero(np.append(key[1:] != key[:-1], True)) if len(key) else np.empty(0, np.int64)

    def _before(self, key: Int, frames: Int) -> tuple[Bytes, Int]:
        """The last lesson about each key with a smaller frame."""
        before, since = np.zeros((len(key), 64), np.uint8), np.zeros(len(key), np.int64)
        if not len(self._lesson_key) or not len(key):
            return before, since
        _, which = np.unique(np.concatenate([self._lesson_key, key]), return_inverse=True)
        which = which.ravel()
        span = int(max(self._lesson_frame.max(), frames.max())) + 1
        lessons = which[: len(self._lesson_key)] * span + self._lesson_frame
        place = np.searchsorted(lessons, which[len(self._lesson_key) :] * span + frames) - 1
        found = (place >= 0) & (key != _NO_KEY)
        found &= self._lesson_key[np.maximum(place, 0)] == key
        before[found] = self._lesson_body[place[found]]
        since[found] = self._lesson_frame[place[found]]
        return before, since


def port_key(slot: Int, number: Int) -> Int:
    """Slot and port number as one number; -1 for an unknown node."""
    key: Int = np.where(slot < 0, _NO_KEY, slot << 8 | number)
    return key


class PortInfos(Tellings):
    """PortInfo, by port."""

    attribute = c.PORT_INFO

    def keys(self, told: Told) -> Int:
        return port_key(told.slot, told.number)


class SwitchInfos(Tellings):
    """SwitchInfo, by switch."""

    attribute = c.SWITCH_INFO

    def keys(self, told: Told) -> Int:
        return port_key(told.slot, np.zeros_like(told.slot))


class Descriptions(SwitchInfos):
    """NodeDescription, by node."""

    attribute = c.NODE_DESCRIPTION


class PKeyTables(Tellings):
    """Blocks of P_Key tables, by port and block."""

    attribute = c.P_KEY_TABLE

    def keys(self, told: Told) -> Int:
        number = np.where(told.kind == SWITCH, told.modifier >> 16 & 0xFF, told.entered)
        key: Int = np.where(told.slot < 0, _NO_KEY, (told.slot << 8 | number) << 16 | told.modifier & 0xFFFF)
        return key


class NodeInfos(Tellings):
    """NodeInfo, by NodeGUID."""

    attribute = c.NODE_INFO

    def keys(self, told: Told) -> Int:
        return _guid(told, 12)


class PortGuids(Tellings):
    """NodeInfo, by PortGUID."""

    attribute = c.NODE_INFO

    def keys(self, told: Told) -> Int:
        return _guid(told, 20)


class SmInfos(Tellings):
    """SMInfo, by the GUID of the manager."""

    attribute = c.SM_INFO

    def keys(self, told: Told) -> Int:
        return _guid(told, 0)


class Others(Tellings):
    """Any attribute without history: SMPs whose earlier contents do not matter."""

    def keys(self, told: Told) -> Int:
        return np.full(len(told), _NO_KEY, np.int64)


def _guid(told: Told, at: int) -> Int:
    guid = extract(told.bodies, at * 8, 64).astype(np.uint64).view(np.int64)
    key: Int = np.where(told.answers & (guid != 0), guid, _NO_KEY)
    return key
