"""Which answers come from another LID than was asked?"""

from __future__ import annotations

from ibdissect.lint.rule import ERROR
from ibdissect.rules.shared.elsewhere import Elsewhere


class AnswerFromOtherLid(Elsewhere):
    """The answer to a subnet management request by LID comes from another port than was asked.

    A responder swaps the LIDs of the request. The requester's stack does not take an answer from elsewhere for its own and
    waits until its timer runs out.

    Correct the responder; look whether two ports share a LID.

    A request, and an answer with its transaction id from another LID. LIDs of one block of 128 may be those of one port: they are
    told apart only where the port that was asked told its LID and LMC itself and kept them, as its Sets or a later answer show.
    """

    code, name, severity = "SMP016", "getresp-lid-swap", ERROR
    reference = "IBA 13.5.4; seed001"
    message = "{what} went to {to}, the answer comes from {sender}"
    example = "SubnGet(NodeInfo) to LID 2, answered by LID 900 with the same transaction id"
    subnet_management = True
