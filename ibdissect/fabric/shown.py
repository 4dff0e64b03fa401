"""What had a node, switch or port shown of itself before an SMP was sent? Fields of other attributes than the SMP's own, as columns.

`AttributeHistory` has the answers of an SMP's own attribute; the model of the subnet has the others, each with the frame that showed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct as Record

from ibdissect.capture.scattered import Bytes
from ibdissect.table import Int
from ibdissect.table.bits import extract
from ibdissect.table.history import Track
from ibdissect.wire.numbers import PORT_INFO, SL_TO_VL, VL_ARBITRATION
from ibdissect.wire.sm import LedInfo, NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import INT_KINDS, Field, Struct

from .earlier_answers import AttributeSmps, attributes_of, port_key
from .nodes import SWITCH, NodeFacts, SwitchFacts

BODY = 64
"""Bytes of PortInfo that are kept."""


class Shown(Record, frozen=True, eq=False):
    """A field as it was last shown before each SMP."""

    values: npt.NDArray[Any]
    since: Int
    """The frame that showed it, as the subnet's model knows it: of the SMP's own attribute the last answer, of another one the first
    frame with this content; negative: a line of a subnet file; 0: it is unknown."""


class _Latest(Record, frozen=True, eq=False):
    """Contents of an attribute, and which of them counted for each SMP."""

    contents: list[Any]
    which: Int
    since: Int


def shown(smps: AttributeSmps, field: Field[Any]) -> Shown:
    """A field of NodeInfo, SwitchInfo, PortInfo or of the SMPs' own attribute, as node, switch or port had shown it; see `may_be_asked`."""
    found: Shown = smps.cached((field, "shown"), lambda: _shown(smps, field))
    return found


def may_be_asked(field: Field[Any], attributes: Sequence[int]) -> bool:
    """Whether `shown` knows a field for SMPs of these attributes."""
    if field.kind not in INT_KINDS or field.count > 1 or field.bits > 64:
        return False
    if field is NodeInfo.node_type or field.owner is PortInfo or _is_own(field.owner, attributes):
        return True
    return field.owner in _SOURCES and field.name in _SOURCES[field.owner][1]


OF_PORTS = frozenset({PORT_INFO, SL_TO_VL, VL_ARBITRATION, *attributes_of(LedInfo)})
"""Attributes whose modifier selects a port of a switch, in its lowest byte."""


def _is_own(struct: type[Struct], attributes: Sequence[int]) -> bool:
    return len(attributes) == 1 and attributes_of(struct) == tuple(attributes)


def _shown(smps: AttributeSmps, field: Field[Any]) -> Shown:
    if _is_own(field.owner, smps.attributes):
        return Shown(smps.was(field), smps.since)
    if field is NodeInfo.node_type:
        return Shown(smps.kind, np.where(smps.kind > 0, np.array([node.frame for node in smps.nodes], np.int64)[smps.which], 0))
    latest: _Latest = smps.cached(field.owner, lambda: _SOURCES[field.owner][0](smps))
    if field.owner is PortInfo:
        bodies: Bytes = np.frombuffer(b"".join(one or bytes(BODY) for one in latest.contents), np.uint8).reshape(-1, BODY)
        values = extract(bodies, field.bit, field.bits)
    else:
        values = np.array([getattr(one, field.name) if one is not None else 0 for one in latest.contents], np.int64)
    return Shown(values[latest.which], latest.since)


def _latest(smps: AttributeSmps, tracks: Sequence[Track[Any] | None], of: Int) -> _Latest:
    """What counted for each SMP; `of`: index of its track."""
    chunk = smps.event.table.chunk
    first, span = chunk.first, chunk.first + len(smps.event.table) + 1
    contents, since, order = [None], [0], [-1]
    for place, track in enumerate(tracks):
        if track is None or not track.since:
            continue
        for content, frame in [(track.now, track.since)] if track.since < first else track.values():
            contents.append(content)
            since.append(frame if content is not None else 0)
            order.append(place * span + max(frame, 0))
    starts = np.array(order, np.int64)
    which = np.searchsorted(starts, of * span + smps.frames, "right") - 1
    which[starts[which] < of * span] = 0  # nothing was shown by then
    return _Latest(contents, which, np.array(since, np.int64)[which])


def _switches(smps: AttributeSmps) -> _Latest:
    return _latest(smps, [node.switch for node in smps.nodes], smps.which)


def _nodes(smps: AttributeSmps) -> _Latest:
    return _latest(smps, [node.facts for node in smps.nodes], smps.which)


def _ports(smps: AttributeSmps) -> _Latest:
    """PortInfo of the port that an SMP selects, or else of that through which it arrived: port 0 of a switch."""
    of_switch = smps.modifier & 0xFF if OF_PORTS.issuperset(smps.attributes) else 0
    keys = port_key(smps.slot, np.where(smps.kind == SWITCH, of_switch, smps.entered))
    distinct = np.array(sorted({*keys.tolist()}), np.int64)
    ports = map(smps.event.subnet.by_key, distinct.tolist())
    return _latest(smps, [port.infos if port is not None else None for port in ports], np.searchsorted(distinct, keys))


_SOURCES: dict[type[Struct], tuple[Callable[[AttributeSmps], _Latest], tuple[str, ...]]] = {
    NodeInfo: (_nodes, NodeFacts.__struct_fields__), SwitchInfo: (_switches, SwitchFacts._fields), PortInfo: (_ports, ()),
}  # fmt: skip
"""How an attribute is looked up, and the names of the fields that the model keeps; empty: all."""
