"""The statistics of a capture: packets, response times, connections, streams, messages, multicast and congestion, as plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.table.connections import Connections
from ibdissect.table.locate import Bool
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.catalog import builtin as builtin_catalog
from ibdissect.wire.mad import class_name, method_name

from . import summaries
from .congestion import Congestion
from .credits import Credits
from .events import Ends
from .exchanges import Exchanges
from .message_statistics import MessageStatistics
from .messages import Messages
from .multicast import Multicast
from .recovery import Counts
from .reliable import Streams
from .traffic import Traffic
from .transactions import Transactions


class Statistics:
    """Statistics of a capture; feed chunks in order. `shown` limits the counted frames; conversations are followed in all."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self.catalog = catalog if catalog is not None else builtin_catalog()
        self.traffic, self.exchanges = Traffic(), Exchanges()
        self.transactions, self.streams, self.connections = Transactions(), Streams(), Connections()
        self.messages, self.message_statistics = Messages(self.connections), MessageStatistics()
        self.multicast, self.congestion, self.credits = Multicast(), Congestion(), Credits()

    def feed(self, table: ChunkTable, shown: Bool | None = None) -> None:
        """Count a chunk."""
        for event in self.transactions.feed(table):
            self.exchanges.count(event)
        for source in (self.streams, self.connections):
            for _ in source.feed(table):
                pass  # the counts are in the follower's state
        for ended in self.messages.feed(table):
            self.message_statistics.take(ended)
        self.multicast.feed(table)
        self.congestion.feed(table)
        self.credits.feed(table)
        self.traffic.feed(table, np.arange(len(table)) if shown is None else np.flatnonzero(shown))

    def result(self, top: int | None = None) -> dict[str, Any]:
        """All statistics as plain data; `top` limits the long lists."""
        self.exchanges.finish(self.transactions)
        self.transactions.give_up()
        for ended in self.messages.finish():
            self.message_statistics.take(ended)
        return self.traffic.result(top, self._kind) | {
            "response_times": self._response_times(),
            "connections": self._connections(),
            "connection_list": summaries.connections(self.connections, top),
            "datagram_services": summaries.resolutions(self.connections, top),
            "streams": self._streams(top),
            "messages": self.message_statistics.result(top),
            "multicast": summaries.multicast(self.multicast, top),
            "congestion": summaries.congestion(self.congestion, top),
        }

    def _kind(self, mgmt_class: int, method: int, attribute: int) -> dict[str, Any]:
        """A kind of management datagram, as numbers and names."""
        return {
            "mgmt_class": mgmt_class, "class_name": class_name(mgmt_class), "method": method_name(mgmt_class, method),
            "attribute": attribute, "attribute_name": self.catalog.attribute_name(mgmt_class, attribute, method),
        }  # fmt: skip

    def _response_times(self) -> list[dict[str, Any]]:
        result = []
        for kind, found in sorted(self.exchanges.kinds.items()):
            entry = self._kind(*kind) | {"answered": found.answered, "unanswered": found.unanswered}
            if times := found.times if found.answered else None:
                entry |= {"min_ns": times.least, "max_ns": times.most}
                entry |= {f"p{share}_ns": times.percentile(share / 100) for share in (50, 90, 99)}
            result.append(entry)
        return result

    def _connections(self) -> dict[str, int]:
        every = self.connections.all
        return {
            "requested": len(every), "established": sum(c.rtu_frame > 0 for c in every), "rejected": sum(c.rej_frame > 0 for c in every),
            "disconnected": sum(c.drep_frame > 0 for c in every),
        }  # fmt: skip

    def _streams(self, top: int | None) -> list[dict[str, Any]]:
        """Streams, most packets first, then by first frame, with their error counts."""
        state, quiet = self.streams.state, Counts()
        order = sorted(range(len(self.streams.ends)), key=lambda slot: (-int(state["packets"][slot]), int(state["first_frame"][slot])))[
            :top
        ]
        result = []
        for slot in order:
            ends, stream = self.streams.ends[slot], self.streams.troubled.get(slot)
            counts = stream.counts if stream is not None else quiet
            result.append({
                "service": ends.service, "source": str(ends.source), "destination": str(ends.destination), "dest_qp": ends.dest_qp,
                "responses": ends.response, "packets": int(state["packets"][slot]), "payload_bytes": int(state["bytes"][slot]),
                "repeated": counts.repeated, "missing": counts.missing, "naks": sum(counts.naks.values()), "rnr_naks": counts.rnr,
                "restarts": counts.restarts, "middle_restarts": counts.middle_restarts, "repeated_reads": counts.repeated_reads,
                "nak_codes": {str(code): number for code, number in sorted(counts.naks.items())},
                "repeated_responses": counts.repeated_responses, "missing_responses": counts.missing_responses,
                **self._room(ends),
            })  # fmt: skip
        return result

    def _room(self, ends: Ends) -> dict[str, int | None]:
        """End-to-end credits that a responder granted."""
        room = self.credits.by_way.get((ends.source, ends.destination, ends.dest_qp)) if ends.response else None
        return {"least_credits": room.least if room is not None else None, "no_credits": room.none if room is not None else None}
