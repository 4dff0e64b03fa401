"""Proofs of the rules about subnet administration: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.classport import InformInfo
from ibdissect.wire.notice import Notice
from ibdissect.wire.sa import mask_for
from ibdissect.wire.sa_paths import MCMemberRecord, MultiPathRecord, PathRecord
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import NodeInfo, SMInfo
from tests.craft import build
from tests.rules.cases import case
from tests.rules.made.conversations import SECONDS, WAIT, gid_of
from tests.rules.made.conversations import member as gsi_member
from tests.rules.made.conversations import sa as gsi_sa
from tests.rules.made.mads import sa
from tests.subnet.made import answer, ask, node, p_keys, port_info

GET, SET, GET_TABLE, GET_RESP, GET_TABLE_RESP, NODE = 0x01, 0x02, 0x12, 0x81, 0x92, 0x11
SERVICE, PKEYS, PATH, MEMBER, INFORM, REPORT, TABLE = 0x31, 0x33, 0x35, 0x38, 3, 0x06, 0x12
SERVICE_RECORD = 0x31
PREFIX = bytes([0xFE, 0x80]) + bytes(6)
MEMBERSHIP: dict[str, Any] = {
    "mgid": bytes.fromhex("ff12401bffff00000000000000000001"), "port_gid": PREFIX + bytes(7) + b"\x01", "q_key": 0xB1B, "mlid": 0xC001,
    "mtu_selector": 2, "mtu": 4, "p_key": 0xFFFF, "rate_selector": 2, "rate": 3, "scope": 2, "join_state": 1,
}  # fmt: skip
JOIN = mask_for(MCMemberRecord, ["mgid", "port_gid", "join_state"])


def member(method: int, mask: int = JOIN, **values: Any) -> bytes:
    """A join, or the answer to it."""
    return sa(method, MEMBER, build(MCMemberRecord, **{**MEMBERSHIP, **values}), mask=mask)


def nodes(offset: int, **rmpp: Any) -> bytes:
    """A table of one NodeRecord."""
    info = build(
        NodeInfo, base_version=1, class_version=1, node_type=1, num_ports=1, node_guid=1, port_guid=2, partition_cap=32, local_port_num=1
    )
    record = build(NodeRecord, lid=1)[:4] + info + bytes(64)
    segment = {
        "rmpp_version": 1, "rmpp_type": 1, "active": 1, "first": 1, "last": 1, "segment_number": 1, "payload_length": 20 + len(record),
        **rmpp,
    }  # fmt: skip
    return sa(GET_TABLE_RESP, NODE, record, offset=offset, rmpp=segment)


def path(method: int, hop_limit: int, dgid: bytes = PREFIX) -> bytes:
    """A path from port 1 to port 2."""
    record = build(
        PathRecord, dgid=dgid + bytes(7) + b"\x02", sgid=PREFIX + bytes(7) + b"\x01", dlid=2, slid=1, hop_limit=hop_limit, p_key=0xFFFF
    )
    return sa(method, PATH, record, mask=mask_for(PathRecord, ["dgid", "sgid"]))


def later_segment(hop_limit: int) -> bytes:
    """The second segment of a table of paths, with the rest of a path and a whole one."""
    ends = {"dgid": PREFIX + bytes(7) + b"\x02", "sgid": PREFIX + bytes(7) + b"\x01", "dlid": 2, "slid": 1}
    record = build(PathRecord, **ends, hop_limit=hop_limit, p_key=0xFFFF)
    segment = {"rmpp_version": 1, "rmpp_type": 1, "active": 1, "segment_number": 2}
    return sa(GET_TABLE_RESP, PATH, bytes(56) + record, offset=8, rmpp=segment)


def subscription(**values: Any) -> bytes:
    """Set(InformInfo): all traps of one LID."""
    info = {"lid_range_begin": 3, "lid_range_end": 9, "is_generic": 1, "subscribe": 1, "type": 0xFFFF, "trap_number": 0xFFFF, "qpn": 1,
            "producer_type": 0xFFFFFF, **values}  # fmt: skip
    return sa(SET, INFORM, build(InformInfo, **info))


def service(lease: int, mask: int) -> bytes:
    """Set(ServiceRecord)."""
    record = build(ServiceRecord, service_id=7, service_gid=PREFIX + bytes(7) + b"\x01", service_p_key=0xFFFF, service_lease=lease)
    return sa(SET, SERVICE, record, mask=mask)


case("SA001", sa(GET_TABLE, NODE, mask=1 << 63), sa(GET_TABLE, NODE, mask=1 << 14))
case("SA001", sa(GET_TABLE, NODE, mask=1 << 63), sa(GET_TABLE, NODE, mask=1 << 63, rmpp={"rmpp_version": 1, "rmpp_type": 2, "active": 1}))
case("SA002", sa(GET, NODE), sa(GET, NODE, mask=1))
case("SA002", sa(GET, NODE), sa(GET, 1))
case("SA003", sa(GET_RESP, NODE, mask=1, status=0x0400), sa(GET_RESP, NODE, mask=1, status=0x001C))
case("SA004", nodes(3), nodes(14))
case("SA004", nodes(3), nodes(14), severity="error")
case("SA004", nodes(0), nodes(0, payload_length=20), severity="info")  # nothing to step over
# GetMulti asks with a MultiPathRecord and gets PathRecords; GetTraceTable asks with one as well
PATHS: dict[str, Any] = {"rmpp_version": 1, "rmpp_type": 1, "active": 1, "first": 1, "last": 1, "segment_number": 1, "payload_length": 148}
case("SA004", *(sa(0x94, 0x3A, 2 * build(PathRecord, mtu=4, rate=3), offset=words, rmpp=PATHS) for words in (3, 8)), severity="error")
BY_PORTS = mask_for(MultiPathRecord, ["sgid_count", "dgid_count"])
case("SA001", sa(GET_TABLE, 0x39, mask=BY_PORTS), sa(0x13, 0x39, build(MultiPathRecord, sgid_count=1, dgid_count=1), mask=BY_PORTS),
     also=["MAD018"])  # fmt: skip
case("SA005", sa(GET_RESP, NODE, mask=1, status=0x0900), sa(GET_RESP, NODE, mask=1, status=0x0800), twin_also=["SA003"])
case("SA007", sa(GET_RESP, NODE, mask=1, sm_key=1, status=0x0300), sa(GET, NODE, mask=1, sm_key=1), also=["SA003"])
case("SA008", sa(GET_TABLE, PKEYS, mask=1), sa(GET_TABLE, PKEYS, mask=1, sm_key=1))
case("SA009", member(SET, 1 << 16), member(SET))
CREATES = mask_for(MCMemberRecord, ["port_gid", "q_key", "t_class", "p_key", "sl", "flow_label", "join_state"])
case("SA009", member(SET, CREATES ^ 1 << 2), member(SET, CREATES))  # the SA composes the MGID
case("SA010", member(SET, join_state=0), member(GET_TABLE, join_state=0))
case("SA010", member(0x15, join_state=0), member(0x15))
case("SA011", member(GET_RESP, mlid=5), member(SET, mlid=5))
ASKS_MLID = mask_for(MCMemberRecord, ["mlid"])
case("SA011", member(GET_TABLE, ASKS_MLID, mlid=0), member(GET_TABLE, 1 << 0, mlid=0), severity="warning")
case("SA011", member(SET, JOIN | mask_for(MCMemberRecord, ["mlid"]), mlid=0xBFFF), member(SET, JOIN, mlid=0xBFFF))
case("SA012", member(GET_RESP, scope=5), member(SET, scope=5))
case("SA012", member(GET_RESP, scope=5), member(GET_RESP, scope=0), severity="info")
ASKS_SCOPE = JOIN | mask_for(MCMemberRecord, ["scope"])
case("SA012", member(SET, ASKS_SCOPE, scope=5), member(SET, scope=5), severity="warning")
case(
    "SA013",
    member(SET, JOIN | mask_for(MCMemberRecord, ["mtu_selector", "mtu"]), mtu_selector=3),
    member(SET, JOIN | mask_for(MCMemberRecord, ["mtu_selector"]), mtu_selector=3),
)
case("SA018", path(GET_RESP, 64), path(GET_RESP, 1))
case("SA018", path(GET_RESP, 64), path(GET_RESP, 64, bytes([0xFE, 0xC0]) + bytes(6)))
# the second segment of a table begins with 56 bytes of a path of the first one
case("SA018", later_segment(64), later_segment(1))
case("SA021", subscription(lid_range_begin=9, lid_range_end=3), subscription(lid_range_begin=9, lid_range_end=0))
case("SA021", subscription(subscribe=2), subscription(subscribe=0))
case("SA021", subscription(lid_range_begin=0xFFFF, lid_range_end=3, is_generic=3), subscription(lid_range_begin=0xFFFF, lid_range_end=3))
case("SA022", service(0, 1 << 4), service(0, 0))
case("SA025", sa(GET_RESP, NODE, mask=1, status=2), sa(GET_RESP, NODE, mask=1, status=1))
TRUSTED = [gsi_sa(GET, SERVICE_RECORD, mask=1, key=1), gsi_sa(GET_RESP, SERVICE_RECORD, mask=1)]
SERVES = [gsi_sa(GET, SERVICE_RECORD, mask=1, transaction=21), gsi_sa(GET_RESP, SERVICE_RECORD, mask=1, transaction=21), *WAIT]
case("SA006", [*TRUSTED, gsi_sa(GET, SERVICE_RECORD, mask=1, key=5, transaction=8), *SERVES],
     [*TRUSTED, gsi_sa(GET, SERVICE_RECORD, mask=1, key=1, transaction=8), *SERVES], frames=[3], twin_also=["TXN001"],
     file=SECONDS)  # fmt: skip
# that key was taken before
FIFTH = [gsi_sa(GET, SERVICE_RECORD, mask=1, key=5, transaction=6), gsi_sa(GET_RESP, SERVICE_RECORD, mask=1, transaction=6)]
LATE = gsi_sa(GET, SERVICE_RECORD, mask=1, key=5, transaction=8)
case("SA006", [*TRUSTED, LATE, *SERVES], [*TRUSTED, *FIFTH, LATE, *SERVES], frames=[3], twin_also=["TXN001"], file=SECONDS)
# the capture shows no answer to that sender
case("SA006", [*TRUSTED, LATE, *SERVES], [*TRUSTED, gsi_sa(GET, SERVICE_RECORD, mask=1, key=5, transaction=8, slid=6), *SERVES], frames=[3],
     file=SECONDS)  # fmt: skip
REFUSED = [gsi_member(SET, join_state=4), gsi_member(GET_RESP, status=0x0200)]
ALLOWED, FULL = [REFUSED[0], gsi_member(GET_RESP, join_state=4)], [gsi_member(SET), REFUSED[1]]
case("SA014", REFUSED, ALLOWED, frames=[1], also=["SA003"])
case("SA014", REFUSED, FULL, frames=[1], also=["SA003"], twin_also=["SA003"])


def gsi_path(method: int, *, mask: tuple[str, ...] = ("dgid", "sgid"), **values: Any) -> bytes:
    record = {"dgid": gid_of(5), "sgid": gid_of(6), "dlid": 5, "slid": 6, "p_key": 0xFFFF, "reversible": 1, "numb_path": 1, "hop_limit": 1}
    return gsi_sa(method, 0x35, build(PathRecord, **{**record, **values}), mask=mask_for(PathRecord, mask))


KNOWN = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5))]
ASSIGNED = ask(5, 0x15, method=SET, body=port_info(5, port_state=0, port_physical_state=0), header={"transaction_id": 77})
case("SA015", [*KNOWN, ASSIGNED, gsi_path(GET_RESP, dlid=9)], [*KNOWN, ASSIGNED, gsi_path(GET_RESP)], frames=[4])
case(
    "SA015",
    [*KNOWN, ASSIGNED, gsi_path(GET_RESP, dlid=9)],
    [*KNOWN, ASSIGNED, answer(5, 0x15, port_info(9)), gsi_path(GET_RESP)],
    frames=[4],
)
# told again, or the LID may have changed where the capture does not see it
case("SA015", [*KNOWN, gsi_path(GET_RESP, dlid=9), *KNOWN], [*KNOWN, gsi_path(GET_RESP, dlid=9)], frames=[3])
# a NodeRecord has no LMC
RECORD = gsi_sa(GET_RESP, 0x11, build(NodeRecord, lid=5)[:4] + node(5)[:40] + bytes(64))
case("SA015", [*KNOWN, gsi_path(GET_RESP, dlid=9), *KNOWN], [RECORD, gsi_path(GET_RESP, dlid=9), RECORD], frames=[3])
case("SA016", gsi_path(TABLE, mask=("sgid", "numb_path"), numb_path=0), gsi_path(TABLE, mask=("sgid",), numb_path=0))
case(
    "SA017",
    [gsi_path(GET, mask=("dgid", "sgid", "reversible")), gsi_path(GET_RESP, reversible=0)],
    [gsi_path(GET), gsi_path(GET_RESP, reversible=0)],
    frames=[2],
)


def gsi_subscription(subscribe: int, transaction: int, trap_number: int = 144, first: int = 0xFFFF) -> list[bytes]:
    """LID 5 subscribes to a trap, or cancels it, and the SA accepts."""
    info = build(InformInfo, lid_range_begin=first, is_generic=1, subscribe=subscribe, type=0xFFFF, trap_number=trap_number, qpn=1,
                 producer_type=0xFFFFFF)  # fmt: skip
    return [gsi_sa(SET, 3, info, transaction=transaction), gsi_sa(GET_RESP, 3, info, transaction=transaction)]


NOTICE = build(Notice, 80, is_generic=1, type=4, producer_type=1, trap_number=144, issuer_lid=5, data_details=bytes([0, 0, 0, 5, 0, 1]))
REPORTED = [WAIT[0], gsi_sa(REPORT, 2, NOTICE, transaction=9), gsi_sa(0x86, 2, NOTICE, transaction=9, slid=5, dlid=1)]
REFUSING = [*REPORTED[:2], gsi_sa(0x86, 2, NOTICE, transaction=9, status=0x0C, slid=5, dlid=1)]
OVER = [*gsi_subscription(1, 7), *gsi_subscription(0, 8)]
case("SA020", [*OVER, *REFUSING], [*gsi_subscription(1, 7), *REFUSING], frames=[6], file=SECONDS)
case("SA020", [*OVER, *REFUSING], [*gsi_subscription(1, 6, 128), *OVER, *REFUSING], frames=[6], file=SECONDS)
case("SA020", [*OVER, *REFUSING], [*gsi_subscription(1, 6, first=7), *OVER, *REFUSING], frames=[6], file=SECONDS)
# another program of that host takes it
case("SA020", [*OVER, *REPORTED[:2]], [*OVER, *REPORTED], frames=[6], file=SECONDS)


def gsi_service(p_key: int, mask: tuple[str, ...] = ("service_id", "service_p_key")) -> bytes:
    record = build(ServiceRecord, service_id=7, service_gid=gid_of(5), service_p_key=p_key, service_lease=60)
    return gsi_sa(SET, 0x31, record, mask=mask_for(ServiceRecord, mask))


TABLED = [*KNOWN, answer(5, 0x16, p_keys(0xFFFF, 0x8123))]
case("SA023", [*TABLED, gsi_service(0x8001)], [*TABLED, gsi_service(0x0123)], frames=[4])
case("SA023", [*TABLED, gsi_service(0x8001)], [*TABLED, gsi_service(0x8001, ("service_id",))], frames=[4])
# a virtual port, which has a table of its own
VIRTUAL = gsi_sa(SET, 0x31, build(ServiceRecord, service_id=7, service_gid=gid_of(7), service_p_key=0x8001, service_lease=60),
             mask=mask_for(ServiceRecord, ("service_id", "service_p_key")), grh={"sgid": gid_of(7), "dgid": gid_of(1)})  # fmt: skip
case("SA023", [*TABLED, gsi_service(0x8001)], [*TABLED, VIRTUAL], frames=[4])
STANDBY, MASTER = ([*KNOWN, answer(5, 0x20, build(SMInfo, guid=0x0002C90300001051, sm_state=state))] for state in (2, 3))
LOST = [gsi_sa(GET, SERVICE_RECORD, mask=1, slid=1, dlid=5), *WAIT]
case("SA024", [*STANDBY, *LOST], [*MASTER, *LOST], frames=[4], also=["TXN001"], twin_also=["TXN001"], file=SECONDS)
case("SA026", gsi_sa(GET_RESP, 0x35, build(PathRecord, mtu=4, rate=1)), gsi_sa(GET_RESP, 0x35, build(PathRecord, mtu=4, rate=2)))
case("SA026", gsi_sa(GET_RESP, 0x35, build(PathRecord, mtu=6, rate=3)), gsi_sa(GET_RESP, 0x35, build(PathRecord, mtu=5, rate=3)))
# 8 and 10 KB are MTUs of Omni-Path, at 100 Gb/s
case("SA026", gsi_sa(GET_RESP, 0x35, build(PathRecord, mtu=8, rate=16)), gsi_sa(GET_RESP, 0x35, build(PathRecord, mtu=7, rate=16)))
case("SA026", gsi_sa(GET_RESP, 0x35, build(PathRecord, mtu=7, rate=6)), gsi_sa(GET_RESP, 0x35, build(PathRecord, mtu=6, rate=15)))
TO_GROUP, TO_PORT = (build(PathRecord, dgid=gid_of(7), sgid=gid_of(5), dlid=lid, slid=5, mtu=4, rate=3) for lid in (0xC005, 0xBFFF))
GROUP_PATH = build(PathRecord, dgid=b"\xff\x12" + bytes(13) + b"\1", sgid=gid_of(5), dlid=0xC005, slid=5, mtu=4, rate=3)
case("SA027", gsi_sa(GET_RESP, 0x35, TO_GROUP), gsi_sa(GET_RESP, 0x35, TO_PORT))
case("SA027", gsi_sa(GET_RESP, 0x35, TO_GROUP), gsi_sa(GET_RESP, 0x35, GROUP_PATH))
# an SA that answers nobody starts or is busy; one that answers requests with several keys does not look at them
UNKEYED = gsi_sa(GET, SERVICE_RECORD, mask=1, transaction=9)
NINTH = [gsi_sa(GET, SERVICE_RECORD, mask=1, key=9, transaction=6), gsi_sa(GET_RESP, SERVICE_RECORD, mask=1, transaction=6)]
for others, severity in (([], "warning"), ([UNKEYED], "info"), (NINTH, "info")):
    case("SA006", [*TRUSTED, *others, LATE, *SERVES], TRUSTED, severity=severity, file=SECONDS)
# it answers nobody any more, as a host that is down
case("SA006", [*TRUSTED, *SERVES[:2], LATE, *WAIT], TRUSTED, severity="info", file=SECONDS)
# unless it did just before
case("SA006", [*TRUSTED, *SERVES[:2], LATE, *WAIT * 300], TRUSTED, severity="warning")
