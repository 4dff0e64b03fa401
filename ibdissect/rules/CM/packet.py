"""Which messages of connection management are wrong by themselves?"""

from __future__ import annotations

from ibdissect.lint.rule import ERROR, INFO, WARNING, Rule
from ibdissect.wire.cm import REJ, REQ
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import SEND

REASONS = frozenset({*range(1, 34), 35})
"""Reject reasons of kernel ib_cm.h."""


class QPNZero(Rule):
    """A connection request names queue pair 0.

    QP0 belongs to subnet management; no connection can end there. Only with XRC (an extended transport type) may the number be
    omitted.

    Correct the requester: it sends the request before it has created its queue pair.
    """

    code, name, severity = "CM001", "req-qpn-zero", ERROR
    reference = "IBA 12.6.5, 3.9; python-rdma CMREQ"
    when = (REQ.local_qpn == 0) & (REQ.extended_transport_type == 0) & (MAD.method == SEND)
    message = "REQ with local QPN 0"
    example = "a REQ with Local QPN 0 and Extended Transport Type 0"


class RejectReason(Rule):
    """A rejection has a reason that is not defined.

    The requester cannot tell whether to retry, to use another path or to give up. Reasons are 1 to 33 and 35.

    Correct the rejecting side; an application's own reason belongs in the private data, with reason 28.
    """

    code, name, severity = "CM002", "rej-reason-unknown", WARNING
    reference = "IBA 12.6.7.2; kernel ib_cm.h"
    when = ~REJ.reason.isin(REASONS) & (MAD.method == SEND)
    message = "REJ with reason {reason}"
    example = "a REJ with reason 99"


class AckTimeoutInfinite(Rule):
    """A connection request has no ACK timeout.

    A Local ACK Timeout of 0 means to wait forever: a lost packet at the end of a message is never sent again, and the connection
    hangs instead of failing.

    Set a timeout (14 is about 67 ms), unless the application monitors its connections itself.
    """

    code, name, severity = "CM015", "cm-localack-timeout", INFO
    reference = "IBA 12.7.34, 9.7.6.1.3; python-rdma"
    when = (REQ.primary_local_ack_timeout == 0) & (REQ.transport_service_type == 0) & (MAD.method == SEND)
    message = "REQ with primary Local ACK Timeout 0 (infinite)"
    example = "a REQ for RC with Primary Local ACK Timeout 0"
