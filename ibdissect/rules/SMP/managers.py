"""Who writes into the subnet without being one of the managers that the site allows?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.fabric.events import ChunkFollowed
from ibdissect.lint.policy import SitePolicy
from ibdissect.lint.rule import WARNING, Context, Hit, Rule, Seen, on_event
from ibdissect.rules.shared.senders import port_of_sender, senders_of
from ibdissect.wire.link import LRH
from ibdissect.wire.numbers import FIRST_MULTICAST, SET


class SetFromNonMaster(Rule):
    """Somebody writes into the subnet who is none of the managers that the site allows.

    Only the subnet manager should write LIDs, keys, partitions and forwarding tables. A second writer is a forgotten manager, a
    diagnostic tool, or an intruder.

    Find the host by its LID or GUID. If it may write, add it to `managers` of the site policy; else stop it and protect the subnet
    with an M_Key.
    """

    code, name, severity = "SMP025", "set-from-non-master", WARNING
    reference = "seed000 SMInfo, MasterSMLID; the site policy says who may write"
    message = "SubnSet from {sender}, which the site's policy does not name as a manager"
    example = "the policy `managers = [1]`, and a SubnSet from LID 7; silent without a policy"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        policy: SitePolicy = context.get(SitePolicy)
        if not policy.manages:
            return
        asks = event.requests
        index = np.flatnonzero(asks.method == SET)
        if not len(index):
            return
        sender, hidden = senders_of(event.table, asks.rows[index], asks.mad[index])
        _, first, counts = np.unique(sender << 1 | hidden, return_index=True, return_counts=True)
        for j, count in zip(first.tolist(), counts.tolist(), strict=True):
            row = int(asks.rows[index[j]])
            frame = event.table.chunk.first + row
            judged = _writer(event, context, policy, int(sender[j]), bool(hidden[j]), frame)
            if judged is None:
                continue
            text, taught = judged
            yield Seen(event.table, row).found(
                {"sender": text},
                LRH.slid,
                None if hidden[j] else int(sender[j]),
                proof=[(taught, "told which port that is")] if taught else [],
                count=count,
                key=(int(sender[j]), bool(hidden[j])),
            )


def _writer(event: ChunkFollowed, context: Context, policy: SitePolicy, sender: int, hidden: bool, frame: int) -> tuple[str, int] | None:
    """Who is no manager, and the frame that told; None where the sender is one, or nobody knows who it is."""
    if not hidden and (not 0 < sender < FIRST_MULTICAST or sender in policy.manager_lids):
        return None
    port, taught = port_of_sender(event, context, sender, hidden, frame)
    if port is None or not (hidden or port.guid):
        return None if hidden or policy.manager_guids else (f"LID {sender}", 0)
    if port.guid in policy.manager_guids or (port.lid and port.lid in policy.manager_lids):
        return None
    if hidden and not policy.manager_guids and not port.lid:
        return None  # named by LID, and its LID is not known
    if not hidden and not policy.manager_guids:
        return f"LID {sender}", 0
    return str(port), taught
