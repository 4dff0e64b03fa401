"""The statistics of a capture: packets, response times, connections, streams, messages, multicast and congestion, as plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_events import ConnectionSetUp
from ibdissect.decode.counted_packets import Distinct
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Side
from ibdissect.mad.response_times import Exchanges
from ibdissect.mad.transactions import Transactions
from ibdissect.transport.congestion import MAX_PORTS, Congestion
from ibdissect.transport.credits import Credits
from ibdissect.transport.events import StreamEnds
from ibdissect.transport.message_statistics import MessageStatistics
from ibdissect.transport.messages import Messages
from ibdissect.transport.multicast import GroupSender, Multicast
from ibdissect.transport.pause_frames import Pauses
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.catalog import builtin as builtin_catalog
from ibdissect.wire.cm_names import AP_STATUS, REJ_REASONS, SIDR_STATUS
from ibdissect.wire.convert import rate_text
from ibdissect.wire.mad import class_name, method_name
from ibdissect.wire.numbers import BASE

from .packet_counts import Traffic


class Statistics:
    """Statistics of a capture; feed chunks in order. `shown` limits which frames are counted; conversations are followed in all frames."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self.catalog = catalog if catalog is not None else builtin_catalog()
        self.distinct, self.traffic, self.exchanges = Distinct(), Traffic(), Exchanges()
        self.transactions, self.streams, self.connections = Transactions(), Streams(), Connections()
        self.messages = Messages(self.streams)
        self.message_statistics = MessageStatistics(self.messages)
        self.multicast, self.congestion, self.pauses, self.credits = Multicast(), Congestion(), Pauses(), Credits()

    def feed(self, table: ChunkTable, shown: Bool | None = None) -> ChunkTable:
        """Count a chunk: in `traffic` its frames, in all others its packets, each once: those of the table that is returned."""
        self.traffic.feed(table, np.arange(len(table)) if shown is None else np.flatnonzero(shown))
        table = self.distinct.of(table)
        for event in self.transactions.feed(table):
            self.exchanges.count(event)
        for follower in (self.streams, self.connections):
            for _ in follower.feed(table):
                pass  # the counts are in the follower's state
        for ended in self.messages.feed(table):
            self.message_statistics.take(ended)
        self.multicast.feed(table)
        self.congestion.feed(table)
        self.pauses.feed(table)
        self.credits.feed(table)
        return table

    def result(self, top: int | None = None) -> dict[str, Any]:
        """All statistics as plain data; `top` limits the long lists."""
        self.exchanges.finish(self.transactions)
        self.transactions.give_up()
        for ended in self.messages.finish():
            self.message_statistics.take(ended)
        found = self.traffic.result(top, self._kind) | {
            "copies": self.distinct.copies,
            "response_times": self._response_times(),
            "connections": self._connections(),
            "connection_list": _connections(self.connections, top),
            "datagram_services": _resolutions(self.connections, top),
            "streams": self._streams(top),
            "messages": self.message_statistics.result(top),
            "multicast": _multicast(self.multicast, top),
            "congestion": _congestion(self.congestion, top),
            "pauses": self.pauses.result(top),
        }
        if self.traffic.set_back_ns >= SECOND_NS:  # then no time between two frames is known
            for entry in (*found["messages"], *found["multicast"]):
                entry["bits_per_second"] = None
        return found

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
            entry["retries"] = found.retries
            if found.times.count:
                entry |= {"min_ns": found.times.least, "max_ns": found.times.most, **found.times.percentiles()}
            if found.first_times.count:
                entry["from_first_try"] = {"max_ns": found.first_times.most, **found.first_times.percentiles()}
            result.append(entry)
        return result

    def _connections(self) -> dict[str, int]:
        every = self.connections.requested
        return {
            "requested": len(every), "established": sum(c.rtu is not None for c in every),
            "rejected": sum(c.rej is not None for c in every), "disconnected": sum(c.drep is not None for c in every),
        }  # fmt: skip

    def _streams(self, top: int | None) -> list[dict[str, Any]]:
        """Streams, most packets first, then by first frame, with their error counts."""
        result = []
        for one in sorted(self.streams.all, key=lambda one: (-one.packets, one.first_frame))[:top]:
            ends, naks = one.ends, one.naks or {}
            result.append({
                "service": ends.service, "source": str(ends.source), "destination": str(ends.destination), "dest_qp": ends.dest_qp,
                "responses": ends.response, "packets": one.packets, "payload_bytes": one.bytes,
                "unknown_sizes": one.unsized, "unread_answers": one.unread,
                "repeated": one.repeated, "missing": one.missing, "late": 0 if ends.response else one.filled,
                "naks": sum(naks.values()), "rnr_naks": one.rnr,
                "restarts": one.restarts, "middle_restarts": one.middle_restarts, "repeated_reads": one.repeated_reads,
                "nak_codes": {str(code): number for code, number in sorted(naks.items())},
                "repeated_responses": one.repeated_responses, "missing_responses": one.missing_responses,
                **self._credits(ends),
            })  # fmt: skip
        return result

    def _credits(self, ends: StreamEnds) -> dict[str, int | None]:
        """End-to-end credits that a responder granted."""
        granted = self.credits.by_way.get((Side.of(ends.source), Side.of(ends.destination), ends.dest_qp)) if ends.response else None
        least, none = (granted.least, granted.none) if granted is not None else (None, None)
        return {"least_credits": least, "no_credits": none}


