"""The parts of messages are those of the OpCodes' names."""

from __future__ import annotations

from ibdissect.engine import opcode_parts
from ibdissect.wire.opcodes import OPCODES


def test_parts_of_some_opcodes() -> None:
    names = {
        0x00: (0, 1, 0), 0x01: (1, 1, 0), 0x02: (1, 0, 0), 0x04: (0, 0, 0), 0x06: (0, 2, 1), 0x08: (2, 0, 0), 0x0A: (0, 0, 1),
        0x0C: (0, 0, 0), 0x0D: (0, 3, 0), 0x0E: (3, 3, 0), 0x0F: (3, 0, 0), 0x10: (0, 0, 0), 0x11: (0, 0, 0), 0x64: (0, 0, 0),
        0xFF: (0, 0, 0),
    }  # fmt: skip
    for code, (goes_on, leaves_open, starts) in names.items():
        assert (opcode_parts.GOES_ON[code], opcode_parts.LEAVES_OPEN[code], opcode_parts.STARTS_WRITE[code]) == (
            goes_on,
            leaves_open,
            starts,
        ), hex(code)
        assert opcode_parts.PARTS[code] == goes_on | leaves_open << 2 | starts << 4


def test_streams_are_of_three_services() -> None:
    for code in range(256):
        known = OPCODES.get(code)
        assert opcode_parts.IN_STREAM[code] == (known is not None and code >> 5 in (0, 1, 5))
        assert opcode_parts.IS_RESPONSE[code] == (bool(opcode_parts.IN_STREAM[code]) and known is not None and not known.request)
