"""Earlier answers of the same port: those of an attribute over time, as columns, without a Python step per packet."""

from __future__ import annotations

from functools import cache, reduce
from itertools import count
from operator import or_
from types import new_class
from typing import Any, ClassVar

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.capture.gather import Bytes
from ibdissect.decode import Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import U64, Columns
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.repeated_smps import contents, together
from ibdissect.wire import numbers
from ibdissect.wire.mad import MAD
from ibdissect.wire.places import Mad
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sm import NodeInfo, SMInfo
from ibdissect.wire.spec import Field, Struct

from .attribute_smps import AttributeSmps
from .events import ChunkFollowed
from .nodes import SWITCH

MAX_KEPT = 131072
"""Ports, switches or managers whose latest answer is remembered, per attribute (10 MB); the oldest are evicted first."""
NO_KEY = -1
_NUMBERS = count(1)


class _Answers(Columns):
    """Answers of ports, switches or managers."""

    key: Int
    """As `AttributeHistory.keys` has it."""
    frame: Int
    body: Bytes
    """The attribute, uint8[n, 64]."""
    content: Int
    """What each packet holds (`decode.repeated_smps`); 0: unknown."""


class AttributeHistory:
    """An attribute over the whole capture; one per context, shared by all rules."""

    attributes: ClassVar[tuple[int, ...]] = ()
    """Its number, or several without history."""
    guid: ClassVar[Field[Any] | None] = None
    """The GUID that is the key of an answer."""
    asked: ClassVar[frozenset[type[Struct]]] = frozenset()
    """Other structures that conditions of rules about these SMPs ask for: what node or port showed before."""
    number: ClassVar[int] = 0
    """Tells what was judged of these SMPs from what was judged of the same SMPs among others."""

    def __init_subclass__(cls) -> None:
        cls.number = next(_NUMBERS)

    def __init__(self) -> None:
        self.dropped = Dropped("ports, switches and managers")
        self._answers = _Answers(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 64), np.uint8), np.empty(0, np.int64))
        """Those of the current chunk, and the last one before of each key; by key, then frame."""

    def keys(self, smps: AttributeSmps) -> Int:
        """The key of each SMP, int64[n]: a number for the port, switch or manager concerned; -1 if unknown."""
        if self.guid is None:
            return np.full(len(smps), NO_KEY, np.int64)
        guid = extract(smps.bodies, self.guid.bit, self.guid.bits).astype(np.uint64).view(np.int64)
        return np.where(smps.answers & (guid != 0), guid, NO_KEY)

    def of(self, event: ChunkFollowed) -> AttributeSmps:
        """The SMPs of a chunk, each with the previous answer."""
        return event.once(self._feed)

    def _feed(self, event: ChunkFollowed) -> AttributeSmps:
        if event.once(_attributes).isdisjoint(self.attributes):
            return event.once(_none)
        every = event.smps
        mine = reduce(or_, (every.attribute == attribute for attribute in self.attributes))
        smps = AttributeSmps(*every.some(np.flatnonzero(mine & (every.method != numbers.TRAP))), event=event, attributes=self.attributes)
        if len(smps):
            smps.about_ports = self.attributes == (numbers.PORT_INFO,)
            smps.key = self.keys(smps)
            fresh = np.flatnonzero(smps.answers & (smps.key != NO_KEY))
            content = event.table.once(contents)[smps.rows]
            self._learn(event, _Answers(smps.key[fresh], smps.frames[fresh], smps.bodies[fresh], content[fresh]))
            smps.before, smps.since, before = self._at(smps.key, smps.frames)
            smps.content, smps.history = combined(content, before, smps.since, smps.kind), self
        return smps

    def answers(self, key: int) -> list[int]:
        """Frames of the answers in the current chunk, and of the last one before."""
        low, high = np.searchsorted(self._answers.key, [key, key + 1]).tolist()
        frames: list[int] = self._answers.frame[low:high].tolist()
        return frames

    def _learn(self, event: ChunkFollowed, fresh: _Answers) -> None:
        """Add the answers of a chunk to those remembered; evict the oldest if there are too many."""
        if not len(fresh.key):
            return
        kept = self._answers.take(self._latest())
        if (over := len(kept.key) - MAX_KEPT) > 0:
            kept = kept.take(np.sort(np.argsort(kept.frame)[over:]))
            first, chunk = int(fresh.frame[0]), event.table.chunk
            self.dropped.add(first, int(chunk.time_ns[first - chunk.first]), over)
        every = _Answers.joined(kept, fresh)
        self._answers = every.take(np.argsort(every.key, kind="stable"))  # the frames of a key ascend

    def _latest(self) -> Int:
        """Index of the last answer of each key."""
        key = self._answers.key
        return np.flatnonzero(np.append(key[1:] != key[:-1], True)) if len(key) else np.empty(0, np.int64)

    def at(self, key: Int, frames: Int) -> tuple[Bytes, Int]:
        """The attribute in the last answer before each frame, uint8[n, 64], and its frame (0: none). Call `of` for the chunk first."""
        return self._at(key, frames)[:2]

    def _at(self, key: Int, frames: Int) -> tuple[Bytes, Int, Int]:
        """The same, and what that answer held."""
        before, (since, content) = np.zeros((len(key), 64), np.uint8), np.zeros((2, len(key)), np.int64)
        known = self._answers
        if not len(known.key) or not len(key):
            return before, since, content
        latest = self._latest()
        number = np.searchsorted(known.key[latest], key)
        span = int(max(known.frame.max(), frames.max()))  # frames count from 1
        order = np.repeat(np.arange(len(latest)), np.diff(latest, prepend=-1)) * span + known.frame
        place = np.searchsorted(order, number * span + frames) - 1
        found = (place >= 0) & (key != NO_KEY)
        found &= known.key[place] == key
        place = place[found]
        before[found], since[found], content[found] = known.body[place], known.frame[place], known.content[place]
        return before, since, content


