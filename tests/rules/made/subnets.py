"""Small subnets and their multicast groups, for proofs of several families."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.sa_paths import MCMemberRecord, PathRecord
from tests.craft import build, gmp, native, rc, smp, ud
from tests.rules.cases import case
from tests.subnet.made import ANSWER, node, port_info, switch, switch_info

NODE_INFO, SWITCH_INFO, PORT_INFO, PATH_RECORD, MEMBER_RECORD = 0x11, 0x12, 0x15, 0x35, 0x38


def back(attribute: int, body: bytes, path: list[int], **kw: Any) -> bytes:
    return smp(ANSWER, attribute, body, path=path, **kw)


def sweep(top: int = 10, **values: Any) -> list[bytes]:
    """A switch of two ports with an adapter at each, LIDs 1, 2 and 5, read completely."""
    end = {"operational_vls": 1, **values}
    outside = port_info(0, **end)
    return [
        back(NODE_INFO, node(1), []), back(PORT_INFO, port_info(1, **end), []),
        back(NODE_INFO, switch(2, 2, local_port_num=1), [1]), back(SWITCH_INFO, switch_info(linear_fdb_top=top), [1]),
        back(PORT_INFO, port_info(2, **end), [1], modifier=0),
        back(PORT_INFO, outside, [1], modifier=1), back(PORT_INFO, outside, [1], modifier=2),
        back(NODE_INFO, node(5), [1, 2]), back(PORT_INFO, port_info(5, **end), [1, 2]),
    ]  # fmt: skip


def packet(code: str, bad: bytes, good: bytes, known: list[bytes] | None = None, **kw: Any) -> None:
    known = sweep() if known is None else known
    case(code, [*known, bad], [*known, good], frames=[len(known) + 1], **kw)


def data(size: int = 8, *, slid: int = 1, dlid: int = 5, vl: int = 0, grh: dict[str, Any] | None = None, **bth: Any) -> bytes:
    return native(0x04, bytes(size), slid=slid, dlid=dlid, lrh={"vl": vl}, grh=grh, bth=bth)


def works(slid: int, dlid: int, p_key: int = 0xFFFF) -> list[bytes]:
    """A SEND and its acknowledgement."""
    return [native(0x04, bytes(8), slid=slid, dlid=dlid, bth={"p_key": p_key}), rc(0x11, slid=dlid, dlid=slid, bth={"p_key": p_key})]


# groups
MGID = bytes.fromhex("ff12401b81230000") + bytes(7) + b"\x01"
GROUP: dict[str, Any] = {"mgid": MGID, "mlid": 0xC001, "q_key": 0xB1B, "p_key": 0x8123, "mtu": 4, "rate": 3, "join_state": 1, "scope": 2,
         "mtu_selector": 2, "rate_selector": 2, "packet_life_time_selector": 2, "packet_life_time": 18}  # fmt: skip


def member(*, by: int = 1, port: int = 1, **values: Any) -> bytes:
    """The SA's answer, from its LID, that a port is a member of the group: the one that sends below, or another one."""
    port_gid = b"\xfe\x80" + bytes(13) + bytes([port])
    return gmp(3, 0x81, MEMBER_RECORD, build(MCMemberRecord, **{**GROUP, "port_gid": port_gid, **values}), at=56, slid=by, dlid=5,
               bth={"p_key": 0xFFFF})  # fmt: skip


def sent(*, dlid: int = 0xC001, q_key: int = 0xB1B, p_key: int = 0x8123, src_qp: int = 0x34) -> bytes:
    grh = {"dgid": MGID, "sgid": b"\xfe\x80" + bytes(13) + b"\x01"}
    return ud(b"\x08\x00" + bytes(10), dest_qp=0xFFFFFF, src_qp=src_qp, q_key=q_key, slid=1, dlid=dlid, grh=grh,
              bth={"p_key": p_key, "destqp": 0xFFFFFF})  # fmt: skip


def path(p_key: int, *, dlid: int = 5) -> bytes:
    record: dict[str, Any] = {"dgid": b"\xfe\x80" + bytes(13) + b"\x05", "sgid": b"\xfe\x80" + bytes(13) + b"\x01",
              "dlid": dlid, "slid": 1, "p_key": p_key,
              "reversible": 1, "numb_path": 1, "mtu_selector": 2, "mtu": 4, "rate_selector": 2, "rate": 3,
              "packet_life_time_selector": 2, "packet_life_time": 18}  # fmt: skip
    return gmp(3, 0x81, PATH_RECORD, build(PathRecord, **record), at=56, slid=1, dlid=5)
