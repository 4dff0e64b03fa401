"""Decodings that the user declares because no packet shows them: a UDP port that carries RoCE, the service of a queue pair."""

from __future__ import annotations

from typing import NamedTuple

from ibdissect.decode.addresses import ends_at
from ibdissect.decode.services import ACTIVE, PASSIVE, STARTS_MESSAGE
from ibdissect.wire.headers import BTH
from ibdissect.wire.places import CmPayload

from .capture_model import CaptureModel


class Decoding(NamedTuple):
    """A way to read the payload of a packet."""

    carrier: str
    what: str
    port: int = 0
    """UDP port that carries RoCE v2; 0: it is about the queue pair."""
    address: bytes = b""
    qp: int = 0
    service: int = 0
    side: int = 0


def decodings(model: CaptureModel, frame: int) -> list[Decoding]:
    """What the payload of a frame can be read as."""
    table = model.table([frame])
    if int(table.located.at("bth")[0]) < 0:
        if model.live or not isinstance(model.source, str):
            return []  # what was read before cannot be read again
        ports = [node.value for node in model.tree(frame).walk() if node.name == "udp.dstport"]
        return [Decoding(f"UDP port {port}", "RoCE v2", port) for port in ports if isinstance(port, int)]
    if int(table.located.at("mad")[0]) >= 0 or not STARTS_MESSAGE[table.located.opcode[0]]:
        return []
    qp, address = int(table.of_rows(BTH.destqp)[0][0]), bytes(ends_at(table, 0)[1].address)
    found: dict[tuple[int, int], list[str]] = {}
    for place, struct in model.catalog.others:
        if isinstance(place, CmPayload):
            for side, toward in ((PASSIVE, "passive"), (ACTIVE, "active")):
                if place.toward in ("", toward):
                    found.setdefault((place.service_id, side), []).append(struct.title)
    sides = {PASSIVE: "to the listening side", ACTIVE: "to the requesting side"}
    services: dict[str, tuple[int, int]] = {}
    for (service, side), titles in found.items():  # several services may carry the same
        services.setdefault(f"{', '.join(dict.fromkeys(titles))} ({sides[side]})", (service, side))
    return [Decoding(f"messages to QP 0x{qp:06x}", what, 0, address, qp, *served) for what, served in services.items()]