def combined(content: Int, before: Int, since: Int, kind: Int) -> Int:
    """One number for what SMPs hold, for the answers before them (`since` 0: none) and for the kinds of their nodes; 0: unknown."""
    found = together(content, before, since > 0, kind)
    found[(content == 0) | ((since > 0) & (before == 0))] = 0
    return found


def _attributes(event: ChunkFollowed) -> set[int]:
    """Attributes of the SMPs of a chunk."""
    return {attribute for mgmt_class, attribute in event.table.attributes() if mgmt_class in numbers.SMP_CLASSES}


def _none(event: ChunkFollowed) -> AttributeSmps:
    """No SMPs: most attributes are absent from most chunks."""
    return AttributeSmps(*event.smps.some(np.empty(0, np.int64)), event=event)


def port_key(slot: Int, number: Int) -> Int:
    """Slot and port number as one number; -1 for an unknown node."""
    return np.where(slot < 0, NO_KEY, slot << 8 | number)


class PortInfos(AttributeHistory):
    """PortInfo, by port."""

    attributes = (numbers.PORT_INFO,)

    def keys(self, smps: AttributeSmps) -> Int:
        return port_key(smps.slot, smps.number)


class SwitchInfos(AttributeHistory):
    """SwitchInfo, by switch."""

    attributes = (numbers.SWITCH_INFO,)

    def keys(self, smps: AttributeSmps) -> Int:
        return port_key(smps.slot, np.zeros_like(smps.slot))


class Descriptions(SwitchInfos):
    """NodeDescription, by node."""

    attributes = (numbers.NODE_DESCRIPTION,)


class PKeyTables(AttributeHistory):
    """Blocks of P_Key tables, by port and block."""

    attributes = (numbers.P_KEY_TABLE,)

    def keys(self, smps: AttributeSmps) -> Int:
        number = np.where(smps.kind == SWITCH, smps.modifier >> 16 & 0xFF, smps.entered)
        return np.where(smps.slot < 0, NO_KEY, (smps.slot << 8 | number) << 16 | smps.modifier & 0xFFFF)


class NodeInfos(AttributeHistory):
    """NodeInfo, by NodeGUID."""

    attributes, guid = (numbers.NODE_INFO,), NodeInfo.node_guid


class PortGuids(AttributeHistory):
    """NodeInfo, by PortGUID."""

    attributes, guid = (numbers.NODE_INFO,), NodeInfo.port_guid


