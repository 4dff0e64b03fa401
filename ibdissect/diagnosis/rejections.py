"""What does a REJ say beside its reason: another port to ask, what would be accepted, a word of the application?"""

from __future__ import annotations

from ibdissect.engine.setups import SetUp, field_of
from ibdissect.table.addresses import GID_SIZE, address_text
from ibdissect.wire import cm
from ibdissect.wire.spec import Field
from ibdissect.wire.text import counted, printable
from ibdissect.wire.ulp.nvme_rdma import STATUS as NVME_STATUS

MTU_REASON, GID_REASONS, LID_REASONS = 26, (12, 18, 25), (13, 19)
"""Reasons whose additional information is an MTU, a GID, a LID (IBA 12.6.7.2)."""
SHOWN = 16
"""Bytes of private data that are shown."""
TEXT = 4
"""So many printable characters are a text."""


def rejection(setup: SetUp | None) -> list[str]:
    """What is told of it, each in words; empty if the capture does not show more than a reason."""
    if setup is None or setup.rej is None:
        return []
    reason, body = setup.rej[2], setup.rej_body
    told = []
    about = _part(body, cm.REJ.ari)[: field_of(body, cm.REJ.reject_info_length) or 0]
    if reason == MTU_REASON and about and 1 <= about[0] <= 5:
        told.append(f"it takes a path MTU of {128 << about[0]}")
    elif reason in GID_REASONS and len(about) >= GID_SIZE and any(about[:GID_SIZE]):
        told.append(f"it names the port with GID {address_text(about[:GID_SIZE])}")
    elif reason in LID_REASONS and len(about) >= 2 and any(about[:2]):
        told.append(f"it names the port with LID {int.from_bytes(about[:2], 'big')}")
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
