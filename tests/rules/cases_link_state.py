"""Proofs of the rules about packets, groups and requests that do not fit the subnet as learnt."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.opa import STLSwitchInfo
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sa_paths import MCMemberRecord, PathRecord
from tests.craft import build, gmp, mad, native, smp, ud
from tests.fabric.made import ANSWER, GET, answer, node, p_keys, port_info, switch, switch_info
from tests.rules.cases import case

NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE = 0x11, 0x12, 0x15, 0x16
PATH_RECORD, MEMBER_RECORD = 0x35, 0x38


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


def data(size: int = 8, *, dlid: int = 5, vl: int = 0, grh: dict[str, Any] | None = None, **bth: Any) -> bytes:
    return native(0x04, bytes(size), slid=1, dlid=dlid, lrh={"vl": vl}, grh=grh, bth=bth)


packet("LNK022", data(512), data(256), sweep(neighbor_mtu=1))
packet("LNK016", data(vl=3), data(vl=0))
packet("LNK016", data(vl=3), data(vl=1), sweep(operational_vls=2))
packet("LNK020", data(dlid=7), data(dlid=2))
case("LNK020", [*sweep(), data(dlid=7)], [*sweep()[:-1], data(dlid=7)], frames=[10])
packet("LNK021", data(dlid=5), data(dlid=2), sweep(top=4))
GIDS: dict[str, Any] = {"dgid": b"\xfe\x80" + bytes(13) + b"\x05"}
OWN = bytes(13) + b"\x01"
packet("GRH013", data(grh={**GIDS, "sgid": b"\xfe\x90" + OWN}), data(grh={**GIDS, "sgid": b"\xfe\x80" + OWN}))
TABLE = [answer(1, NODE_INFO, node(1)), answer(1, P_KEY_TABLE, p_keys(0xFFFF, 0x8123))]
packet("PKY004", data(p_key=0x9999), data(p_key=0x8123), TABLE)

# groups
MGID = bytes.fromhex("ff12401b81230000") + bytes(7) + b"\x01"
GROUP: dict[str, Any] = {"mgid": MGID, "mlid": 0xC001, "q_key": 0xB1B, "p_key": 0x8123, "mtu": 4, "rate": 3, "join_state": 1, "scope": 2,
         "mtu_selector": 2, "rate_selector": 2, "packet_life_time_selector": 2, "packet_life_time": 18}  # fmt: skip


def member(**values: Any) -> bytes:
    port = b"\xfe\x80" + bytes(13) + b"\x05"
    return gmp(3, 0x81, MEMBER_RECORD, build(MCMemberRecord, **{**GROUP, "port_gid": port, **values}), at=56, slid=1, dlid=5,
               bth={"p_key": 0xFFFF})  # fmt: skip


def sent(*, dlid: int = 0xC001, q_key: int = 0xB1B, p_key: int = 0x8123) -> bytes:
    grh = {"dgid": MGID, "sgid": b"\xfe\x80" + bytes(13) + b"\x01"}
    return ud(b"\x08\x00" + bytes(10), dest_qp=0xFFFFFF, src_qp=0x34, q_key=q_key, slid=1, dlid=dlid, grh=grh,
              bth={"p_key": p_key, "destqp": 0xFFFFFF})  # fmt: skip


packet("GRH009", sent(dlid=0xC002), sent(), [member()])
packet("QKY004", sent(q_key=0x1111), sent(), [member()])
packet("PKY017", sent(p_key=0x8124), sent(p_key=0x8123), [member()], also=["PKY020"])
case("GRH009", [member(), sent(dlid=0xC002)], [sent(dlid=0xC002), member()], frames=[2])
SMALL = [answer(2, NODE_INFO, switch(2)), answer(2, SWITCH_INFO, switch_info(multicast_fdb_cap=1))]
packet("MCG006", member(mgid=MGID[:-1] + b"\x02", mlid=0xC002), member(mgid=MGID[:-1] + b"\x02"), [*SMALL, member()])

# requests
packet("SMP005", smp(GET, NODE_INFO, path=[1, 2], dr={"hop_pointer": 2, "dr_dlid": 5}, dlid=0xFFFF),
       smp(GET, NODE_INFO, path=[1], dr={"hop_pointer": 1, "dr_dlid": 5}, dlid=0xFFFF), also=["SMP011"], twin_also=["SMP011"])  # fmt: skip
RETURN: dict[str, Any] = {"hop_pointer": 2}
case("SMP010", smp(ANSWER, NODE_INFO, node(5), path=[1, 2], dr={**RETURN, "return_path": bytes([0, 1])}),
     smp(ANSWER, NODE_INFO, node(5), path=[1, 2], dr={**RETURN, "return_path": bytes([0, 1, 3])}))  # fmt: skip


def counters(port: int, lid: int) -> bytes:
    return gmp(4, GET, 0x12, build(PortCounters, port_select=port), slid=1, dlid=lid)


packet("PM001", counters(0, 5), counters(1, 5))
packet("PM001", counters(0, 5), counters(0, 2))


def path(p_key: int) -> bytes:
    record: dict[str, Any] = {"dgid": b"\xfe\x80" + bytes(13) + b"\x05", "sgid": b"\xfe\x80" + bytes(13) + b"\x01",
              "dlid": 5, "slid": 1, "p_key": p_key,
              "reversible": 1, "numb_path": 1, "mtu_selector": 2, "mtu": 4, "rate_selector": 2, "rate": 3,
              "packet_life_time_selector": 2, "packet_life_time": 18}  # fmt: skip
    return gmp(3, 0x81, PATH_RECORD, build(PathRecord, **record), at=56, slid=1, dlid=5)


BOTH = [*TABLE, answer(5, NODE_INFO, node(5)), answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x0123, 0x0042))]
packet("PKY018", path(0x8042), path(0x8123), BOTH)
LIMITED = [TABLE[0], answer(1, P_KEY_TABLE, p_keys(0xFFFF, 0x0123)), *BOTH[2:]]
case("PKY018", [*LIMITED, path(0x0123)], [*BOTH, path(0x0123)], frames=[5])


def omni(**values: Any) -> bytes:
    """A GetResp(SwitchInfo) of Omni-Path."""
    body = build(STLSwitchInfo, **values)
    return ud(mad(0x01, ANSWER, SWITCH_INFO, body, at=32, base_version=0x80, class_version=0x80), dest_qp=0, src_qp=0, q_key=0,
              lrh={"vl": 15})  # fmt: skip


OMNI = ("OPA001",)
case("OPA002", omni(linear_fdb_cap=0x1000, linear_fdb_top=0x8000), omni(linear_fdb_cap=0x1000, linear_fdb_top=0xFFF),
     also=OMNI, twin_also=OMNI)  # fmt: skip
case("OPA003", omni(multicast_fdb_cap=16, multicast_fdb_top=0xC010), omni(multicast_fdb_cap=16, multicast_fdb_top=0xC00F),
     also=OMNI, twin_also=OMNI)  # fmt: skip
case("OPA003", omni(multicast_fdb_cap=16, multicast_fdb_top=0xF0000010), omni(multicast_fdb_cap=16, multicast_fdb_top=0xF000000F),
     also=OMNI, twin_also=OMNI)  # fmt: skip
