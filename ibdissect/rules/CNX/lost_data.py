"""Data of connections that was lost or sent wrongly, and by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ibdissect.diagnosis.connection import Connection
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, Context, Hit, on_end
from ibdissect.rules.shared.not_seen import QuotingRule
from ibdissect.rules.shared.story_rule import StoryRule
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.text import counted

TOLD = 5
"""Sentences about connections that the finding about their host holds."""


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


class ReadLengthWrong(StoryRule, QuotingRule):
    """A READ was answered with another length than it asked for.

    The requester reports a length error, and the connection ends; or the application takes memory for data that was never written.

    Report it to the maker of the responder: a READ is answered in full.

    The READ, and all of its responses up to the last. An `info` where the capture misses packets meanwhile.
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

    Three packets of one host and nine of ten, all complete in the capture; ten packets where nothing tells how the ICRC differs, since a
    faulty cable or switch may damage a few. Where the ICRC is zero, see ROC005. An `info` where it is constant or wrong in no known way,
    most is acknowledged, and nothing is sent again or none is right: the packets were right when they arrived, as where a host captures its
    own packets before the adapter writes the ICRC, or where addresses were replaced in the file.
    """

    code, name, severity = "CNX017", "icrc-wrong-at-sender", ERROR
    reference = "IBA 7.8.1; RoCE Annexes A16, A17 (ICRC)"
    needs_crc = True
    cause = "icrc-wrong-at-sender"
    quotes = False
    example = "packets of one host, all with the bytes of their ICRC reversed"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        """One finding a host: what it writes, and what became of each connection that it is an end of."""
        stories = context.get(Stories)
        hosts: dict[str, list[Connection]] = {}
        for one in stories.of_cause(self.cause):
            hosts.setdefault(one.ends[one.blamed or 0].address, []).append(one)
        for some in hosts.values():
            hit = self.told(min(some, key=lambda one: -Severity(one.severity).rank), stories)
            hit.arguments["why"] = _together([one.why for one in some])
            yield hit


def _together(sentences: Sequence[str]) -> str:
    """`X writes ...: A takes them (2 connections); B repeats`: sentences about one host, with what they differ in behind the colon."""
    said, _, _ = sentences[0].partition(": ")
    if len(sentences) == 1 or not all(one.startswith(f"{said}: ") for one in sentences):
        return sentences[0]
    became = Counter(one.removeprefix(f"{said}: ") for one in sentences).most_common()
    told = [f"{what} ({counted(number, 'connection')})" for what, number in became[:TOLD]]
    if more := sum(number for _, number in became[TOLD:]):
        told.append(f"{counted(more, 'more connection')}, see ibdissect diagnose")
    return f"{said}: " + "; ".join(told)


class ReadOrderWrong(StoryRule, QuotingRule):
    """The parts of an answer to a READ come in the wrong order.

    The requester drops it and asks again, or ends the connection; one that takes it has a part of the data in the wrong place.

    Report it to the maker of the responder: the first packet of an answer is a First or an Only, and no other one is.

    A READ that follows the request before it, so that it is no repetition, and a Middle or Last with its PSN; or all responses up to a
    First or Only that has a later PSN. Silent where another READ may have asked for the rest; an `info` where the capture misses packets
    meanwhile, or shows answers in front of what they answer: the clock of one direction is behind.
    """

    code, name, severity = "CNX018", "read-order-wrong", ERROR
    reference = "IBA 9.7.5.1.9, 9.4.4"
    cause = "read-order-wrong"
    example = "a READ of 3000 bytes, answered with RDMA READ Response Middle, First and Last"

    def outdated(self, hit: Hit, context: Context, shown: int) -> bool:
        return super().outdated(hit, context, shown) or context.get(CaptureLoss).disorderly()
