"""Frames of nodes that no capture has, for pairs of a violation and its legal twin; and what a pair is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from ibdissect.wire.cm import REP, REQ, RTU
from ibdissect.wire.sa import mask_for
from tests.craft import build, gmp, rc, sa_mad, smp, ud
from tests.subnet.made import node, p_keys, port_info, switch, switch_info

ASKER, TARGET, OTHER = 0x1D01, 0x1D02, 0x1D03
GET, SET, SEND, TRAP, ANSWER = 1, 2, 3, 5, 0x81
NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO, P_KEYS, SL2VL, VL_ARB = 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18
LFT, RFT, MFT, SM_INFO, VENDOR_DIAG, LED_INFO = 0x19, 0x1A, 0x1B, 0x20, 0x30, 0x31
TRANSACTIONS = count(0x77_0000)


@dataclass(frozen=True)
class Pair:
    name: str
    bad: list[bytes]
    twin: list[bytes]
    codes: tuple[str, ...]
    at: int
    """How many frames at the end the fault is in."""
    step_ns: int
    link: int
    """1: Ethernet, 247: InfiniBand."""


PAIRS: list[Pair] = []


def pair(
    name: str,
    codes: str,
    bad: list[bytes] | bytes,
    twin: list[bytes] | bytes,
    known: list[bytes] | None = None,
    step_ns: int = 1_000_000,
    link: int = 247,
) -> None:
    """`known`: frames before both."""
    one, other = ([frame] if isinstance(frame, bytes) else frame for frame in (bad, twin))
    PAIRS.append(Pair(name, [*(known or []), *one], [*(known or []), *other], tuple(codes.split()), len(one), step_ns, link))


# frames


def ask(attribute: int, body: bytes = b"", *, method: int = GET, modifier: int = 0, lid: int = TARGET, **kw: Any) -> bytes:
    header = {"transaction_id": next(TRANSACTIONS), **kw.pop("header", {})}
    return smp(method, attribute, body, modifier=modifier, slid=ASKER, dlid=lid, header=header, **kw)


def answered(
    attribute: int, body: bytes = b"", *, modifier: int = 0, replied: int | None = None, lid: int = TARGET, **head: Any
) -> list[bytes]:
    """A Get and its answer."""
    header = {"transaction_id": next(TRANSACTIONS)}
    request = smp(GET, attribute, modifier=modifier, slid=ASKER, dlid=lid, header=header)
    value = modifier if replied is None else replied
    return [request, smp(ANSWER, attribute, body, modifier=value, slid=lid, dlid=ASKER, header={**header, **head})]


def port(lid: int = TARGET, **values: Any) -> list[bytes]:
    return answered(PORT_INFO, port_info(lid, master_sm_lid=ASKER, **values), lid=lid)


def host(lid: int = TARGET) -> list[bytes]:
    return answered(NODE_INFO, node(lid), lid=lid)


def a_switch(**values: Any) -> list[bytes]:
    return [*answered(NODE_INFO, switch(TARGET)), *answered(SWITCH_INFO, switch_info(**values))]


def table(lid: int, *keys: int) -> list[bytes]:
    return [*host(lid), *answered(P_KEYS, p_keys(*keys), lid=lid), *port(lid)]


def service(mgmt_class: int, method: int, attribute: int, body: bytes = b"", *, at: int = 64, **head: Any) -> bytes:
    header = {"transaction_id": next(TRANSACTIONS), **head}
    ends = (TARGET, ASKER) if method & 0x80 else (ASKER, TARGET)
    return gmp(mgmt_class, method, attribute, body, at=at, header=header, slid=ends[0], dlid=ends[1])


def sa(method: int, attribute: int, record: bytes = b"", **more: Any) -> bytes:
    more = {"mask": 1, "transaction_id": next(TRANSACTIONS), **more}
    ends = (TARGET, ASKER) if method & 0x80 else (ASKER, TARGET)
    return ud(sa_mad(method, attribute, record, **more), slid=ends[0], dlid=ends[1])


def query(record: Any, asked: dict[str, Any], held: dict[str, Any], attribute: int) -> list[bytes]:
    number = next(TRANSACTIONS)
    return [
        sa(GET, attribute, build(record, **asked), mask=mask_for(record, asked), transaction_id=number),
        sa(ANSWER, attribute, build(record, **held), mask=0, transaction_id=number),
    ]


def connection(**values: Any) -> list[bytes]:
    """REQ, REP and RTU between QP 0x171 of ASKER and QP 0x172 of TARGET."""
    mine = {"local_communication_id": 0x5501, "remote_communication_id": 0x5502}
    yours = {"local_communication_id": 0x5502, "remote_communication_id": 0x5501}
    fields = {
        "local_communication_id": 0x5501,
        "local_qpn": 0x171,
        "starting_psn": 500,
        "path_packet_payload_mtu": 1,
        "max_cm_retries": 3,
        "remote_cm_response_timeout": 20,
        "local_cm_response_timeout": 20,
        "retry_count": 7,
        "partition_key": 0xFFFF,
        "primary_local_port_lid": ASKER,
        "primary_remote_port_lid": TARGET,
        "primary_local_ack_timeout": 14,
        "primary_subnet_local": 1,
    }
    return [
        service(7, SEND, 0x10, build(REQ, **{**fields, **values}), at=24),
        gmp(7, SEND, 0x13, build(REP, **yours, local_qpn=0x172, starting_psn=900), at=24, slid=TARGET, dlid=ASKER),
        gmp(7, SEND, 0x14, build(RTU, **mine), at=24, slid=ASKER, dlid=TARGET),
    ]


def request(**values: Any) -> bytes:
    return connection(**values)[0]


def reads(*answers: bytes, length: int = 3000) -> list[bytes]:
    """A READ from QP 0x171 and its answers."""
    asks = rc(0x0C, ext={"RETH": {"dmalen": length, "r_key": 7, "va": 4096}}, bth={"destqp": 0x172, "psn": 900}, slid=ASKER, dlid=TARGET)
    after = rc(0x04, b"done", bth={"destqp": 0x172, "psn": 903}, slid=ASKER, dlid=TARGET)
    return [asks, *answers, after]


def part(opcode: int, psn: int, size: int) -> bytes:
    return rc(opcode, bytes(size), ext={"AETH": {"msn": 2}}, bth={"destqp": 0x171, "psn": psn}, slid=TARGET, dlid=ASKER)
