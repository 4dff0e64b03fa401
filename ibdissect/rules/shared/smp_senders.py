"""Senders of subnet management packets: the LID, or the end of a directed route, and its port."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.identity import Frame
from ibdissect.lint.rule import Context
from ibdissect.subnet import ChunkFollowed, FabricFollower, Port
from ibdissect.subnet.smp_columns import PlacedSmps
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import DIRECTED, PERMISSIVE


def senders_of(table: ChunkTable, smps: PlacedSmps, index: Any) -> tuple[Int, Bool]:
    """Who sent some SMPs: the SLID, or the number of a directed route's sender (`subnet.route_senders`); and which are directed."""
    rows = smps.rows[index]
    slid = table.values_at(LRH.slid, rows).astype(np.int64)
    hidden: Bool = (table.values_at(MAD.mgmt_class, rows) == DIRECTED) & ((slid == PERMISSIVE) | (slid == 0))
    return np.where(hidden, smps.sender[index], slid), hidden


def port_of_sender(event: ChunkFollowed, context: Context, sender: int, hidden: bool, frame: int) -> tuple[Port | None, int]:
    """The port of a sender as numbered by `senders_of`, and the frame that showed it; None if none did before `frame`."""
    if not hidden:
        return event.subnet.owner(sender, frame)
    follower: FabricFollower = context.get(FabricFollower)
    origin = follower.routes.origins.get(sender)
    home, since = origin.home.at(frame) if origin is not None else (None, 0)
    return (home[0].manager(home[1]), since) if home is not None and home[0].alive and since < frame else (None, 0)


def sender_changes(event: ChunkFollowed, context: Context, sender: int, hidden: bool, after: int) -> set[Frame]:
    """Frames later than `after` from which on `port_of_sender` may say something else, or the state of that port changed."""
    if not hidden:
        return event.subnet.changes(sender, after=after)
    origin = context.get(FabricFollower).routes.origins.get(sender)
    if origin is None:
        return set()
    ports = (node.manager(number) for node, number in origin.home.since_frame(after))
    return set(origin.home.changes_after(after)).union(*(port.changes(after) for port in ports if port is not None))