def _outcome(connection: ConnectionSetUp) -> str:
    if connection.drep is not None or connection.dreqs:
        return "disconnected" if connection.drep is not None else "leaving"
    if connection.rej is not None:
        reason = connection.rej[2]
        return f"rejected: {REJ_REASONS.get(reason, f'reason {reason}') if reason is not None else 'the reason is cut off'}"
    if connection.rtu is not None:
        return "established"
    return "accepted" if connection.rep is not None else "no answer"


def _connections(source: Connections, top: int | None) -> list[dict[str, Any]]:
    """Connections in the order of their requests; what is cut off is None."""
    return [
        {
            "frame": c.req_frame, "service": c.service or None, "active": str(c.active), "active_qpn": c.qpns[0],
            "passive": str(c.passive), "passive_qpn": c.qpns[1] if c.rep is not None else None, "mtu": c.mtu or None,
            "retry_count": c.agreed["retry_count"], "requests": c.tries, "setup_ns": c.rtu[1] - c.reqs[0][1] if c.rtu is not None else None,
            "accepted_ns": c.rep[1] - c.reqs[0][1] if c.rep is not None else None, "outcome": _outcome(c),
            "alternate_path": AP_STATUS.get(c.ap_status, f"status {c.ap_status}") if c.apr_frame else None,
        }
        for c in source.requested[:top]
    ]  # fmt: skip


def _resolutions(source: Connections, top: int | None) -> list[dict[str, Any]]:
    """Datagram services that were requested (SIDR), in the order of the requests."""
    return [
        {
            "frame": r.frame, "source": str(r.source), "destination": str(r.destination), "service_id": r.service_id, "requests": r.asked,
            "qpn": r.qpn if r.status == 0 else None,
            "outcome": SIDR_STATUS.get(r.status, f"status {r.status}") if r.reply_frame else "no answer",
        }
        for r in source.resolutions[:top]
    ]  # fmt: skip


def _multicast(source: Multicast, top: int | None) -> list[dict[str, Any]]:
    """Multicast senders, most packets first, with the record of their group; `disagrees` lists the differences."""
    order = sorted(source.senders.values(), key=lambda s: (-s.packets, s.first_frame))[:top]
    return [_sender(source, sender) for sender in order]


def _sender(source: Multicast, sender: GroupSender) -> dict[str, Any]:
    record = source.groups.get(sender.of)
    seconds = (sender.last_ns - sender.first_ns) / SECOND_NS
    wrong = []
    if record is not None:
        wrong += ["LID"] if sender.mlid and sender.mlid != record.mlid else []
        wrong += ["P_Key"] if (sender.p_key ^ record.p_key) & BASE else []
        wrong += ["Q_Key"] if record.q_key and sender.q_key != record.q_key else []
        wrong += ["MTU"] if record.mtu and sender.largest > record.mtu else []
    return {
        "source": sender.source_text, "source_qp": sender.source_qp, "group": sender.group_text, "mlid": sender.mlid or None,
        "p_key": sender.p_key, "packets": sender.packets, "payload_bytes": sender.payload, "largest": sender.largest,
        "bits_per_second": round(sender.payload * 8 / seconds) if seconds > 0 else None,
        "group_mtu": record.mtu or None if record is not None else None,
        "group_rate": rate_text(record.rate) if record is not None else None, "disagrees": wrong if record is not None else None,
    }  # fmt: skip


def _congestion(source: Congestion, top: int | None) -> list[dict[str, Any]]:
    """Pairs of ports with marks, notifications, fragments or RoCE connections, most marks first."""
    pairs = sorted(source.pairs.values(), key=lambda p: (-(p.ce + p.fecn + p.becn + p.notifications + p.fragments), p.first_frame))
    return [
        {
            "source": p.texts[0], "destination": p.texts[1], "ce": p.ce, "fecn": p.fecn, "becn": p.becn, "cnp": p.notifications,
            "fragments": p.fragments, "source_ports": len(p.ports), "queue_pairs": len(p.queue_pairs),
            "source_ports_bound": len(p.ports) >= MAX_PORTS, "queue_pairs_bound": len(p.queue_pairs) >= MAX_PORTS,
        }
        for p in pairs[:top]
    ]  # fmt: skip
