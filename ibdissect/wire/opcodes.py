"""OpCodes and the headers that follow the BTH for each. One table for all transport services.

Sources: IBA 9.2 table 38, Annex A14 (XRC), Annex A19 (FLUSH, ATOMIC WRITE; codes as in Linux rdma/ib_pack.h), python-rdma.
"""

from __future__ import annotations

from msgspec import Struct as Record

RC, UC, RD, UD, CNP_SERVICE, XRC = 0x00, 0x20, 0x40, 0x60, 0x80, 0xA0
SERVICES = {RC: "RC", UC: "UC", RD: "RD", UD: "UD", CNP_SERVICE: "CNP", XRC: "XRC", 0xE0: "Manufacturer"}
RELIABLE, CONNECTED = (RC, XRC), (RC, UC, XRC)
"""Services whose packets are acknowledged, and those of connections. RD, which no adapter has, counts as none of them."""
SERVICE, OPERATION = 0xE0, 0x1F
"""Bits of an OpCode: the transport service, and the operation."""
SEND_FIRST, SEND_MIDDLE, WRITE_FIRST, WRITE_MIDDLE = 0x00, 0x01, 0x06, 0x07
"""Operations whose packets are as long as the path MTU allows."""
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD = range(0x0C, 0x15)
"""Operations around answers, and atomics."""
CNP_OPCODE, UD_SEND_ONLY = 0x81, 0x64
NATIVE_CNP_OPCODE = 0x80
"""That of InfiniBand (IBA A10.3.2; Linux rdma/ib_pack.h, hfi1 return_cnp); RoCE has the other."""
FIRST_RESPONSE, LAST_RESPONSE = 0x0D, 0x12
"""The range of RC OpCodes that a responder sends (IBA table 38)."""


class Opcode(Record, frozen=True, eq=False):
    """One OpCode: the transport service, the operation and the headers between BTH and payload."""

    code: int
    service: str
    operation: str
    headers: tuple[str, ...]
    """Class names in `ibdissect.wire.headers`, in wire order."""
    payload: bool
    """Whether payload bytes may follow."""
    request: bool
    """Sent by the requester; False for responses and acknowledgements."""

    @property
    def name(self) -> str:
        return f"{self.service} {self.operation}"


# operation: headers after the service's own, payload?, request?
_OPERATIONS: dict[int, tuple[str, tuple[str, ...], bool, bool]] = {
    0x00: ("SEND First", (), True, True),
    0x01: ("SEND Middle", (), True, True),
    0x02: ("SEND Last", (), True, True),
    0x03: ("SEND Last with Immediate", ("ImmDt",), True, True),
    0x04: ("SEND Only", (), True, True),
    0x05: ("SEND Only with Immediate", ("ImmDt",), True, True),
    0x06: ("RDMA WRITE First", ("RETH",), True, True),
    0x07: ("RDMA WRITE Middle", (), True, True),
    0x08: ("RDMA WRITE Last", (), True, True),
    0x09: ("RDMA WRITE Last with Immediate", ("ImmDt",), True, True),
    0x0A: ("RDMA WRITE Only", ("RETH",), True, True),
    0x0B: ("RDMA WRITE Only with Immediate", ("RETH", "ImmDt"), True, True),
    0x0C: ("RDMA READ Request", ("RETH",), False, True),
    0x0D: ("RDMA READ Response First", ("AETH",), True, False),
    0x0E: ("RDMA READ Response Middle", (), True, False),
    0x0F: ("RDMA READ Response Last", ("AETH",), True, False),
    0x10: ("RDMA READ Response Only", ("AETH",), True, False),
    0x11: ("Acknowledge", ("AETH",), False, False),
    0x12: ("ATOMIC Acknowledge", ("AETH", "AtomicAckETH"), False, False),
    0x13: ("CmpSwap", ("AtomicETH",), False, True),
    0x14: ("FetchAdd", ("AtomicETH",), False, True),
    0x15: ("RESYNC", (), False, True),
    0x16: ("SEND Last with Invalidate", ("IETH",), True, True),
    0x17: ("SEND Only with Invalidate", ("IETH",), True, True),
    0x1C: ("FLUSH", ("FETH", "RETH"), False, True),
    0x1D: ("ATOMIC WRITE", ("RETH",), True, True),
}

_OF_SERVICE: dict[int, tuple[int, ...]] = {
    RC: (*range(0x15), 0x16, 0x17, 0x1C, 0x1D),
    UC: tuple(range(0x0C)),
    RD: (*range(0x16), 0x1C, 0x1D),
    UD: (0x04, 0x05),
    XRC: (*range(0x15), 0x16, 0x17, 0x1C, 0x1D),
}


def _leading(service: int, request: bool) -> tuple[str, ...]:
    if service == UD:
        return ("DETH",)
    if service == RD:
        return ("RDETH", "DETH") if request else ("RDETH",)
    return ("XRCETH",) if service == XRC and request else ()


def _table() -> dict[int, Opcode]:
    table = {}
    for service, operations in _OF_SERVICE.items():
        for operation in operations:
            name, headers, payload, request = _OPERATIONS[operation]
            code = service | operation
            table[code] = Opcode(code, SERVICES[service], name, _leading(service, request) + headers, payload, request)
    table[CNP_OPCODE] = Opcode(CNP_OPCODE, "CNP", "Congestion Notification", ("CNP",), False, True)
    table[NATIVE_CNP_OPCODE] = Opcode(NATIVE_CNP_OPCODE, "CNP", "Congestion Notification of InfiniBand", (), True, True)
    return table


OPCODES: dict[int, Opcode] = _table()
MANUFACTURER = 0xC0
"""OpCodes from here on belong to manufacturers (IBA 9.2), who use headers and reserved bits of their own."""
DYNAMIC_INVALIDATE = (0x56, 0x57)
"""SEND with Invalidate, which reliable datagrams lack and NVIDIA's transport in their place has (rdma-core providers/mlx5/qp.c)."""
DEFINED = frozenset({*OPCODES, *DYNAMIC_INVALIDATE, *range(MANUFACTURER, 256)})
"""OpCodes that somebody may send."""
DATAGRAMS = frozenset(code for code in OPCODES if code & SERVICE == UD)
WITH_AETH = tuple(operation for operation, (_, headers, *_) in _OPERATIONS.items() if "AETH" in headers)
"""Operations of responses that acknowledge or refuse."""
OPCODE_NAMES: dict[int, str] = {code: opcode.name for code, opcode in OPCODES.items()}
