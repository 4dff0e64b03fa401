"""P_Keys of single packets, tables and paths: the bytes that are marked, and what is one finding."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ibdissect.wire.notice import Notice, TrapSwitchPKey
from ibdissect.wire.sa_paths import PathRecord
from tests.cases import few
from tests.craft import build, gmp, native, rc, smp, ud
from tests.rules.findings import Facts, counted, facts_of
from tests.rules.made.gids import gid
from tests.rules.PKY.cases import table_record
from tests.subnet.made import ANSWER, GET, SET, answer, node, p_keys

NODE_INFO, P_KEY_TABLE, PATH_RECORD, NOTICE = 0x11, 0x16, 0x35, 0x02
GET_TABLE_RESP, MULTI_RESP, TRAP = 0x92, 0x94, 0x05


def rc_send(key: int, qp: int = 0x12, **kw: Any) -> bytes:
    return native(bth={"p_key": key, "destqp": qp}, **kw)


def test_a_packet_of_no_partition() -> None:
    assert facts_of([rc_send(0x8000), rc_send(0), rc_send(0x8001), rc_send(1)], "PKY002") == [
        Facts(1, "P_Key 0x8000 belongs to partition 0, which does not exist", "8000", 0x8000, times=2)
    ]
    assert counted([rc_send(0, 0), rc_send(0, 1), rc_send(0, 2), rc_send(0, 2, slid=7)], "PKY002") == [(2, 1), (3, 1), (4, 1)]


def test_management_with_another_key_than_the_default() -> None:
    """Of the subnet by sender and key, general by sender, receiver and key."""

    def subnet(key: int, **kw: Any) -> bytes:
        return smp(GET, NODE_INFO, bth={"p_key": key}, **kw)

    def general(key: int, **kw: Any) -> bytes:
        return gmp(4, GET, 0x12, bth={"p_key": key}, **kw)

    frames = [subnet(key, **kw) for key, kw in ((0x8001, {}), (0x8001, {"dlid": 7}), (0x8002, {}), (0x8001, {"slid": 9}), (0, {}))]
    frames += [subnet(0xFFFF), subnet(0x7FFF), general(0x8001)]
    seen = facts_of(frames, "PKY006")
    assert seen[0] == Facts(1, "a subnet management packet with P_Key 0x8001; the default is 0xffff or 0x7fff", "8001", 0x8001, times=2)
    assert [(one.frame, one.times) for one in seen] == [(1, 2), (3, 1), (4, 1), (5, 1)]
    frames = [general(key, **kw) for key, kw in ((0x8001, {}), (0x8001, {"dlid": 7}), (0x8002, {}), (0x8001, {"slid": 9}), (0x8001, {}))]
    frames += [general(0xFFFF), general(0x7FFF), general(0), general(0x8000), subnet(0x8001)]
    seen = facts_of(frames, "PKY007")
    assert seen[0] == Facts(1, "a management datagram with P_Key 0x8001; the default is 0xffff or 0x7fff", "8001", 0x8001, times=2)
    assert [(one.frame, one.times) for one in seen] == [(1, 2), (2, 1), (3, 1), (4, 1)]


def block(*keys: int, method: int = SET, number: int = 0, status: int = 0, **kw: Any) -> bytes:
    """A block of a P_Key table."""
    return smp(method, P_KEY_TABLE, p_keys(*keys), modifier=number, header={"status": status}, **kw)


@pytest.mark.slow
def test_a_table_without_its_first_entry() -> None:
    text = "entry 0 of the P_Key table is empty while others hold partitions"
    assert facts_of([block(0, 0x8001), block(0, 0x8001)], "PKY008") == [Facts(1, text, "", None, times=2)]
    assert counted([block(0x8000, 1), block(*[0] * 31, 7), block(0, 1, slid=4), block(0, 1, dlid=4)], "PKY008") == [(1, 2), (3, 1), (4, 1)]
    assert counted([block(0, 1, path=path, method=ANSWER) for path in ([1], [1, 2], [1], [2])], "PKY008") == [(1, 2), (2, 1), (4, 1)]
    assert counted([block(0, 1, number=number) for number in (0, 0x10000, 0x10001, 1)], "PKY008") == [(1, 1)], "not later ones"
    assert counted([block(0), block(0, 1), block(0), block(1)], "PKY008") == [(2, 1)], "each block by itself"
    assert counted([block(0), block(0x8000), block(1), block(0x7FFF, 1), block(0, 0x8000), block(0xFFFF)], "PKY008") == []
    assert counted([block(0, 1, method=method) for method in (GET, SET, ANSWER)], "PKY008") == [(2, 2)]
    assert counted([block(0, 1, method=ANSWER, status=status) for status in (0x1C, 0, 0x8000, 0x801C)], "PKY008") == [(2, 2)]


def test_the_same_key_twice_in_a_block() -> None:
    text = "P_Key 0x8001 is twice in block 0 of the P_Key table, as entries 1 and 2"
    assert facts_of([block(0xFFFF, 0x8001, 0x8001)], "PKY009") == [Facts(1, text, "", None)]
    assert counted([block(1, *range(2, 32), 1), block(7, 7, method=ANSWER), block(7, 7, method=GET)], "PKY009") == [(1, 1), (2, 1)]
    assert counted([block(7, 7, method=ANSWER, status=0x1C), block(7, 7, method=ANSWER, status=0x8000)], "PKY009") == [(2, 1)]
    assert counted([block(7, 7), block(7), block(7, 7, slid=4), block(0)], "PKY009") == [(1, 1), (3, 1)], "each block by itself"
    assert counted([block(0x8001, 1), block(0, 0), block(0x8000, 0x8000), block(*range(1, 33))], "PKY009") == []


def test_a_full_member_of_nothing_is_written() -> None:
    text = "Set(P_KeyTable) with an entry 0x8000: partition 0 does not exist, an empty entry is 0x0000"
    assert facts_of([block(0xFFFF, 0x8000, 1, 0x8000)], "PKY010") == [Facts(1, text, "8000 8000", 0x8000)]
    assert counted([block(0x8000), block(0x8000, path=[1])], "PKY010") == [(1, 1), (2, 1)]
    assert counted([block(0x8000, method=ANSWER), block(0), block(0x8001), block(0x0001)], "PKY010") == []


def trap259(**values: int) -> bytes:
    method = values.pop("method", TRAP)
    fields = {"data_valid": 7, "lidaddr1": 4, "lidaddr2": 5, "pkey": 0x8123, "swlidaddr": 2, "portno": 7, **values}
    details = build(TrapSwitchPKey, **fields)
    notice = build(Notice, is_generic=1, type=2, producer_type=2, trap_number=259, issuer_lid=2, data_details=details)
    return smp(method, NOTICE, notice, slid=2)


def test_a_switch_that_refused_a_packet() -> None:
    """One finding for each way, port and key."""
    text = "switch LID 2 port 7 refused P_Key 0x8123 from LID 4 to LID 5"
    assert facts_of([trap259(), trap259()], "PKY014") == [Facts(1, text, "8123", 0x8123, times=2)]
    others = [trap259(**{name: 9}) for name in ("lidaddr1", "lidaddr2", "pkey", "swlidaddr", "portno")]
    assert counted([trap259(), *others, trap259()], "PKY014") == [(1, 2), *((i, 1) for i in range(2, 7))]
    assert counted([trap259(method=7), trap259(method=ANSWER)], "PKY014") == []


def group(key: int, to: str = "ff12:401b:8001::ffff:ffff", slid: int = 1) -> bytes:
    """A packet to a multicast group."""
    network = {"sgid": gid("fe80::1"), "dgid": gid(to)}
    return ud(b"arp arp ", dest_qp=0xFFFFFF, src_qp=9, q_key=0xB1B, dlid=0xC001, slid=slid, grh=network, bth={"p_key": key})


def test_limited_members_in_groups_of_ip() -> None:
    text = "a limited member (P_Key 0x0001) sends to the group ff12:401b:8001::ffff:ffff: other limited members do not hear it"
    assert facts_of([group(1), group(1)], "PKY019") == [Facts(1, text, "0001", 1, times=2)]
    assert counted([group(1), group(2), group(1, slid=7), group(1, "ff12:401b:8001::1")], "PKY019") == [(1, 2), (2, 1), (3, 1)]
    assert counted([group(1, "ff12:601b:8001::1")], "PKY019") == [(1, 1)], "IPv6"
    assert counted([group(0x8001), group(1, "ff12:401c:8001::1"), group(1, "ff12:411b:8001::1"), group(1, "fe80:401b::1")], "PKY019") == []


def test_a_packet_in_another_partition_than_its_group() -> None:
    to = "ff12401b8001000000000000ffffffff"
    text = "P_Key 0xffff to the group ff12:401b:8001::ffff:ffff, which is of partition 0x0001"
    assert facts_of([group(0xFFFF), group(0xFFFF)], "PKY020") == [Facts(1, text, to, to, times=2)]
    plain = native(bth={"p_key": 7})
    assert counted([plain, group(2), plain, group(2, slid=7), group(3), group(2, "ff12:401b:8001::1")], "PKY020") == [
        (2, 1),
        (4, 1),
        (5, 1),
        (6, 1),
    ]
    assert counted([group(1), group(0x8001), group(0x8101, "ff12:401b:8101::1"), group(2, "ff12:501b:8001::1")], "PKY020") == []
    assert counted([group(0x8001, "ff12:401b:8101::1"), group(0x8101), group(0x0102, "ff12:601b:8101::1")], "PKY020") == [
        (1, 1),
        (2, 1),
        (3, 1),
    ]


def path(key: int, slid: int = 3, dlid: int = 5, method: int = ANSWER) -> bytes:
    """The SA tells a path."""
    ends: dict[str, Any] = {"dgid": gid("fe80::5"), "sgid": gid("fe80::3"), "dlid": dlid, "slid": slid, "p_key": key}
    segment = struct.pack(">BBBBII", 1, 1, 7, 0, 1, 20 + 64) if method in (GET_TABLE_RESP, MULTI_RESP) else bytes(12)
    return gmp(3, method, PATH_RECORD, segment + bytes(8) + struct.pack(">H", 8) + bytes(10) + build(PathRecord, **ends), at=24)


def table(lid: int, *keys: int) -> list[bytes]:
    return [answer(lid, NODE_INFO, node(lid)), answer(lid, P_KEY_TABLE, p_keys(*keys))]


ENDS = [*table(3, 0xFFFF, 0x1234, 0x8777), *table(5, 0xFFFF, 0x1234, 0x0777, 0x8042)]
SHOWN = "showed a P_Key table"


@few("chunks", [(), (4,), (5,)], fast=(0,))
def test_a_path_between_ports_that_share_no_partition(chunks: tuple[int, ...]) -> None:
    text = "path from LID 3 to LID 5 with P_Key 0x9999: LID 3 is not in that partition"
    assert facts_of([*ENDS, path(0x9999)], "PKY018", chunks=chunks) == [Facts(5, text, "9999", 0x9999, ((2, SHOWN),), "learnt")]
    seen = facts_of([*ENDS, path(0x8042), path(0x0042, 5, 3)], "PKY018", chunks=chunks)
    assert [one.message[-30:] for one in seen] == ["LID 3 is not in that partition"] * 2
    seen = facts_of([*table(5, 0xFFFF), *table(3, 0x8001, 0xFFFF), path(0x8001)], "PKY018", chunks=chunks)
    assert [(one.message[-30:], one.proof) for one in seen] == [("LID 5 is not in that partition", ((2, SHOWN),))]
    limited = "path from LID 3 to LID 5 with P_Key 0x1234: both are limited members"
    assert facts_of([*ENDS, path(0x1234)], "PKY018", chunks=chunks) == [
        Facts(5, limited, "1234", 0x1234, ((2, SHOWN), (4, SHOWN)), "learnt")
    ]


@pytest.mark.slow
def test_paths_that_may_be() -> None:
    """One end is a full member, partition 0 is another fault, and of ports that are not known nothing is."""
    assert counted([*ENDS, path(0x8777), path(0x0777), path(0xFFFF), path(0x7FFF), path(0), path(0x8000)], "PKY018") == []
    assert counted([*ENDS, path(0x1234, 3, 3), path(0x1234, 3, 6), path(0x9999, 6, 5)], "PKY018") == []
    assert counted([*ENDS[:3], path(0x1234), path(0x9998, 5, 3)], "PKY018") == [], "its table was not shown"
    both = [*table(3, 0xFFFF, 0x1234, 0x9234), *table(5, 0xFFFF, 0x1234)]
    assert counted([*both, path(0x1234), path(0x9234)], "PKY018") == [], "it is both"
    assert counted([*ENDS, path(0x9999, method=GET), path(0x9999, method=SET), gmp(3, ANSWER, PATH_RECORD)], "PKY018") == []


@pytest.mark.slow
def test_paths_are_counted_by_ends_and_partition() -> None:
    frames = [*ENDS, path(0x9999), path(0x1999), path(0x9999, 5, 3), path(0x9999), rc(0x04, bytes(8))]
    for chunks in ((), (5,), (6,)):
        assert counted(frames, "PKY018", chunks=chunks) == [(5, 2), (6, 1), (7, 1)]
    for method in (GET_TABLE_RESP, MULTI_RESP):
        assert counted([*ENDS, path(0x9999, method=method)], "PKY018") == [(5, 1)]


def test_a_record_of_the_sa_names_its_block() -> None:
    keys, opensm = (0xFFFF, 0x8001, 0x8001), "in block 768 (3 if the SA sends it in the byte order of its host, as OpenSM does) of"
    for number, text in ((3, "in block 3 of"), (0x300, opensm), (0x301, "in block 769 of"), (0, "in block 0 of")):
        (twice,) = facts_of([table_record(number, *keys)], "PKY009")
        assert text in twice.message
    (of_smp,) = facts_of([block(*keys, number=0x300)], "PKY009")
    assert "in block 768 of" in of_smp.message
