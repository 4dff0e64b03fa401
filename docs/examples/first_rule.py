"""The plugin of docs/first-rule.md: one rule that is a declaration, one that looks at views, one that listens to events."""

from collections.abc import Iterator
from typing import Any

from ibdissect.decode import ChunkTable
from ibdissect.decode.connection_events import Replied
from ibdissect.lint.rule import ERROR, WARNING, Hit, Rule, Seen, fault, on_chunk, on_event, on_struct
from ibdissect.wire.cm import REQ
from ibdissect.wire.headers import BTH
from ibdissect.wire.places import Mad
from ibdissect.wire.spec import Struct, uint


class Heat(Struct):
    """ACME's temperature attribute, as far as the rule needs it."""

    prefix, key, section, size = "acme", "heat", "ACME PRM 3", 6
    carried_by = (Mad(0x0D, 0x0101),)
    sensor = uint(16, "Sensor", at="0")
    celsius = uint(16, "Celsius", at="2", unit="°C")
    limit = uint(16, "Limit", at="4", unit="°C")


class TooHot(Rule):
    """A switch is hotter than it may be.

    ## Why it matters
    It turns itself off at the limit.

    ## What to do
    Look at its fans.
    """

    code, name, severity = "ACME011", "too-hot", ERROR
    reference = "ACME PRM 3"
    on = Heat
    when = Heat.celsius > Heat.limit
    at = Heat.celsius
    message = "sensor {sensor}: {celsius} °C is above {limit} °C"
    example = "a GetResp(Temperature) with Celsius above Limit"


class SameQueuePair(Rule):
    """A REQ offers a queue pair number that the management interface uses.

    ## Why it matters
    Queue pairs 0 and 1 are never those of a connection.

    ## What to do
    Look at how the driver numbers its queue pairs.
    """

    code, name, severity = "ACME012", "management-qp-offered", ERROR
    reference = "IBA 10.2.4"
    message = "the REQ offers queue pair {qp}"
    example = "a REQ with Local QPN 1"

    @on_struct(REQ)
    def look(self, req: Any, seen: Seen) -> Iterator[Hit]:
        """Every REQ comes as a view: its fields are numbers."""
        if req.local_qpn <= 1:
            yield self.hit(seen, req, REQ.local_qpn, qp=req.local_qpn)


class ShortRetry(Rule):
    """A connection gives up at the first lost packet.

    ## Why it matters
    Links of this fabric lose packets while they train.

    ## What to do
    Ask for more retries.
    """

    code, name, severity = "ACME013", "no-retries", WARNING
    reference = "IBA 12.6.5"
    message = "{connection}: {count} retries"
    example = "a REP to a REQ with Retry Count 0"

    @on_event(Replied)
    def answered(self, event: Any, context: Any) -> Iterator[Hit]:
        """`decode.cm_connections` has put REQ and REP together; the connection is the key, so it is one finding."""
        connection = event.connection
        if connection.retry_count == 0:
            arguments = {"connection": connection.text, "count": connection.retry_count}
            yield fault(event, arguments, key=connection.text)


class ReservedQueuePair(Rule):
    """A packet goes to queue pair 0xACE, which ACME keeps for its own heartbeat.

    ## Why it matters
    Whoever else uses it gets the heartbeats.

    ## What to do
    Choose another queue pair.
    """

    code, name, severity = "ACME014", "reserved-qp", WARNING
    reference = "ACME PRM 2"
    message = "queue pair 0xace"
    example = "any packet to that queue pair"

    @on_chunk
    def look(self, table: ChunkTable, context: Any) -> Iterator[Hit]:
        """A whole chunk at once: one comparison of an array, however many packets it has."""
        found = table.occurrences(BTH)
        for i in (table.values(BTH.destqp) == 0xACE).nonzero()[0].tolist():
            yield self.hit(Seen(table, int(found.rows[i])), table.view(BTH, i), BTH.destqp)
