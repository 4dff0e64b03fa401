"""Packets that were accepted after all: a later positive answer from the receiver refutes that somebody drops or refuses them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import ends_at
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import PairId
from ibdissect.engine.psn_gaps import distance
from ibdissect.lint.rule import Context, Hit, Seen, on_chunk
from ibdissect.rules.shared.packet_flows import PACKET_FLOW, PacketRule
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.headers import AETH, BTH, GRH, LRH
from ibdissect.wire.opcodes import FIRST_RESPONSE, LAST_RESPONSE, OPCODES, OPERATION, RELIABLE, SERVICE, SERVICES
from ibdissect.wire.spec import Field

MAX_PAIRS = 256
"""Pairs of sender and receiver whose answers a rule waits for."""
ADDRESSES: tuple[tuple[Field[Any], Field[Any]], ...] = (
    (LRH.slid, LRH.dlid), (GRH.sgid, GRH.dgid), (IPv4.source, IPv4.destination), (IPv6.source, IPv6.destination),
)  # fmt: skip
WITH_ANSWERS = [SERVICES[service] for service in RELIABLE]
ACKNOWLEDGED = frozenset(code for code in OPCODES if code & SERVICE in RELIABLE)
NAK = 3
"""AETH.syndrome_opcode of a refusal."""


class AcceptedRule(PacketRule):
    """Base of rules about a packet that the receiver drops or refuses; silent once the receiver accepts what the sender sent.

    It accepts if it sends the sender a response without a NAK later: behind the packet, or by its time. A NAK that asks for a lost packet
    again says nothing of those before.
    """

    flow = PACKET_FLOW
    proved_by: ClassVar[frozenset[int]] = frozenset()
    """Codes of NAKs between the two that prove the fault."""
    arrives: ClassVar[bool] = False
    """Whether the finding says that the packet does not arrive: then a NAK refutes it, too."""

    def __init__(self) -> None:
        self.answers = KeptDict[PairId, tuple[int, int, int]](MAX_PAIRS, "senders of packets that may be refused")
        """Frame of the latest acceptance and of the latest refusal of each pair, and the latest time of an acceptance; 0: none."""

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        pair = pair_of(seen)
        self.answers.get_or_make(pair, lambda: (0, 0, 0), seen.frame, seen.time_ns)
        return {"pair": pair, **sent_by(seen)}

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> None:
        if not len(self.answers):
            return
        found = table.occurrences(BTH)
        operation = table.values(BTH.opcode) & OPERATION
        rows = found.rows[(operation >= FIRST_RESPONSE) & (operation <= LAST_RESPONSE)]
        nak = table.values_at(AETH.syndrome_opcode, rows) == NAK
        refused = nak & np.isin(table.values_at(AETH.error_code, rows), [*self.proved_by])
        accepted = ~nak | self.arrives
        for pair, (accepted_before, refused_before, time_before) in list(self.answers.items()):
            *ways, (network, _) = zip(*pair, strict=True)
            mine = (table.networks[rows] if table.networks is not None else np.zeros(len(rows), np.int64)) == network
            for (source, destination), (sender, receiver) in zip(ADDRESSES, ways, strict=True):
                mine &= _equal(table, source, rows, receiver) & _equal(table, destination, rows, sender)
            yes, no = rows[mine & accepted], rows[mine & refused]
            latest = (
                int(yes[-1]) + table.chunk.first if len(yes) else accepted_before,
                int(no[-1]) + table.chunk.first if len(no) else refused_before,
                max(int(table.chunk.time_ns[yes].max()), time_before) if len(yes) else time_before,
            )
            self.answers.keep(pair, latest, latest[0], 0)

    def stands(self, hit: Hit, context: Context) -> bool:
        if hit.arguments["pair"] not in self.answers:
            return False  # there are too many pairs to know
        accepted, _, latest = self.answers[hit.arguments["pair"]]
        return (accepted < hit.frame and latest <= hit.time_ns) or self.refused(hit)

    def shown(self, hit: Hit, context: Context) -> bool:
        """Whether the capture would show the acceptance: it goes on for a second, or until a refusal, and shows answers of the receiver."""
        goes_on = context.get(Scopes).goes_on(hit.frame, hit.time_ns) >= SECOND_NS
        return (goes_on or self.refused(hit)) and would_answer(hit, context)

    def refused(self, hit: Hit) -> bool:
        """Whether the receiver refused something later."""
        return self.answers.get(hit.arguments["pair"], (0, 0, 0))[1] > hit.frame


def sent_by(seen: Seen) -> dict[str, Any]:
    """What `would_answer` and `sent_again` ask of a packet."""
    told = {"qpn": seen.value(BTH.destqp), "psn": seen.value(BTH.psn)}
    return {"ends": ends_at(seen.table, seen.row), "acknowledged": seen.value(BTH.opcode) in ACKNOWLEDGED, **told}


def would_answer(hit: Hit, context: Context) -> bool:
    """Whether the receiver of a packet would answer where the capture shows it: its service has answers, and others come to the sender."""
    sender, receiver = hit.arguments["ends"]
    between = context.get(Streams).between
    return hit.arguments["acknowledged"] and any((service, receiver, sender, True) in between for service in WITH_ANSWERS)


def sent_again(hit: Hit, context: Context) -> bool:
    """Whether the sender of a request repeated it, or what it sent before, after a timeout to the end: then it lacks an answer. Else the
    answers may take another way, as over another link of a bond."""
    (sender, receiver), psn = hit.arguments["ends"], hit.arguments["psn"]
    streams = [one for service in WITH_ANSWERS for one in context.get(Streams).requests(service, sender, receiver, hit.arguments["qpn"])]
    return any(one.tries > 0 and one.last_frame >= hit.frame and distance(one.retry_psn, psn) <= 0 for one in streams)


def pair_of(seen: Seen) -> PairId:
    """Who sent a packet to whom, and in which network."""
    network = int(seen.table.networks[seen.row]) if seen.table.networks is not None else 0
    sources, destinations = ((*(_plain(seen, way[i]) for way in ADDRESSES), network) for i in (0, 1))
    return PairId(sources, destinations)


def _plain(seen: Seen, field: Field[Any]) -> Any:
    values, place = seen.table.values(field), seen.table.first(field.owner)[seen.row]
    if values.ndim > 1:
        return values[place].tobytes() if place >= 0 else bytes(values.shape[1])
    return int(values[place]) if place >= 0 else 0


def _equal(table: ChunkTable, field: Field[Any], rows: Any, value: Any) -> Any:
    values = table.values_at(field, rows)
    return values == value if values.ndim == 1 else (values == np.frombuffer(value, np.uint8)).all(axis=1)
