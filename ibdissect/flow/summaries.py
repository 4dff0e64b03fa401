"""How are connections, datagram services, multicast senders and congestion summarised? As plain data."""

from __future__ import annotations

from typing import Any

from ibdissect.table.connection_events import Connection
from ibdissect.table.connections import Connections
from ibdissect.wire.cm_names import AP_STATUS, REJ_REASONS, SIDR_STATUS
from ibdissect.wire.convert import rate_text

from .congestion import Congestion
from .multicast import Multicast, Sender

SERVICES = {0: "RC", 1: "UC", 2: "RD", 3: "other"}
NS = 1_000_000_000
BASE = 0x7FFF
"""A P_Key without its membership bit."""


def outcome(connection: Connection) -> str:
    if connection.drep_frame or connection.dreq_frame:
        return "disconnected" if connection.drep_frame else "leaving"
    if connection.rej_frame:
        return f"rejected: {REJ_REASONS.get(connection.rej_reason, f'reason {connection.rej_reason}')}"
    if connection.rtu_frame:
        return "established"
    return "accepted" if connection.rep_frame else "no answer"


def connections(source: Connections, top: int | None) -> list[dict[str, Any]]:
    """Connections in the order of their requests."""
    return [
        {
            "frame": c.req_frame, "service": SERVICES.get(c.service, "?"), "active": str(c.active), "active_qpn": c.active_qpn,
            "passive": str(c.passive), "passive_qpn": c.passive_qpn if c.rep_frame else None, "mtu": c.mtu or None,
            "retry_count": c.retry_count, "requests": c.reqs, "setup_ns": c.rep_ns - c.req_ns if c.rep_frame else None,
            "outcome": outcome(c), "alternate_path": AP_STATUS.get(c.ap_status, f"status {c.ap_status}") if c.apr_frame else None,
        }
        for c in source.all[:top]
    ]  # fmt: skip


def resolutions(source: Connections, top: int | None) -> list[dict[str, Any]]:
    """Datagram services that were requested (SIDR), in the order of the requests."""
    return [
        {
            "frame": r.frame, "source": str(r.source), "destination": str(r.destination), "service_id": r.service_id, "requests": r.asked,
            "qpn": r.qpn if r.status == 0 else None,
            "outcome": SIDR_STATUS.get(r.status, f"status {r.status}") if r.reply_frame else "no answer",
        }
        for r in source.resolutions[:top]
    ]  # fmt: skip


def multicast(source: Multicast, top: int | None) -> list[dict[str, Any]]:
    """Multicast senders, most packets first, with the record of their group; `disagrees` lists the differences."""
    order = sorted(source.senders.values(), key=lambda s: (-s.packets, s.first_frame))[:top]
    return [_sender(source, sender) for sender in order]


def _sender(source: Multicast, sender: Sender) -> dict[str, Any]:
    record = source.groups.get(sender.group)
    seconds = (sender.last_ns - sender.first_ns) / NS
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


def congestion(source: Congestion, top: int | None) -> list[dict[str, Any]]:
    """Pairs of ports with marks, notifications, fragments or RoCE connections, most marks first."""
    pairs = sorted(source.pairs.values(), key=lambda p: (-(p.ce + p.fecn + p.becn + p.notifications + p.fragments), p.first_frame))
    return [
        {
            "source": p.texts[0], "destination": p.texts[1], "ce": p.ce, "fecn": p.fecn, "becn": p.becn, "cnp": p.notifications,
            "fragments": p.fragments, "source_ports": len(p.ports), "queue_pairs": len(p.queue_pairs),
        }
        for p in pairs[:top]
    ]  # fmt: skip