class NodesRecorded(AttributeHistory):
    """NodeInfo, by NodeGUID, as NodeRecords of the SA have it: what the subnet manager read of the node, at some time before."""

    part: ClassVar[Field[Any]] = NodeRecord.node_info

    def first(self, event: ChunkFollowed, smps: AttributeSmps) -> AttributeSmps:
        """The first answer of each node in this chunk, compared with the last SA record before it. Must be called once per chunk."""
        table = event.table
        if (numbers.SA_CLASS, numbers.NODE_INFO) in table.attributes():
            found, records, (low, high) = table.occurrences(NodeRecord), table.matrix(NodeRecord), self.part.span
            method = table.chunk.data[table.located.at("mad")[found.rows] + MAD.method.bit // 8]
            some = np.flatnonzero(((method & numbers.RESPONSE_BIT) != 0) & records[:, low:high].any(axis=1))
            bodies = np.zeros((len(some), 64), np.uint8)
            bodies[:, : high - low] = records[some, low:high]
            guid = extract(records[some], NodeRecord.node_info.bit + NodeInfo.node_guid.bit, 64).astype(np.uint64)
            frames = found.rows[some] + table.chunk.first
            key = self.of_nodes(event, guid, frames)
            known = np.flatnonzero(key != NO_KEY)
            self._learn(event, _Answers(key[known], frames[known], bodies[known], np.zeros(len(known), np.int64)))
        new = np.flatnonzero(smps.answers & (smps.since == 0) & (smps.key != NO_KEY)) if len(smps) else np.empty(0, np.int64)
        first = AttributeSmps(*smps.some(new), event=event, attributes=smps.attributes, key=smps.key[new], recorded=True)
        first.before, first.since = self.at(first.key, first.frames)
        return first

    def of_nodes(self, _event: ChunkFollowed, guid: U64, _frames: Int) -> Int:
        """The key of nodes with these GUIDs, as that of their SMPs; -1 if a record from such a frame does not count."""
        return np.where(guid != 0, guid.view(np.int64), NO_KEY)


class DescriptionsRecorded(NodesRecorded):
    """NodeDescription, by node, as NodeRecords have it."""

    part = NodeRecord.node_description

    def __init__(self) -> None:
        super().__init__()
        self.doubtful_since = AFTER_ALL
        """Frame of the first answer of an unknown node: later records of some node may be older than that answer."""

    def first(self, event: ChunkFollowed, smps: AttributeSmps) -> AttributeSmps:
        unknown = np.array([node.guid == 0 for node in smps.nodes], np.bool_)[smps.which]
        for frame in smps.frames[smps.answers & unknown].tolist()[:1]:
            self.doubtful_since = min(self.doubtful_since, frame)
        return super().first(event, smps)

    def of_nodes(self, event: ChunkFollowed, guid: U64, frames: Int) -> Int:
        nodes = [event.subnet.nodes.get(one) for one in guid.tolist()]
        slot = np.array([-1 if node is None else node.slot for node in nodes], np.int64)
        return np.where(frames < self.doubtful_since, port_key(slot, np.zeros_like(slot)), NO_KEY)


class SmInfos(AttributeHistory):
    """SMInfo, by the GUID of the manager."""

    attributes, guid = (numbers.SM_INFO,), SMInfo.guid


@cache
def others(*attributes: int) -> type[AttributeHistory]:
    """A class for some attributes, without history: always the same one for the same numbers."""
    return new_class("Others", (AttributeHistory,), {}, lambda body: body.update(attributes=attributes))


@cache
def pages(*attributes: int) -> type[AttributeHistory]:
    """A class for any attribute, by the port through which it was asked and the modifier: always the same one for the same numbers."""
    return new_class("Pages", (_Pages,), {}, lambda body: body.update(attributes=attributes))


class _Pages(AttributeHistory):
    def keys(self, smps: AttributeSmps) -> Int:
        key = port_key(smps.slot, np.where(smps.kind == SWITCH, 0, smps.entered))
        return np.where(key == NO_KEY, NO_KEY, key << 32 | smps.modifier)


def history_of(struct: type[Struct], *, kept: bool = False) -> type[AttributeHistory]:
    """The `AttributeHistory` class for a structure's attribute. If there is no class for it, one by modifier if it is `kept`, else one
    without history."""
    attributes = attributes_of(struct)
    known = (PortInfos, SwitchInfos, Descriptions, PKeyTables, NodeInfos, SmInfos)
    return next((kind for kind in known if kind.attributes == attributes), None) or (pages if kept else others)(*attributes)


def attributes_of(struct: type[Struct]) -> tuple[int, ...]:
    """The numbers of a structure's attribute."""
    return tuple({place.attr_id for place in struct.carried_by if isinstance(place, Mad)})
