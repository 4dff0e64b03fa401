"""Fields that a node, switch or port had shown before an SMP was sent, of other attributes than the SMP's own, as columns.

`AttributeHistory` has the answers of an SMP's own attribute; the model of the subnet has the others, each with the frame that showed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record
from msgspec import field as default

from ibdissect.capture.gather import Bytes
from ibdissect.decode import Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import mix
from ibdissect.decode.history import AFTER_ALL, History
from ibdissect.wire.numbers import PORT_INFO, SL_TO_VL, VL_ARBITRATION
from ibdissect.wire.sm import LedInfo, NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import INT_KINDS, Field, Struct

from .attribute_smps import AttributeSmps
from .earlier_answers import attributes_of, port_key
from .events import ChunkFollowed
from .nodes import SWITCH, NodeFacts, SwitchFacts

BODY = 64
"""Bytes of PortInfo that are kept."""


class Shown(Record, frozen=True, eq=False):
    """A field as it was last shown before each SMP."""

    values: npt.NDArray[Any]
    since: Int
    """The frame that showed it, as the subnet's model knows it: of the SMP's own attribute the last answer, of another one the first
    frame with this content; negative: a line of a subnet file; 0: it is unknown."""


class _Pool(Record, frozen=True, eq=False):
    """What an attribute held in the present chunk, of all nodes or ports in question: contents, in order of owners and frames."""

    contents: list[Any]
    since: Int
    starts: Int
    """Place of the owner, and frame, as one number: from there on the content counts."""
    columns: dict[object, npt.NDArray[Any]] = default(default_factory=dict)
    """Fields of the contents that were asked for, and hashes of the contents by `hash`."""


def shown(smps: AttributeSmps, field: Field[Any]) -> Shown:
    """A field of NodeInfo, SwitchInfo, PortInfo or of the SMPs' own attribute, as node, switch or port had shown it; see `may_be_asked`."""
    found: Shown = smps.cached((field, "shown"), lambda: _shown(smps, field))
    return found


def may_be_asked(field: Field[Any], attributes: Sequence[int]) -> bool:
    """Whether `shown` knows a field for SMPs of these attributes."""
    if field.kind not in INT_KINDS or field.count > 1 or field.bits > 64:
        return False
    if field is NodeInfo.node_type or field.owner is PortInfo or is_own(field.owner, attributes):
        return True
    return field.owner in _SOURCES and field.name in _SOURCES[field.owner][1]


OF_PORTS = frozenset({PORT_INFO, SL_TO_VL, VL_ARBITRATION, *attributes_of(LedInfo)})
"""Attributes whose modifier selects a port of a switch, in its lowest byte."""


def is_own(struct: type[Struct], attributes: Sequence[int]) -> bool:
    """Whether SMPs of these attributes carry a structure themselves."""
    return len(attributes) == 1 and attributes_of(struct) == tuple(attributes)


def _shown(smps: AttributeSmps, field: Field[Any]) -> Shown:
    if is_own(field.owner, smps.attributes):
        return Shown(smps.was(field), smps.since)
    if field is NodeInfo.node_type:
        return Shown(smps.kind, np.where(smps.kind > 0, np.array([node.frame for node in smps.nodes], np.int64)[smps.which], 0))
    pool, which = _pool_of(smps, field.owner)
    values = pool.columns.get(field)
    if values is None:
        if field.owner is PortInfo:
            bodies: Bytes = np.frombuffer(b"".join(one or bytes(BODY) for one in pool.contents), np.uint8).reshape(-1, BODY)
            values = extract(bodies, field.bit, field.bits)
        else:
            values = np.array([getattr(one, field.name) if one is not None else 0 for one in pool.contents], np.int64)
        pool.columns[field] = values
    return Shown(values[which], pool.since[which])


