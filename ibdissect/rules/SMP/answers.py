"""Which answers come from another LID than the request went to, and which requests have an M_Key in the wrong byte order?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.fabric.events import WrongMKey
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import ERROR, WARNING, Context, Hit, Rule, fault, on_event
from ibdissect.rules.shared.elsewhere import Elsewhere
from ibdissect.wire.sm import SMP


class AnswerFromOtherLid(Elsewhere):
    """The answer to a LID-routed subnet management request comes from another port.

    A responder swaps the LIDs of the request. The requester does not recognise an answer from elsewhere and waits for its timer.

    Correct the responder; look whether two ports share a LID.
    """

    code, name, severity = "SMP016", "getresp-lid-swap", ERROR
    reference = "IBA 13.5.4"
    message = "{what} went to {to}, the answer comes from {sender}"
    example = "SubnGet(NodeInfo) to LID 2, answered by LID 900 with the same transaction id"
    subnet_management = True


class ReversedMKey(Rule):
    """A request carries its port's M_Key with the bytes reversed.

    Keys are big-endian on the wire. The port drops the request and counts a violation although the sender knows the key; usually a program
    on a little-endian machine does not swap the bytes.

    Swap the bytes in the tool or in its key file.

    The M_Key that the port showed in PortInfo before, and the request.
    """

    code, name, severity = "SMP023", "smp-mkey-bytes-endianness", WARNING
    reference = "IBA 14.2.1.1 (big-endian M_Key); the conclusion is by comparison"
    message = "{presented} to {port} is {held} with the bytes reversed"
    example = "a port with M_Key 0x1122334455667788, and a Set with 0x8877665544332211"

    @on_event(WrongMKey)
    def request(self, event: WrongMKey, context: Context) -> Iterator[Hit]:
        if event.presented != int.from_bytes(event.held.key.to_bytes(8, "big"), "little"):
            return
        yield fault(
            event,
            {"port": str(event.port), "presented": value_of(SMP.m_key, event.presented), "held": value_of(SMP.m_key, event.held.key)},
            SMP.m_key, value_of(SMP.m_key, event.presented), proof=[(event.taught, "showed the port's M_Key")], start=event.mad,
            key=event.sender,
        )  # fmt: skip
