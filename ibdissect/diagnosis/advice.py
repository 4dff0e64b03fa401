"""What should somebody do about a connection that failed or was slow, and on which host?"""

from __future__ import annotations

from .causes import TIMEOUT_REASON, Found
from .connection import Connection, End

ADVICE = {
    "refused": "Look into the log of the service on {blamed}.",
    "duplicate-qp-after-restart": "On {asker}: choose other queue pairs after a restart, or ask again when {other} has timed out.",
    "connect-unanswered": "See whether the service listens on {other}, and whether UDP port 4791 or QP1 is filtered on the way.",
    "retries-exhausted": "See whether {answers} is up (console, link), then its process, then whether the network carries packets to it.",
    "path-mtu": "Compare the MTU of all ports between {asks} and {answers} (adapters and switches), or choose a smaller path MTU.",
    "mtu-mismatch": "On {asks}: send no more than the path MTU that both agreed on when they connected.",
    "remote-access-error": "Compare address, length, R_Key and rights of that request with the memory that {answers} registered.",
    "remote-operational-error": "Look into the log of the application and adapter on {answers}: it failed inside.",
    "remote-invalid-request": "On {asks}: keep max_rd_atomic at or below max_dest_rd_atomic of {answers}.",
    "rnr-exhausted": "On {answers}: post receive buffers earlier, or more of them; or set the RNR retry count to 7 (no limit).",
    "rnr-timer-ignored": "Report it to the maker of the adapter of {asks}: it must wait as long as the RNR NAK says. "
    "On {answers}: post more receive buffers.",
    "psn-reused": "Report it to the maker of the adapter or software of {asks}: PSNs must rise with each packet.",
    "read-length-wrong": "Report it to the maker of the adapter or software of {answers}: a READ must be answered with what it asked for.",
    "read-order-wrong": "Report it to the maker of the adapter or software of {answers}: the parts of an answer come in order.",
    "icrc-wrong-at-sender": "Mend the ICRC in the adapter or software of {blamed}. If the capture was made there, see first elsewhere "
    "that the packets are wrong on the wire, too.",
    "roce-version-mix": "Choose GIDs of the same RoCE version on {asks} and {answers} (gid_index, and the default of rdma_cm).",
    "wrong-partition": "On {asks}: send with the partition that was agreed on (P_Key index); see the P_Key tables of both.",
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
PATH = "Compare the path that {asker} names (GIDs, LIDs, service level, hop limit, rate, flow label) with what {other} has."
REDIRECTED = "Nothing, if {asker} follows: the REJ names another port to ask."
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
    **dict.fromkeys((*range(12, 24), 32, 33), PATH),
}  # fmt: skip
"""What to do about a REJ, by its reason."""
SHARED = {
    "retries-exhausted": "See whether {host} is up (console, link, switch port), then whether the network carries packets to it.",
    "path-mtu": "Compare the MTU of the port of {host} and of all ports between it and the others; or choose a smaller path MTU.",
    "slow-by-loss": "Look at the link of {host}, which all of them share: cable, error counters of both its ports, buffers, PFC, ECN.",
    "slow-by-reordering": "Turn off adaptive routing or packet spraying for {host}, or use adapters that accept packets out of order.",
    "connect-unanswered": "See whether {host} is up, whether its services listen, and whether UDP port 4791 or QP1 is filtered there.",
    "refused": "Look into the log of the services on {host}.",
}
"""What to do where several connections of a host have a cause in common."""


def advice(found: Found, ends: tuple[End, End], side: int) -> str:
    """What to do, and who; empty for nothing. `side`: the end that sends the requests."""
    blamed = found.blamed if found.blamed is not None else 1 - side
    hosts = {"asks": ends[side], "answers": ends[1 - side], "asker": ends[0], "other": ends[1], "blamed": ends[blamed]}
    return _template(found).format(**{name: end.address for name, end in hosts.items()})


def _template(found: Found) -> str:
    if found.cause == "remote-invalid-request" and not found.facts.get("reads"):
        return "Compare the request with what the queue pair of {answers} allows: operation, length, size of the receive buffer."
    if found.cause == "connect-unanswered" and found.facts.get("asked_for_time"):
        return "Look at the service on {other}: the REQ arrived, but the service did not decide in time."
    if found.cause == "retries-exhausted" and found.detail.get("scope") == "qp":
        return "On {answers}: see whether the process that holds the queue pair still runs, and whether that is in an error state."
    reason = found.detail.get("reason")
    if found.cause == "refused" and isinstance(reason, int):
        return REFUSALS.get(reason, ADVICE["refused"])
    return ADVICE.get(found.cause, "")


def shared_advice(cause: str, host: str, some: list[Connection]) -> str:
    """What to do about a cause that several connections of a host have in common: what all of them need, or the host's own."""
    if cause in SHARED:
        return SHARED[cause].format(host=host)
    each = list(dict.fromkeys(one.advice for one in some if one.advice))
    return each[0] if len(each) == 1 else ""
