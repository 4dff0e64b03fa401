"""Which data was lost or sent wrongly, by whom?"""

from __future__ import annotations

from ibdissect.diagnosis.connection import Connection
from ibdissect.lint.rule import ERROR
from ibdissect.rules.shared.story_rule import StoryRule


class NumberReused(StoryRule):
    """A packet sequence number was used for another message than before.

    The responder takes the second one for a repetition, acknowledges it and drops it. The requester believes that it arrived: its data is
    lost without a word.

    Report it to the maker of the requester: PSNs rise with each packet.

    A PSN that was acknowledged, and a packet with it that holds another message.
    """

    code, name, severity = "CNX015", "psn-reused", ERROR
    reference = "IBA 9.7.5.1.1, 9.7.2"
    cause = "psn-reused"
    example = "a SEND that is acknowledged, and a SEND of other data with its PSN"


class ReadLengthWrong(StoryRule):
    """A READ was answered with another length than it asked for.

    The requester reports a length error, and the connection ends; or the application takes memory for data that was never written.

    Report it to the maker of the responder: a READ is answered in full.

    The READ, and all of its responses up to the last.
    """

    code, name, severity = "CNX016", "read-length-wrong", ERROR
    reference = "IBA 9.7.5.1.9, 9.9.2.2"
    cause = "read-length-wrong"
    example = "a READ of 1000 bytes, and an RDMA READ Response Only of 500 bytes"


class SenderComputesIcrc(StoryRule):
    """A host computes or writes the ICRC of its packets wrongly.

    Receivers drop such packets without a word; a peer that does not check them works, until it is replaced by one that does. Nothing was
    damaged on the way: nearly all packets of the host are wrong.

    Correct the ICRC in that host's adapter or code. The sentence says how it differs: bytes in the wrong order, a constant, the VLAN
    tag in the sum.

    Three packets of one host and nine of ten, all complete in the capture. Where the ICRC is zero, see ROC005.
    """

    code, name, severity = "CNX017", "icrc-wrong-at-sender", ERROR
    reference = "IBA 7.8.1; RoCE Annexes A16, A17 (ICRC)"
    needs_crc = True
    cause = "icrc-wrong-at-sender"
    quotes = False
    example = "packets of one host, all with the bytes of their ICRC reversed"

    def flow_of(self, one: Connection) -> object:
        return one.ends[one.blamed or 0].address


class ReadOrderWrong(StoryRule):
    """The parts of an answer to a READ come in the wrong order.

    The requester drops it and asks again, or ends the connection; one that takes it has a part of the data in the wrong place.

    Report it to the maker of the responder: the first packet of an answer is a First or an Only, and no other one is.

    A READ that follows the request before it, so that it is no repetition, and a Middle or Last with its PSN; or all responses up to a
    First or Only that has a later PSN. Silent where another READ may have asked for the rest.
    """

    code, name, severity = "CNX018", "read-order-wrong", ERROR
    reference = "IBA 9.7.5.1.9, 9.4.4"
    cause = "read-order-wrong"
    example = "a READ of 3000 bytes, answered with RDMA READ Response Middle, First and Last"
