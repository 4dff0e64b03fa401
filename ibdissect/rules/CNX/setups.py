"""Connections that were never set up, and why."""

from __future__ import annotations

from ibdissect.diagnosis.connection import Connection
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO
from ibdissect.rules.shared.story_rule import RefusedRule, StoryRule
from ibdissect.wire.cm_names import REJ_INVALID_SERVICE_ID

OF_ASKER = (4, 6, 28)
"""REJ reasons with which the kernel of an asker that was stopped answers the REP: timeout, unknown communication id, its own decision."""


class Refused(RefusedRule):
    """A connection was refused.

    The other side answered the REQ, or the REP, with a REJ: there will be no connection. Applications mostly say less than the REJ does.

    See what the reason means: 1 to 6 and 35, the other host lacks queue pairs, memory or other resources, or has forgotten the connection;
    12 to 25, addresses, LIDs, GIDs, MTU or partition of the path are not those of the other host (a wrong GID index); 28, the application
    refused, and its private data says why.

    The REQ and its REJ. An `info` for a redirection (24, 25), for an NVMe target that refuses and says why (28 with a status), if the asker
    connects to that service later (or to one that the capture does not show, or that may be beyond those that are remembered, CAP016, or to
    any if the capture does not show which was refused), if both hosts asked each other and the other connection was accepted (for the same
    service, or where the refused one is cut off; with reason 28 within ten seconds for any, where both name ports that no known service
    has), or if the asker itself ends it (4, 6, 28): it was stopped. The refusal of a service that nobody listens to is CM012, of a queue
    pair that is still connected CNX003.
    """

    code, name, severity = "CNX001", "connection-refused", ERROR
    reference = "IBA 12.6.7, 12.9.8.3; kernel ib_cm.h"
    example = "a REQ, and a REJ with reason 12"

    def concerns(self, one: Connection) -> bool:
        return super().concerns(one) and one.set_up.reason != REJ_INVALID_SERVICE_ID

    def severity_of(self, one: Connection, stories: Stories) -> Severity | None:
        stopped = one.blamed == 0 and one.set_up.reason in OF_ASKER
        told = one.set_up.nvme_status is not None
        return INFO if told or stopped else super().severity_of(one, stories)


class ConnectRequestUnanswered(StoryRule):
    """A request for a connection (REQ) was never answered.

    It was sent as often as the asker may, and nobody accepted, refused or asked for time; or the other side asked for time (MRA) and then
    said nothing more. The application sees that the address cannot be reached.

    See whether that host answers other REQs: if none, whether packets to queue pair 1 (RoCE: UDP port 4791) are filtered on the way; if
    only those for other services, whether this service runs there; if those for this service, too, whether its backlog is full and whether
    it takes connections.

    All REQs of the connection, and that the capture goes on for longer than an answer may take. Silent if the capture shows nothing that
    goes to the asker, unless it sent Max CM Retries and one more; and where a later message shows that it was accepted, be it an MRA that
    delays the answer to the REP, a DREQ or a DREP. An `info` if the asker takes its only REQ back (REJ, reason 4) before
    an answer is due, or asks once although it may ask again: then it has an answer that came another way, or was stopped.
    """

    code, name, severity = "CNX002", "connection-request-unanswered", ERROR
    reference = "IBA 12.9.8.7, 12.7.27, 12.7.4"
    cause = "connect-unanswered"
    example = "six REQs with the same communication id, and no answer"


class UsedAgain(StoryRule):
    """A host asked for a connection with a queue pair that the other side still holds as connected.

    It started again without taking leave (DREQ), and chose the same queue pair number. The other side refuses (reason 10, stale
    connection) until its own timers have run out.

    Let the host choose other queue pair numbers after a restart, or wait until the other side has given up the old connection.

    The earlier connection of that queue pair, no DREQ, and the REJ with reason 10. An `info` if the host connects to that service later.
    """

    code, name, severity = "CNX003", "queue-pair-used-again", ERROR
    reference = "IBA 12.9.8.3.1, 12.6.7.2"
    cause = "duplicate-qp-after-restart"
    example = "packets of a queue pair, and then a REQ with it that is refused with reason 10"

    def severity_of(self, one: Connection, stories: Stories) -> Severity | None:
        return INFO if stories.connected_later(one) else super().severity_of(one, stories)
