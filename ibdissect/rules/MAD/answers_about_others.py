"""Answers about something else than their request selected: another port, another node, another path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import Dropped
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import U64, is_in, places_in
from ibdissect.decode.identity import Code, Frame
from ibdissect.lint.rule import WARNING, Context, Hit, Seen, fault, on_chunk
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.second_answers import OwnAnswerRule
from ibdissect.subnet import SWITCH, FabricFollower
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.numbers import BASE, DATA, GET, GET_RESP, GET_TABLE, GET_TABLE_RESP, MAX_LMC, PM_CLASS, SA_CLASS
from ibdissect.wire.pm import OfPort
from ibdissect.wire.sa import SAFormat, component_fields, components_of
from ibdissect.wire.spec import Field, Struct

MAX_ASKED = 4096
"""Requests of one attribute that wait for their answer in a later chunk."""
ALL_PORTS = ALL_BLOCKS = 0xFF
OF_SWITCHES = frozenset({0x13, 0x33, 0x36})
"""Records whose port numbers mean something for switches alone: SL to VL, P_Key and VL arbitration tables (opensm osm_sa_slvl_record.c)."""
Alike = Callable[[U64, U64], Bool]
"""Whether what was answered (second) is what was asked for (first)."""


def _same(asked: U64, held: U64) -> Bool:
    equal: Bool = asked == held
    return equal


def _same_port(asked: U64, held: U64) -> Bool:
    """A request for all ports may be answered by the number of any; adapters are asked for port 0, too, and answer with their own."""
    alike: Bool = (asked == held) | (asked == ALL_PORTS) | (asked == 0)
    return alike


def _same_guid(asked: U64, held: U64) -> Bool:
    """Nobody asks for GUID 0: it was left empty."""
    alike: Bool = (asked == held) | (asked == 0)
    return alike


def _same_lid(asked: U64, held: U64) -> Bool:
    """A record has the base LID of a port, which has 2**LMC of them."""
    lid, base = asked.astype(np.int64), held.astype(np.int64)
    size = np.minimum(base & -base, 1 << MAX_LMC)
    alike: Bool = (lid == base) | (lid == 0) | ((base < lid) & (lid < base + size))
    return alike


def _same_block(asked: U64, held: U64) -> Bool:
    """OpenSM answers with a P_Key block in the byte order of its host; 255 asks for all GUIDs."""
    alike: Bool = (asked == held) | (asked == ALL_BLOCKS) | (asked == (held >> np.uint64(8) | (held & np.uint64(0xFF)) << np.uint64(8)))
    return alike


def _same_partition(asked: U64, held: U64) -> Bool:
    """Full and limited members are in the same partition."""
    alike: Bool = ((asked ^ held) & np.uint64(BASE) == 0) | (asked & np.uint64(BASE) == 0)
    return alike


_KINDS: dict[str, Alike] = {
    "lid": _same_lid, "end_port_lid": _same_lid, "from_lid": _same_lid, "to_lid": _same_lid, "dlid": _same_lid, "slid": _same_lid,
    "mlid": _same_guid, "port_num": _same, "block_num": _same_block, "input_port_num": _same, "output_port_num": _same, "position": _same,
    "from_port": _same, "to_port": _same, "dgid": _same_guid, "sgid": _same_guid, "mgid": _same_guid, "service_id": _same_guid,
    "service_gid": _same_guid, "sl": _same, "p_key": _same_partition, "service_p_key": _same_partition, "node_info.node_guid": _same_guid,
    "node_info.port_guid": _same_guid, "sm_info.guid": _same_guid,
}  # fmt: skip
"""Components that identify what a record is about, and how they are compared. Of a GID its last 64 bits: the prefix of the subnet may be
written in two ways.
"""


PORT_NUMBERS = ("port_num", "input_port_num", "output_port_num")


class Selector(Record, frozen=True):
    """A field that says what a request is about."""

    mgmt_class: Code
    attribute: Code
    struct: type[Struct]
    field: Field[Any]
    name: str
    bit: Code
    """Where the compared bits begin in the structure."""
    bits: Code
    of_switch: bool
    """Whether it means something for switches alone."""
    chosen: Code
    """Its bit in the ComponentMask; 0: always selected."""
    alike: Alike

    def values(self, table: ChunkTable, index: Int) -> U64:
        return extract(table.matrix(self.struct)[index], self.bit, self.bits).astype(np.uint64)


@cache
def selectors(catalog: Catalog, mgmt_class: int, attribute: int) -> list[Selector]:
    """The selectors of an attribute."""
    found: list[Selector] = []
    for _, struct in catalog.attributes.get((mgmt_class, attribute), ()):
        found += _of_record(attribute, struct) if mgmt_class == SA_CLASS else ()
        port = getattr(struct, OfPort.port_select.name, None)
        if mgmt_class == PM_CLASS and isinstance(port, Field):
            found.append(Selector(mgmt_class, attribute, struct, port, port.label, port.bit, port.bits, False, 0, _same_port))
    return found


def _of_record(attribute: int, struct: type[Struct]) -> Iterator[Selector]:
    for number, name in enumerate(components_of(struct)):
        fields = component_fields(struct, name) if name in _KINDS else []
        if not fields:
            continue
        bit, bits = sum(field.bit for field in fields), fields[-1].bits
        start = bit + bits - min(bits, 64)
        of_switch = attribute in OF_SWITCHES and name in PORT_NUMBERS
        alike = _KINDS[name]
        yield Selector(SA_CLASS, attribute, struct, fields[-1], fields[-1].label, start, min(bits, 64), of_switch, 1 << number, alike)


class SelectedByRequests(Record):
    """What requests selected: their frames, ascending, and the values."""

    frame: Int
    value: U64


class AnotherAnswered(OwnAnswerRule):
    """An answer is about something else than its request selected.

    A path to another port, the record of another node, the counters of another port: the requester takes them for what it asked for.

    Correct the responder; of a subnet manager, restart it: its tables are mixed up.

    A request and its answer, with nothing else of that transaction in between: the port of a PerformanceGet, and the components of a query
    that name a LID, GID, GUID, port, block, service or partition. LIDs of one port (LMC) and forms of one P_Key are alike, and so are the
    ports of P_Key, SL to VL and VL arbitration tables unless the capture shows that the node is a switch. An `info` if the capture misses
    packets there.
    """

    code, name, severity = "MAD020", "answer-not-selected", WARNING
    reference = "IBA 13.4.5, 15.2.1.1, 16.1.3"
    message = "{what} selects {field} {asked}, the answer has {held}"
    example = "SubnAdmGet(NodeRecord) of LID 9, answered with the record of LID 3"
    at = MAD.attribute_id
    needs = (FabricFollower,)

    def __init__(self) -> None:
        self.asked: dict[Selector, SelectedByRequests] = {}
        """Requests that were not answered yet."""
        self.dropped = Dropped("requests that select something")

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        event = context.get(Transactions).matched
        found: list[tuple[int, Hit]] = []
        for key in table.attributes():
            for selector in selectors(context.catalog, *key) if key in context.catalog.attributes else ():
                rows = table.occurrences(selector.struct).rows
                if not len(rows):
                    continue
                self._ask(table, selector, rows)
                if event is not None:
                    found += self._compare(table, context, selector, rows)
        if event is not None and self.asked:
            answered = np.sort(event.last_frames)
            for selector in list(self.asked):
                self._settle(selector, answered, table)
        seen: set[Frame] = set()
        for frame, hit in sorted(found, key=lambda one: one[0]):
            if frame not in seen:  # one finding for each answer, whatever differs
                seen.add(frame)
                yield hit

    def _ask(self, table: ChunkTable, selector: Selector, rows: Int) -> None:
        """Note what requests select."""
        method = table.values_at(MAD.method, rows)
        wanted = method == GET
        if selector.chosen:
            wanted |= (method == GET_TABLE) & (table.values_at(RMPP.rmpp_type, rows) <= DATA)
            wanted &= table.values_at(SAFormat.component_mask, rows) & np.uint64(selector.chosen) != 0
        index = np.flatnonzero(wanted)
        if len(index):
            frames, before = rows[index] + table.chunk.first, self.asked.get(selector)
            new = SelectedByRequests(frames, selector.values(table, index))
            if before is not None:
                new = SelectedByRequests(np.concatenate([before.frame, new.frame]), np.concatenate([before.value, new.value]))
            self.asked[selector] = new

    def _compare(self, table: ChunkTable, context: Context, selector: Selector, rows: Int) -> Iterator[tuple[int, Hit]]:
        """Answers that differ from what their request selected."""
        event, asked = context.get(Transactions).matched, self.asked.get(selector)
        if event is None or asked is None:
            return
        method = table.values_at(MAD.method, rows)
        good = ((method == GET_RESP) | (method == GET_TABLE_RESP)) & (table.values_at(MAD.status, rows) == 0)
        index = np.flatnonzero(good)
        place = places_in(event.frames, rows[index] + table.chunk.first)
        doubtful = [k for k, one in event.singles.items() if one.tries > 1 or not one.only_one_open or one.answered_before]
        clear = (place >= 0) & ~is_in(place, np.array(doubtful, np.int64))
        index, place = index[clear], place[clear]
        request = places_in(asked.frame, event.last_frames[place])
        index, place, request = index[request >= 0], place[request >= 0], request[request >= 0]
        wanted, held = asked.value[request], selector.values(table, index)
        for i in np.flatnonzero(~selector.alike(wanted, held)).tolist():
            seen = Seen(table, int(rows[index[i]]))
            if selector.of_switch and not _of_switch(table, context, selector, int(index[i]), seen.frame):
                continue
            k = int(place[i])
            what = context.catalog.request_text(selector.mgmt_class, int(event.request_method[k]), selector.attribute)
            view: Any = table.view(selector.struct, int(index[i]))
            yield seen.frame, fault(
                seen, {"what": what, "field": selector.name, "asked": _text(selector, wanted[i]), "held": _text(selector, held[i])},
                selector.field if selector.field.owner is selector.struct else None,
                of=view if selector.field.owner is selector.struct else None, proof=[(int(event.last_frames[k]), "request")],
            )  # fmt: skip

    def _settle(self, selector: Selector, answered: Int, table: ChunkTable) -> None:
        """Keep the latest requests without an answer. `answered`: frames of those that have one, ascending."""
        asked = self.asked[selector]
        left = np.flatnonzero(places_in(answered, asked.frame) < 0)
        if len(left) > MAX_ASKED:
            self.dropped.add(int(asked.frame[left[0]]), int(table.chunk.time_ns[0]), len(left) - MAX_ASKED)
        left = left[-MAX_ASKED:]
        if len(left):
            self.asked[selector] = SelectedByRequests(asked.frame[left], asked.value[left])
        else:
            del self.asked[selector]


def _of_switch(table: ChunkTable, context: Context, selector: Selector, i: int, frame: int) -> bool:
    """Whether a record is known to be of a switch: others have one port with that LID, whatever number was asked for."""
    lid: Field[int] = selector.struct.lid  # type: ignore[attr-defined]
    port = context.get(FabricFollower).subnet.owner(int(table.values(lid)[i]), frame)[0]
    return port is not None and port.node.kind == SWITCH


def _text(selector: Selector, value: np.uint64) -> str:
    number = int(value)
    return str(number) if selector.bits <= 8 or selector.alike is _same_lid else f"0x{number:0{selector.bits // 4}x}"