def shown_content(smps: AttributeSmps, struct: type[Struct]) -> Int:
    """A number for what `shown` says of a structure of others, for each SMP; AFTER_ALL where it is not the same for all of the chunk."""
    if struct is PortInfo:
        pool, which = _pool_of(smps, struct)
        values = pool.columns.get(hash)
        if values is None:
            values = pool.columns[hash] = np.array([0 if one is None else hash(one) for one in pool.contents], np.int64)
        return values[which]
    since = smps.event.once(_learnt)[:, 0 if struct is NodeInfo else 1][smps.which]
    found: Int = np.where(since < smps.event.table.chunk.first, mix([smps.slot, since]).view(np.int64), AFTER_ALL)
    return found


def _learnt(event: ChunkFollowed) -> Int:
    """The frames that showed what is known of the nodes of a chunk, and of them as switches."""
    return np.array([(node.facts.since, node.switch.since) for node in event.smps.nodes], np.int64)


def _pool_of(smps: AttributeSmps, struct: type[Struct]) -> tuple[_Pool, Int]:
    pool, owner = _SOURCES[struct][0](smps)
    which: Int = smps.cached((struct, "which"), lambda: _which(smps, pool, owner))
    return pool, which


def _span(event: ChunkFollowed) -> int:
    """More than any frame number so far."""
    return event.table.chunk.first + len(event.table)


def _pool(event: ChunkFollowed, tracks: Iterable[History[Any] | None]) -> _Pool:
    """What some facts held since the chunk began."""
    first, span = event.table.chunk.first, _span(event)
    contents, since, order = [None], [0], [-1]
    for place, track in enumerate(tracks):
        if track is None or not track.since:
            continue
        for content, frame in [(track.now, track.since)] if track.since < first else track.values():
            contents.append(content)
            since.append(frame if content is not None else 0)
            order.append(place * span + max(frame, 0))
    return _Pool(contents, np.array(since, np.int64), np.array(order, np.int64))


def _which(smps: AttributeSmps, pool: _Pool, owner: Int) -> Int:
    """Which content counted for each SMP; 0: nothing was shown by then. `owner`: the place of its node or port."""
    span = _span(smps.event)
    which = np.searchsorted(pool.starts, owner * span + smps.frames, "right") - 1
    which[pool.starts[which] < owner * span] = 0
    return which


def _of_switches(event: ChunkFollowed) -> _Pool:
    return _pool(event, (node.switch for node in event.smps.nodes))


def _of_nodes(event: ChunkFollowed) -> _Pool:
    return _pool(event, (node.facts for node in event.smps.nodes))


def _switches(smps: AttributeSmps) -> tuple[_Pool, Int]:
    return smps.event.once(_of_switches), smps.which


def _nodes(smps: AttributeSmps) -> tuple[_Pool, Int]:
    return smps.event.once(_of_nodes), smps.which


def _ports(smps: AttributeSmps) -> tuple[_Pool, Int]:
    """PortInfo of the port that an SMP selects, or else of that through which it arrived: port 0 of a switch."""

    def pool() -> tuple[_Pool, Int]:
        of_switch = smps.modifier & 0xFF if OF_PORTS.issuperset(smps.attributes) else 0
        keys = port_key(smps.slot, np.where(smps.kind == SWITCH, of_switch, smps.entered))
        distinct = np.array(sorted({*keys.tolist()}), np.int64)
        ports = map(smps.event.subnet.by_key, distinct.tolist())
        found = _pool(smps.event, (port.infos if port is not None else None for port in ports))
        return found, np.searchsorted(distinct, keys)

    return smps.cached(_ports, pool)


_SOURCES: dict[type[Struct], tuple[Callable[[AttributeSmps], tuple[_Pool, Int]], tuple[str, ...]]] = {
    NodeInfo: (_nodes, NodeFacts.__struct_fields__), SwitchInfo: (_switches, SwitchFacts._fields), PortInfo: (_ports, ()),
}  # fmt: skip
"""How an attribute is looked up, and the names of the fields that the model keeps; empty: all."""
SHOWN = tuple(_SOURCES)
