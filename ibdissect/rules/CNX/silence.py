"""Requests that were given up because nobody acknowledged them, and why nobody did."""

from __future__ import annotations

import sys

from ibdissect.diagnosis.connection import Connection
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.lint.rule import ERROR, Hit
from ibdissect.rules.shared.not_seen import QuotingRule, SameOwnersRule
from ibdissect.rules.shared.story_rule import StoryRule


class NeverAcknowledged(StoryRule, QuotingRule):
    """A request was never acknowledged, and the connection was given up.

    The application sees "transport retry counter exceeded", and the connection is dead. If the responder sends to others meanwhile, only
    this queue pair is gone: its process died, or it never reached a state in which it receives. Otherwise its host or the network is dead.

    See whether the process and the host at the other end still run, then whether the network carries packets to it.

    All tries, and no acknowledgement of them. An `info` if the capture shows nothing that goes to the requester, as RNR NAKs look the same
    then. An `info` if there are more tries than any retry count allows, which only RNR NAKs explain, and no answer to this queue pair is
    captured, an RNR NAK was the last one, or the responder sends nothing afterwards. An `info` if no answer to it is captured, and answers
    may take another path: the tries are fewer than the requester has (one and its retry count; eight if that is not known), or answers to
    others come without their requests. An `info` if the capture misses packets meanwhile, and below four tries: a copy from a second
    mirror, or a host that restarted, looks the same. An `info` if the REQ names an alternate path: the connection may go on there.
    """

    code, name, severity = "CNX004", "never-acknowledged", ERROR
    reference = "IBA 9.7.6.1.3, 9.9.2.1"
    cause = "retries-exhausted"
    example = "a SEND that is sent eight times, and packets of the responder to another queue pair"


class LargePacketsVanish(StoryRule):
    """Large packets of a connection vanish, smaller ones arrive.

    A switch or interface on the path has a smaller MTU than the queue pairs use, and drops what does not fit without a word. Small
    messages work, so that the connection seems to be alive until the first large one.

    Set the MTU of every switch port and interface on the path to what the queue pairs use and about 100 bytes more, or choose a smaller
    path MTU.

    A request that was given up, and larger than any that was acknowledged between the two hosts. Smaller ones passed while it was tried or
    soon after that, or just before all eight tries, and none was given up at that time: then the path was out. An `info` below four tries,
    unless several queue pairs show it: it may have been loss.
    """

    code, name, severity = "CNX005", "large-packets-vanish", ERROR
    reference = "IBA 9.7.6.1.3; RoCE Annex A17"
    cause = "path-mtu"
    example = "a SEND of 64 bytes that is acknowledged, and a WRITE First of 4096 bytes that is sent eight times"


class AckStuck(StoryRule):
    """A responder acknowledges the same packet again and again, and never what was sent after it.

    It answers, so that host and network live, but its queue pair makes no progress: the requester repeats until it gives up.

    Report it to the maker of the responder, and restart its queue pair.

    A request that was given up, and acknowledgements with an unchanged PSN and MSN since its first try.
    """

    code, name, severity = "CNX006", "acknowledgement-stuck", ERROR
    reference = "IBA 9.7.5.1.2, 9.7.6.1.3"
    cause = "ack-stuck"
    example = "a SEND that is sent eight times, and each time an ACK of the packet before"


class VersionsMixed(StoryRule):
    """The two sides of a connection speak different versions of RoCE.

    Each host chooses the version with the GID of its queue pair. Answers in the other version reach no queue pair: the requester repeats,
    and gives up.

    Choose GIDs of the same version on both sides (gid_index), and the same default of rdma_cm.

    Requests in one version only, answers in the other only.
    """

    code, name, severity = "CNX007", "roce-versions-mixed", ERROR
    reference = "RoCE Annexes A16, A17"
    cause = "roce-version-mix"
    example = "SENDs in RoCE v2, and their ACKs in RoCE v1"


class RequesterInOtherPartition(StoryRule, SameOwnersRule):
    """A requester uses another partition than the connection agreed on.

    The responder drops packets with a P_Key that is not that of its queue pair, and says nothing. The requester repeats, and gives up.

    Use the partition on both sides that the REQ names; compare the P_Key tables, and their order.

    The REQ, packets with another P_Key, and no acknowledgement. An `info` where a LID of the two was given to another port meanwhile.
    """

    code, name, severity = "CNX008", "other-partition-than-agreed", ERROR
    reference = "IBA 9.6.1.1.4, 10.9.3, 12.7.24"
    explains = ("PKY005", "ROC012")
    cause = "wrong-partition"
    example = "a REQ with P_Key 0xffff, and SENDs with P_Key 0x8001 that nobody acknowledges"

    def told(self, one: Connection, stories: Stories) -> Hit:
        """It explains what is said of the partition of all packets of the connection: those rules name its first one, or its REQ."""
        hit = super().told(one, stories)
        hit.mads, hit.covers = [frame for frame in (one.first_frame, one.evidence[0]) if frame], sys.maxsize
        return hit
