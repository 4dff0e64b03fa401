"""Requests that the responder refused, so that the connection ended."""

from __future__ import annotations

from ibdissect.diagnosis.connection import Connection
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.lint.finding import Secret
from ibdissect.lint.rule import ERROR, WARNING, Hit
from ibdissect.rules.shared.story_rule import StoryRule
from ibdissect.wire.headers import RETH


class ReceiveBuffersMissing(StoryRule):
    """A connection ended because the responder had no receive buffer.

    It answered each try with an RNR NAK, more often than the requester's RNR retry count allows: the requester gave up. With a count of 0
    the first RNR NAK ends the connection.

    Post receive buffers earlier and more of them, or set the RNR retry count to 7, which means without end.

    The RNR NAKs of one request, and that the requester gave up: they are more than its count or, if the capture does not show that, a DREQ
    of the requester or its silence after at most seven, as more come only to a requester without limit. That is an `info`: it may send
    again over another path, or was stopped.
    """

    code, name, severity = "CNX009", "rnr-retries-used-up", ERROR
    reference = "IBA 9.7.5.2.8, 9.9.2.1, 12.7.40"
    cause = "rnr-exhausted"
    example = "a REP with RNR Retry Count 0, a SEND, an RNR NAK and a DREQ"


class TimerIgnored(StoryRule):
    """A requester repeats sooner than the RNR NAK asks it to wait.

    The responder names a time in which it will have a buffer. A requester that does not wait uses up its tries at once, and loads the
    network.

    Report it to the maker of the requester's adapter.

    Two repetitions, or all there are, in less than half of the time that the RNR NAKs before them name.
    """

    code, name, severity = "CNX010", "rnr-timer-ignored", WARNING
    reference = "IBA 9.7.5.2.8, Table 45"
    cause = "rnr-timer-ignored"
    example = "RNR NAKs that ask for 10 ms, and repetitions after 20 us"


class AccessRefused(StoryRule):
    """A responder refused access to its memory, and the connection ended.

    NAK remote access error: the R_Key is not valid, the range is not that of the memory region, or its rights do not allow the operation.

    Compare address, length, R_Key and access rights of the request with the memory that was registered.

    The NAK.
    """

    code, name, severity = "CNX011", "remote-access-error", ERROR
    reference = "IBA 9.7.5.2.4, 9.9.3"
    explains = ("RC004",)
    cause = "remote-access-error"
    example = "an RDMA WRITE, and a NAK with syndrome 0x62"

    def told(self, one: Connection, stories: Stories) -> Hit:
        hit, key = super().told(one, stories), stories.r_key(one)
        if key is None or stories.key_name is not None:
            return hit
        hit.arguments["r_key"] = Secret(RETH.r_key.secret, key, RETH.r_key.bits)
        hit.message = f"{self.message}; the R_Key of that request is {{r_key}}"
        return hit


class OperationFailed(StoryRule):
    """A responder could not carry out a request, and the connection ended.

    NAK remote operational error: something failed inside the responder, so that it could not complete the request.

    Look into the log of the responder's driver and application.

    The NAK.
    """

    code, name, severity = "CNX012", "remote-operational-error", ERROR
    reference = "IBA 9.7.5.2.5, 9.9.3"
    explains = ("RC004",)
    cause = "remote-operational-error"
    example = "a SEND, and a NAK with syndrome 0x63"


class RequestInvalid(StoryRule):
    """A responder refused a request as invalid, and the connection ended.

    NAK invalid request: an operation that the queue pair does not support, more READs or atomics than it allows, or a message that is
    longer than its buffer.

    Keep the requester's max_rd_atomic at or below the responder's max_dest_rd_atomic; compare the length of messages with the posted
    buffers.

    The NAK. Where the packet is longer than the agreed MTU, see CNX014.
    """

    code, name, severity = "CNX013", "remote-invalid-request", ERROR
    reference = "IBA 9.7.5.2.3, 9.9.3"
    explains = ("RC004",)
    cause = "remote-invalid-request"
    example = "a SEND, and a NAK with syndrome 0x61"


class LongerThanMtu(StoryRule):
    """A packet is longer than the path MTU of the other side, which refused it.

    Both ends of a connection must use the same path MTU. The responder answers a longer packet with NAK invalid request, and the connection
    ends.

    Use the path MTU that both sides agreed on when they connected, or the smaller one of both ports.

    The request, its NAK, and the MTU: from the REQ, or from the packets of the other side.
    """

    code, name, severity = "CNX014", "packet-longer-than-mtu", ERROR
    reference = "IBA 9.7.4.1.5, 9.7.5.2.3, 12.7.20"
    explains = ("RC004",)
    cause = "mtu-mismatch"
    example = "packets of 1024 bytes in one direction, and a WRITE First of 4096 bytes in the other that is refused"
