"""Advice about a connection that failed or was slow: what to do, and on which host."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.text import lid_of

from .cause_found import CauseFound
from .connection import INFO, ODD, Connection, ConnectionEnd
from .rejections import LID_REASONS
from .set_up_causes import REDIRECTIONS, TIMEOUT_REASON

ADVICE = {
    "refused": "Look into the log of the service on {blamed}.",
    "duplicate-qp-after-restart": "On {asker}: choose other queue pairs after a restart, or ask again when {other} has timed out.",
    "connect-unanswered": "See whether the service listens on {other}, and whether {filtered} on the way.",
    "retries-exhausted": "See whether {answers} is up (console, link), then its process, then whether the network carries packets to it.",
    "path-mtu": "Compare the MTU of all ports between {asks} and {answers} (adapters and switches), or choose a smaller path MTU.",
    "mtu-mismatch": "On {asks}: send no more than the path MTU that both agreed on when they connected.",
    "remote-access-error": "Compare address, length, R_Key and rights of {request} with the memory that {answers} registered.",
    "remote-operational-error": "Look into the log of the application and adapter on {answers}: it failed inside.",
    "remote-invalid-request": "On {asks}: keep max_rd_atomic at or below max_dest_rd_atomic of {answers}.",
    "rnr-exhausted": "On {answers}: post receive buffers earlier, or more of them; or let it announce an RNR retry count of 7 (no limit) "
    "when it connects.",
    "rnr-timer-ignored": "Report it to the maker of the adapter of {asks}: it must wait as long as the RNR NAK says. "
    "On {answers}: post more receive buffers.",
    "psn-reused": "Report it to the maker of the adapter or software of {asks}: PSNs must rise with each packet.",
    "read-length-wrong": "Report it to the maker of the adapter or software of {answers}: a READ must be answered with what it asked for.",
    "read-order-wrong": "Report it to the maker of the adapter or software of {answers}: the parts of an answer come in order.",
    "icrc-wrong-at-sender": "Correct the ICRC in the adapter or software of {blamed}. If the capture was made there, first see in a "
    "capture made elsewhere that the packets are wrong on the wire, too.",
    "roce-version-mix": "Choose GIDs of the same RoCE version on {asks} and {answers} (gid_index, and the default of rdma_cm).",
    "wrong-partition": "On {asks}: send with the partition that was agreed on (P_Key index); see the P_Key tables of both{moved}.",
    "ack-stuck": "Set up the connection anew; report it to the maker of the adapter or software of {answers}.",
    "slow-by-loss": "Look for the link between {asks} and {answers} that loses packets: error counters, buffers, PFC and ECN settings.",
    "slow-by-reordering": "Turn off adaptive routing or packet spraying between {asks} and {answers}, or use adapters that accept packets "
    "out of order.",
    "slow-by-timeout": "Find where the last packets of messages of {asks}, or their acknowledgements, are lost; "
    "a smaller local ACK timeout on {asks} makes it less slow.",
    "slow-by-rnr": "On {answers}: post more receive buffers, or post them earlier.",
    "slow-by-congestion": "Look for what shares the congested port on the way to {answers}, and at the ECN thresholds there.",
}
"""What to do about each cause. `asks` sends the requests, `answers` answers them; `asker` sent the REQ, `other` received it."""

NO_ROOM = "On {blamed}: see what it has run out of: queue pairs, memory that may be locked (ulimit -l), entries of tables."
PATH = "Compare the {part} that {asker} names in its REQ with what {other} has and can use."
PARTS = {
    12: "remote GID", 13: "remote LID", 14: "service level", 15: "traffic class", 16: "hop limit", 17: "packet rate",
    18: "alternate remote GID", 19: "alternate remote LID", 20: "alternate service level", 21: "alternate traffic class",
    22: "alternate hop limit", 23: "alternate packet rate", 32: "flow label", 33: "alternate flow label",
}  # fmt: skip
"""What a REJ objects to, by its reason."""
REDIRECTED = "Nothing, if {asker} follows: the REJ names another port to ask."
BACK = "On {blamed}: correct the port that the service redirects to: it is the one that was asked."
LISTENED = "On {blamed}: see why its service did not listen at that time, a restart perhaps: it accepted others."
OWN_LID = "{blamed} rejects the LID that it names itself: look at its LID and LMC, and at its log."
OWN_GID = "{blamed} rejects its own GID: look at its GID table, and at what its service is bound to."
REFUSALS = {
    1: NO_ROOM, 2: NO_ROOM, 3: NO_ROOM,
    TIMEOUT_REASON: "See whether messages of connection management are lost between {asker} and {other}, or answered too late.",
    5: "On {asker}: ask with a transport service, path and options that {other} offers.",
    8: "On {blamed}: start the service; or correct the address or port that {asker} asks for.",
    9: "On {asker}: ask with a transport service that the service offers (RC, UC, XRC).",
    10: "{blamed} still holds a connection of that queue pair: wait until it has timed out, or ask with another queue pair.",
    24: REDIRECTED,
    25: REDIRECTED,
    26: "On {asker}: ask with a path MTU that both ports can take.",
    27: "On {asker}: ask for fewer READs and atomics at a time (initiator depth, responder resources).",
    28: "Look into the log of the application on {blamed}: it refused, not the transport.",
    29: "On {asker}: ask with an RNR retry count that {other} accepts.",
    30: "On {asker}: ask with a communication ID that is not in use; after a restart, wait until the old connection has timed out.",
    **{reason: PATH.replace("{part}", part) for reason, part in PARTS.items()},
}  # fmt: skip
"""What to do about a REJ, by its reason."""
NVME = {
    1: "On {asker}: send private data as NVMe over RDMA wants them (32 bytes, record format 0).",
    2: "On {asker}: send private data of record format 0.",
    3: "On {asker}: ask with a queue id that the controller gave (0: admin queue).",
    4: "On {asker}: ask for a send queue size that {blamed} offers.",
    5: "On {asker}: ask for a receive queue size that {blamed} offers.",
    6: "On {blamed}: see what its NVMe target has run out of: queues, controllers, memory.",
    7: "On {asker}: ask with fewer READs at a time (IRD) that {blamed} accepts.",
    8: "On {asker}: ask with fewer READs at a time (ORD) that {blamed} accepts.",
    9: "On {asker}: ask with the id of a controller that {blamed} has.",
}  # fmt: skip
"""What to do about a REJ of an NVMe target, by its status."""
UP = ("answers other REQs", "the REQ arrived")
"""What advice says where a host is up."""
ONE_WAY = " What {answers} sends is not captured: a capture of both directions shows more."
SHARED = {
    "retries-exhausted": "See whether {host} is up (console, link, switch port), then whether the network carries packets to it.",
    "path-mtu": "Compare the MTU of the port of {host} and of all ports between it and the others; or choose a smaller path MTU.",
    "slow-by-loss": "Look at the link of {host}, which all of them share: cable, error counters of both its ports, buffers, PFC, ECN.",
    "slow-by-reordering": "Turn off adaptive routing or packet spraying for {host}, or use adapters that accept packets out of order.",
    "connect-unanswered": "See whether {host} is up, whether its services listen, and whether {filtered} there.",
    "refused": "Look into the log of the services on {host}.",
    "icrc-wrong-at-sender": "Correct the ICRC in the adapter or software of {host}. If the capture was made there, first see in a capture "
    "made elsewhere that the packets are wrong on the wire, too.",
}
"""What to do where several connections of a host have a cause in common."""


def advice(found: CauseFound, ends: tuple[ConnectionEnd, ConnectionEnd], side: int) -> str:
    """What to do, and who; empty for nothing. `side`: the end that sends the requests."""
    blamed = found.blamed if found.blamed is not None else 1 - side
    hosts = {"asks": ends[side], "answers": ends[1 - side], "asker": ends[0], "other": ends[1], "blamed": ends[blamed]}
    unseen = found.decisive is not None and found.first in (None, found.decisive)
    request = f"that request (not captured: see the log of {ends[side].address})" if unseen else "that request"
    names = {name: end.address for name, end in hosts.items()}
    moved = ", whose entries the subnet manager may have moved" if ends[0].lid is not None else ""
    return _template(found).format(request=request, filtered=filtered(ends[0].address), moved=moved, **names)


def filtered(address: str) -> str:
    """What may keep requests from a host: InfiniBand has no UDP ports."""
    return "datagrams to QP1 are dropped" if lid_of(address) is not None else "UDP port 4791 or QP1 is filtered"


def _template(found: CauseFound) -> str:
    facts, detail = found.facts, found.detail
    if found.cause == "remote-invalid-request" and not facts.get("reads"):
        return "Compare {request} with what the queue pair of {answers} allows: operation, length, size of the receive buffer."
    if found.cause == "connect-unanswered":
        return _unanswered(facts)
    if found.cause == "retries-exhausted":
        return _retries(found)
    if found.cause == "icrc-wrong-at-sender" and found.severity == INFO:
        return "Nothing, if the capture was made on {blamed} or its addresses were replaced. Else see in a capture made elsewhere."
    if found.cause == "icrc-wrong-at-sender" and found.verdict == ODD and found.half is not None and found.half.answers:
        return ADVICE[found.cause] + " The other end accepts them, which it must not: report that to the maker of its adapter or software."
    reason, status = detail.get("reason"), detail.get("nvme_status")
    if found.cause == "refused" and isinstance(status, int) and status in NVME:
        return NVME[status]
    if found.cause == "refused" and facts.get("accepted"):
        return LISTENED
    if found.cause == "refused" and isinstance(reason, int):
        back = BACK if reason in REDIRECTIONS else OWN_LID if reason in LID_REASONS else OWN_GID
        return back if facts.get("back") else REFUSALS.get(reason, ADVICE["refused"])
    return ADVICE.get(found.cause, "")


def _unanswered(facts: dict[str, Any]) -> str:
    if facts.get("asked_for_time"):
        return "Look at the service on {other}: the REQ arrived, but the service did not decide in time."
    if facts.get("same_service"):
        return (
            "On {other}: see whether the service has room for more connections (its backlog) and takes them; it answers other REQs. "
            "If it does, REQs or answers between {asker} and {other} are lost."
        )
    if "answers" in facts:
        return "See whether the service listens on {other}: that host answers other REQs."
    return ADVICE["connect-unanswered"]


def _retries(found: CauseFound) -> str:
    scope, facts = found.detail.get("scope"), found.facts
    if scope is None:
        up = "See whether {answers} is up, then whether the network carries packets to it." if "served" not in facts else (
            "On {answers}: see whether the process that holds the queue pair still runs; that host is up."
        )  # fmt: skip
        return up + ONE_WAY
    if scope == "qp":
        process = "On {answers}: see whether the process that holds the queue pair still runs, and whether that is in an error state."
        return process if facts.get("others_pass") else process + " If it is well: find where packets from {asks} to {answers} are lost."
    return ADVICE[found.cause]


def shared_advice(cause: str, host: str, some: list[Connection]) -> str:
    """What to do about a cause that several connections of a host have in common: what all of them need, or the host's own."""
    if cause == "connect-unanswered" and any(word in one.advice for one in some for word in UP):
        return f"On {host}: look at its services and their backlogs; that host is up."
    if cause in SHARED:
        return SHARED[cause].format(host=host, filtered=filtered(host))
    each = list(dict.fromkeys(one.advice for one in some if one.advice))
    return each[0] if len(each) == 1 else ""
