"""Packets of NVIDIA's dynamically connected transport are only noted: they have OpCodes of reliable datagrams, and headers of their own."""

from __future__ import annotations

import pytest

from tests.craft import native
from tests.rules.findings import lint, rules
from tests.standard import RD

KEY = bytes.fromhex("ff7e0001e0c3b7a5")
"""Eight bytes that precede the headers of a reliable connection."""
AETH, RETH = bytes.fromhex("1f000001"), bytes(8) + bytes.fromhex("0000120000000400")


OPERATIONS = {
    0x00: bytes(1024), 0x01: bytes(1024), 0x04: b"data", 0x05: b"imm.", 0x06: RETH + bytes(1024), 0x0A: RETH + bytes(1024), 0x0C: RETH,
    0x0D: AETH + bytes(1024), 0x0E: bytes(1024), 0x10: AETH, 0x11: AETH, 0x12: AETH + bytes(8), 0x14: bytes(28), 0x16: bytes(8),
    0x17: bytes(8),
}  # fmt: skip
"""What follows the headers."""


@pytest.mark.parametrize("solicited", [0, 1])
def test_only_the_opcode_is_noted(solicited: int) -> None:
    """Each operation at a queue pair of its own."""
    frames = [
        native(RD | operation, KEY + behind, headers=b"", bth={"psn": psn, "se": solicited, "destqp": 0x100 + operation})
        for operation, behind in OPERATIONS.items() for psn in (5, 6, 6, 1)
    ]  # fmt: skip
    found = lint(frames, *rules())
    assert [(one.code, one.frame) for one in found if one.code != "BTH002"] == [] and len(found) >= len(OPERATIONS)
