"""Proofs of rules that compare packets with SL to VL tables, GIDs, leases and port states that the capture showed."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from ibdissect.wire.opa import STLSwitchInfo
from tests.craft import build, erf_pcap, mad, native, smp, ud
from tests.fabric.made import ANSWER, GUID, SET, answer, ask, node, port_info, switch, switch_info
from tests.rules.cases import case

NODE_INFO, SWITCH_INFO, PORT_INFO, SL_TO_VL, P_KEY_TABLE = 0x11, 0x12, 0x15, 0x17, 0x16
SLOW: Any = partial(erf_pcap, step_ns=1_000_000_000)


def send(sl: int = 0, vl: int = 0, *, slid: int = 3, dlid: int = 5) -> bytes:
    """An RC SEND Only."""
    return native(0x04, bytes(8), slid=slid, dlid=dlid, lrh={"sl": sl, "vl": vl}, bth={"destqp": 0x12})


def lanes(*vls: int) -> bytes:
    """An SL to VL table: the lane of each SL; SLs beyond those named go to VL 0."""
    all_vls = [*vls, *[0] * (16 - len(vls))]
    return bytes(all_vls[i] << 4 | all_vls[i + 1] for i in range(0, 16, 2)).ljust(64, b"\0")


# the sender's own table drops SL 5
DROPS = [answer(3, NODE_INFO, node(3)), answer(3, SL_TO_VL, lanes(0, 0, 0, 0, 0, 15))]
case("LNK018", [*DROPS, send(5), send(5)], [*DROPS, send(4)], frames=[3], also=["RC002"])
case("LNK018", [*DROPS, send(5)], [send(5), *DROPS], frames=[3])


# two hosts at a switch; all four tables are known
def swept(*tables: tuple[list[int], int, bytes], hidden: int = -1) -> list[bytes]:
    """LID 3 at port 1 and LID 5 at port 2 of a switch, and some SL to VL tables: path, modifier, content. One port may be hidden."""
    shown = [
        ([], NODE_INFO, node(3), 0), ([], PORT_INFO, port_info(3), 1), ([1], NODE_INFO, switch(9, 2), 0),
        ([1], SWITCH_INFO, switch_info(), 0),
        *[([1], PORT_INFO, port_info(9 if number == 0 else 0), number) for number in (0, 1, 2) if number != hidden],
        ([1, 2], NODE_INFO, node(5), 0), ([1, 2], PORT_INFO, port_info(5), 1),
        *[(path, SL_TO_VL, body, modifier) for path, modifier, body in tables],
    ]  # fmt: skip
    return [smp(ANSWER, attribute, body, path=path, modifier=modifier) for path, attribute, body, modifier in shown]


TO_1, TO_0 = lanes(0, 1), lanes(0, 0)
EVERY = ([], 0, TO_1), ([1], 1 << 8 | 2, TO_1), ([1], 2 << 8 | 1, TO_1), ([1, 2], 0, TO_1)
ALL, SOME, ROUGH = swept(*EVERY), swept(*EVERY[:2], EVERY[3]), swept(*EVERY, hidden=0)
TO_2 = lanes(0, 2)
OTHERS, NARROW = swept(EVERY[0], ([1], 1 << 8 | 2, TO_0), *EVERY[2:]), swept(([], 0, TO_2), *EVERY[1:])
case("LNK017", [*ALL, send(0, 1)], [*ALL, send(1, 1)], frames=[14])
case("LNK017", [*ALL, send(1, 2)], [*NARROW, send(1, 2)], frames=[14])
case("LNK017", [*ALL, send(0, 1)], [*SOME, send(0, 1)], frames=[14])
# a lane that the port does not have; a port that may lead elsewhere; a table of port 0
case("LNK017", [*ALL, send(2, 1)], [*ALL, send(1, 0)], frames=[14])
case("LNK017", [*ALL, send(0, 1)], [*ROUGH, send(0, 1)], frames=[14])
case("LNK017", [*ALL, send(0, 1)], [*ALL, send(0, 1, slid=9)], frames=[14])


# the GID of host 3 with the LID of host 5
HOSTS = [one for lid in (3, 5) for one in (answer(lid, NODE_INFO, node(lid)), answer(lid, PORT_INFO, port_info(lid)))]


def global_packet(slid: int, guid: int) -> bytes:
    """A datagram with a GRH."""
    sgid, dgid = bytes([0xFE, 0x80, *bytes(6)]) + guid.to_bytes(8, "big"), bytes([0xFE, 0x80, *bytes(6), *bytes(7), 9])
    return ud(bytes(8), dest_qp=0x40, src_qp=0x50, q_key=7, slid=slid, dlid=9, grh={"sgid": sgid, "dgid": dgid})


def assigned(lid: int) -> bytes:
    """The manager writes the LID."""
    return ask(lid, PORT_INFO, method=SET, body=port_info(lid, port_state=0, port_physical_state=0), header={"transaction_id": 77})


WRITTEN = [*HOSTS, *(assigned(lid) for lid in (3, 5))]
STRANGE = global_packet(5, GUID + (3 << 4) + 1)
case("LNK019", [*WRITTEN, STRANGE], [*WRITTEN, global_packet(3, GUID + (3 << 4) + 1)], frames=[7])
case("LNK019", [*WRITTEN, STRANGE], [*WRITTEN, global_packet(5, 0x1234)], frames=[7])
# told again, or LIDs may have changed where the capture does not see it
case("LNK019", [*HOSTS, STRANGE, *HOSTS], [*HOSTS, STRANGE], frames=[5])

# port states: Active without Armed
INIT = [answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5, port_state=2))]


def sets(state: int) -> bytes:
    """The manager asks for a port state."""
    return ask(5, PORT_INFO, method=SET, body=port_info(5, port_state=state, port_physical_state=0))


REFUSED = answer(5, PORT_INFO, port_info(5, port_state=2), header={"status": 0x1C})
case("SEM012", [*INIT, sets(4), REFUSED], [*INIT, sets(3), sets(4), REFUSED], frames=[3])
case("SEM012", [*INIT, sets(4), REFUSED], [*INIT, answer(5, PORT_INFO, port_info(5, port_state=3)), sets(4), REFUSED], frames=[3])
# the port took it: ibdump missed what made it Armed, or there is no telling
case("SEM012", [*INIT, sets(4), REFUSED], [*INIT, sets(4), answer(5, PORT_INFO, port_info(5))], frames=[3])
case("SEM012", [*INIT, sets(4), REFUSED], [*INIT, sets(4)], frames=[3])


def complete(frames: list[bytes]) -> bytes:
    """A pcap of link type 247, which misses nothing."""
    records = (struct.pack("<IIII", 1_700_000_000, i, len(frame), len(frame)) + frame for i, frame in enumerate(frames))
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 247) + b"".join(records)


case("SEM012", complete([*INIT, sets(4)]), complete([*INIT, sets(4), answer(5, PORT_INFO, port_info(5))]), file=None, frames=[3],
     also=["CAP009"], twin_also=["CAP009"])  # fmt: skip

# M_Keys
KEY = 0x1122334455667788
HELD = [answer(5, NODE_INFO, node(5)), answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_lease_period=2), m_key=KEY)]
SEEN = ["MKY005"]


def read(key: int, method: int = 1) -> bytes:
    """A request for a P_Key table."""
    return ask(5, P_KEY_TABLE, method=method, m_key=key)


case("SMP023", [*HELD, read(0x8877665544332211, SET)], [*HELD, read(0x8877665544332212, SET)], frames=[3],
     also=["MKY002", *SEEN], twin_also=["MKY002", *SEEN])  # fmt: skip
IDLE = [send(slid=7, dlid=8)]
case(
    "MKY009",
    [*HELD, read(KEY, SET), *IDLE, read(KEY)],
    [*HELD, read(KEY, SET), read(KEY), read(KEY)],
    frames=[5],
    also=[*SEEN, "TXN001"],
    twin_also=[*SEEN, "TXN001"],
    file=SLOW,
)
# a tool that reads
READS = [*HELD, read(KEY), *IDLE, read(KEY)]
case("MKY009", [*HELD, read(KEY, SET), *IDLE, read(KEY)], READS, frames=[5], also=[*SEEN, "TXN001"], twin_also=SEEN, file=SLOW)


def omni(method: int, **values: Any) -> bytes:
    """SwitchInfo of Omni-Path."""
    ends: dict[str, Any] = {"slid": 2, "dlid": 1} if method == ANSWER else {"slid": 1, "dlid": 2}
    body = mad(0x01, method, SWITCH_INFO, build(STLSwitchInfo, **values), at=32, base_version=0x80, class_version=0x80)
    return ud(body, dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15}, **ends)


SHOWN, OMNI = omni(ANSWER, multicast_mask=4), ["OPA001"]
case("OPA005", [SHOWN, omni(SET, multicast_mask=3)], [SHOWN, omni(SET, multicast_mask=4)], frames=[2], also=OMNI, twin_also=OMNI)
CAN = omni(ANSWER, multicast_mask=4, is_addr_range_config_supported=1)
case("OPA005", [SHOWN, omni(SET, multicast_mask=3)], [CAN, omni(SET, multicast_mask=3)], frames=[2], also=OMNI, twin_also=OMNI)
