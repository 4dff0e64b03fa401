"""A REJ beside its reason: another port to ask, the values that would be accepted, a word of the application."""

from __future__ import annotations

from ibdissect.decode.addresses import GID_SIZE, address_text
from ibdissect.engine.connection_setups import SetUp
from ibdissect.wire import cm
from ibdissect.wire.cut import field_of
from ibdissect.wire.spec import Field
from ibdissect.wire.text import counted, printable
from ibdissect.wire.ulp.nvme_rdma import STATUS as NVME_STATUS

MTU_REASON, GID_REASONS, LID_REASONS = 26, (12, 18, 25), (13, 19)
"""Reasons whose additional information is an MTU, a GID, a LID (IBA 12.6.7.2)."""
PRIMARY_LID = 13
"""The reason that objects to the LID which the REQ asks for; `LID_REASONS` has that of the alternate path, too."""
SHOWN = 16
"""Bytes of private data that are shown."""
TEXT = 4
"""So many printable characters are a text."""


def named_gid(setup: SetUp) -> str:
    """The address of the port that a REJ names by its GID; empty if it names none."""
    about = _about(setup)
    return address_text(about[:GID_SIZE]) if setup.rej is not None and setup.rej[2] in GID_REASONS and any(about[:GID_SIZE]) else ""


def named_lid(setup: SetUp) -> int:
    """The LID of the port that a REJ names; 0 if it names none."""
    about = _about(setup)[:2]
    return int.from_bytes(about, "big") if setup.rej is not None and setup.rej[2] in LID_REASONS and len(about) == 2 else 0


def asked_gid(setup: SetUp) -> str:
    """The address of the port that the REQ asks for by its GID; empty if it is not captured."""
    gid = setup.agreed["asked_gid"]
    return address_text(gid.to_bytes(GID_SIZE, "big")) if gid else ""


def leads_back(setup: SetUp | None, host: str) -> bool:
    """Whether the REJ of a host names that host itself as the port to ask: by its address, or by the GID or LID that the REQ asks for."""
    if setup is not None and (lid := named_lid(setup)):
        return setup.rej is not None and setup.rej[2] == PRIMARY_LID and lid == setup.agreed["asked_lid"]
    named = named_gid(setup) if setup is not None else ""
    return setup is not None and named != "" and (named.removeprefix("::ffff:") == host or named == asked_gid(setup))


def _about(setup: SetUp) -> bytes:
    """The additional information of its REJ, as far as it is captured."""
    about = _part(setup.rej_body, cm.REJ.ari)[: field_of(setup.rej_body, cm.REJ.reject_info_length) or 0]
    return about if setup.rej is None or setup.rej[2] not in GID_REASONS or len(about) >= GID_SIZE else b""


def rejection(setup: SetUp | None) -> list[str]:
    """What is told of it, each in words; empty if the capture does not show more than a reason."""
    if setup is None or setup.rej is None:
        return []
    reason, body = setup.rej[2], setup.rej_body
    told = []
    about = _about(setup)
    if reason == MTU_REASON and about and 1 <= about[0] <= 5:
        told.append(f"it takes a path MTU of {128 << about[0]}")
    elif named := named_gid(setup):
        asked = asked_gid(setup)
        told.append(f"it names the port with GID {named}")
        told += [f"the REQ asks for the one with GID {asked}"] if asked not in ("", named) else []
    elif lid := named_lid(setup):
        told.append(f"it names the port with LID {lid}")
    private = _part(body, cm.REJ.private_data).rstrip(b"\0")
    if private and setup.nvme_status not in NVME_STATUS:
        told.append(f"private data {_bytes(private)}")
    return told


def _part(body: bytes, field: Field[bytes]) -> bytes:
    """The bytes of a field, as far as they are captured."""
    return body[slice(*field.span)]


def _bytes(data: bytes) -> str:
    """As text if they are one, else in hexadecimal."""
    if len(data) >= TEXT and all(0x20 <= byte < 0x7F for byte in data):
        return f'"{printable(data[: 2 * SHOWN].decode())}"'
    more = f" and {counted(len(data) - SHOWN, 'more byte')}" if len(data) > SHOWN else ""
    return f"{data[:SHOWN].hex(' ')}{more}"
