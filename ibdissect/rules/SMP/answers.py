"""Which answers come from another LID than the request went to?"""

from __future__ import annotations

from ibdissect.lint.rule import ERROR
from ibdissect.rules.shared.elsewhere import Elsewhere


class AnswerFromOtherLid(Elsewhere):
    """The answer to a LID-routed subnet management request comes from another port.

    A responder swaps the LIDs of the request. The requester's stack does not recognise an answer from elsewhere and waits until its
    timer expires.

    Correct the responder; look whether two ports share a LID.

    A request, and an answer with its transaction id from another LID. LIDs within one block of 128 may belong to one port: they are
    told apart only where the port that was asked answered its LID and LMC itself, and Sets or a later answer show that it kept
    them.
    """

    code, name, severity = "SMP016", "getresp-lid-swap", ERROR
    reference = "IBA 13.5.4"
    message = "{what} went to {to}, the answer comes from {sender}"
    example = "SubnGet(NodeInfo) to LID 2, answered by LID 900 with the same transaction id"
    subnet_management = True
