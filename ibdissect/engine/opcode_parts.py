"""The part of a message that each OpCode of RC, UC or XRC carries."""

from __future__ import annotations

from ibdissect.wire.opcodes import CONNECTED, OPCODES, SERVICE

NO_MESSAGE, SEND, WRITE, READ = range(4)
_NAMES = (("SEND", SEND), ("RDMA WRITE", WRITE), ("RDMA READ RESPONSE", READ))


def _by_opcode() -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Per OpCode: is it part of a stream, is it a response, which message does it continue or leave open, does it start a WRITE?"""
    stream, response, goes_on, leaves_open, starts_write = (bytearray(256) for _ in range(5))
    for code, opcode in OPCODES.items():
        if code & SERVICE not in CONNECTED:
            continue
        stream[code], response[code] = True, not opcode.request
        for name, kind in _NAMES:
            if opcode.operation.upper().startswith(name):
                part = opcode.operation[len(name) + 1 :].split()[0]
                goes_on[code] = kind if part in ("Middle", "Last") else NO_MESSAGE
                leaves_open[code] = kind if part in ("First", "Middle") else NO_MESSAGE
                starts_write[code] = kind == WRITE and part in ("First", "Only")
    return bytes(stream), bytes(response), bytes(goes_on), bytes(leaves_open), bytes(starts_write)


IN_STREAM, IS_RESPONSE, GOES_ON, LEAVES_OPEN, STARTS_WRITE = _by_opcode()
PARTS = bytes(GOES_ON[code] | LEAVES_OPEN[code] << 2 | STARTS_WRITE[code] << 4 for code in range(256))
"""All that `Packet.parts` says of an OpCode: the message that it continues, the one that it leaves open, whether it starts a WRITE."""
