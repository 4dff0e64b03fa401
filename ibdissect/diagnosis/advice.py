"""What should somebody do about a connection that failed or was slow?"""

from __future__ import annotations

from .causes import TIMEOUT_REASON, Found

ADVICE = {
    "refused": "Look into the log of the service on the host that refused.",
    "duplicate-qp-after-restart": "Let the host that started again choose other queue pairs, or wait until the other side has timed out.",
    "connect-unanswered": "See whether the service listens there, and whether UDP port 4791 or QP1 is filtered on the way.",
    "retries-exhausted": "See whether the process or host at the other end still runs, then whether the network carries packets to it.",
    "path-mtu": "Set the MTU of every switch port and interface on the path to what the queue pairs use, or choose a smaller path MTU.",
    "mtu-mismatch": "Use the path MTU that both sides agreed on when they connected.",
    "remote-access-error": "Compare address, length, R_Key and access rights of the request with the memory that was registered.",
    "remote-operational-error": "Look into the log of the responder: it failed inside.",
    "remote-invalid-request": "Keep the requester's max_rd_atomic at or below the responder's max_dest_rd_atomic.",
    "rnr-exhausted": "Post receive buffers earlier, or set the RNR retry count to 7, which means without end.",
    "rnr-timer-ignored": "Report it to the maker of the requester's adapter: it must wait as long as the RNR NAK says.",
    "psn-reused": "Report it to the maker of the requester: PSNs must rise with each packet.",
    "read-length-wrong": "Report it to the maker of the responder: a READ must be answered with what it asked for.",
    "read-order-wrong": "Report it to the maker of the responder: the parts of an answer come in order.",
    "icrc-wrong-at-sender": "Mend the ICRC in that host's adapter or code.",
    "roce-version-mix": "Choose GIDs of the same RoCE version on both sides (gid_index, and the default of rdma_cm).",
    "wrong-partition": "Use the partition on both sides that was agreed on; see the P_Key tables.",
    "ack-stuck": "Report it to the maker of the responder; restart its queue pair.",
    "slow-by-loss": "Look for the link that loses packets: error counters, buffers, PFC and ECN settings on the path.",
    "slow-by-reordering": "Turn off adaptive routing or packet spraying for it, or use adapters that accept packets out of order.",
    "slow-by-timeout": "Find where the last packets of messages are lost; a smaller local ACK timeout makes it less slow.",
    "slow-by-rnr": "Post more receive buffers, or post them earlier.",
    "slow-by-congestion": "Look for what shares the congested port, and at the ECN thresholds there.",
}
"""What to do about each cause."""

NO_ROOM = "See what that host has run out of: queue pairs, memory that may be locked (ulimit -l), entries of tables."
PATH = "Compare the path that the asker names (GIDs, LIDs, service level, hop limit, rate, flow label) with what the other host has."
REFUSALS = {
    1: NO_ROOM, 2: NO_ROOM, 3: NO_ROOM,
    TIMEOUT_REASON: "See whether messages of connection management are lost on the way, or answered too late.",
    5: "Ask with a transport service, path and options that the other side offers.",
    8: "Start the service on the host that refused, or correct the address or port.",
    9: "Ask with a transport service that the service offers (RC, UC, XRC).",
    10: "The host that refused still holds a connection of that queue pair: wait until it has timed out, or ask with another queue pair.",
    24: "Nothing, if the asker follows: the REJ names another port to ask.",
    25: "Nothing, if the asker follows: the REJ names another port to ask.",
    26: "Ask with a path MTU that both ports can take.",
    27: "Ask for fewer READs and atomics at a time (initiator depth, responder resources).",
    28: "Look into the log of the application on the host that refused: it gave a reason of its own.",
    29: "Ask with an RNR retry count that the other side accepts.",
    30: "Ask with a communication ID that is not in use; after a restart, wait until the old connection has timed out.",
    **dict.fromkeys((*range(12, 24), 32, 33), PATH),
}  # fmt: skip
"""What to do about a REJ, by its reason."""


def advice(found: Found) -> str:
    """What to do; empty for nothing."""
    if found.cause == "remote-invalid-request" and not found.facts.get("reads"):
        return "Compare the request with what that queue pair allows: its operation, its length, and the size of the receive buffer."
    if found.cause == "connect-unanswered" and found.facts.get("asked_for_time"):
        return "Look at the service there: the REQ arrived, but the service did not decide in time."
    if found.cause == "retries-exhausted" and found.detail.get("scope") == "qp":
        return "That host is alive: see whether the process that holds the queue pair still runs, and whether that is in an error state."
    reason = found.detail.get("reason")
    if found.cause == "refused" and isinstance(reason, int):
        return REFUSALS.get(reason, ADVICE["refused"])
    return ADVICE.get(found.cause, "")
