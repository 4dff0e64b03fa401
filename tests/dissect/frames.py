"""Frames of all kinds for the tests of this room, with keys, strings and lengths to stumble over."""

from __future__ import annotations

from ibdissect.wire.sm import NodeDescription
from tests.craft import build, gmp, native, put, rc, roce2, smp, ud

M_KEY, SM_KEY, R_KEY, Q_KEY, TRAP_KEY = 0x1122334455667788, 0x99AABBCCDDEEFF01, 0x0BADCAFE, 0x00C0FFEE, 0x7766554433221100
HOSTILE = "\x1b[31m[bold]</script>=1+1\u202e\x00"


def trap_256() -> bytes:
    """A trap about a wrong M_Key, which it repeats."""
    details = build("TrapMKey", lidaddr=7, method=2, attributeid=0x15, mkey=TRAP_KEY)
    notice = build("Notice", is_generic=1, type=2, producer_type=1, trap_number=256, issuer_lid=7, data_details=details)
    return smp(0x05, 0x0002, notice, slid=7, dlid=1)


def path_query() -> bytes:
    """SubnAdmGet(PathRecord) by SGID and DGID, with an SM_Key."""
    sgid, dgid = bytes.fromhex("fe800000000000000002c90300001491"), bytes.fromhex("ff12401bffff000000000000ffffffff")
    record = build("PathRecord", sgid=sgid, dgid=dgid)
    frame = bytearray(gmp(0x03, 0x01, 0x0035, record, at=56))
    start = 28
    frame[start + 36 : start + 44] = SM_KEY.to_bytes(8, "big")
    frame[start + 48 : start + 56] = (0b1100).to_bytes(8, "big")
    return bytes(frame)


def unknown_attribute() -> bytes:
    """A subnet management attribute that nobody declared."""
    return smp(0x01, 0x7777, bytes(range(64)))


def all_frames() -> list[bytes]:
    """One of each."""
    description = bytearray(64)
    put(description, NodeDescription.node_string, HOSTILE)
    return [
        smp(0x01, 0x0020, path=[1, 3], m_key=M_KEY),
        smp(0x81, 0x0020, build("SMInfo", guid=0x2C90300001491, sm_key=SM_KEY, sm_state=3), path=[1, 3], m_key=M_KEY),
        smp(0x81, 0x0010, bytes(description), m_key=M_KEY + 1),
        trap_256(),
        path_query(),
        unknown_attribute(),
        rc(0x0A, b"abc", ext={"RETH": {"va": 0x1000, "r_key": R_KEY, "dmalen": 3}}),
        rc(0x11, ext={"AETH": {"syndrome": 0x60, "msn": 5}}),
        rc(0x11, ext={"AETH": {"syndrome": 0x20 | 12, "msn": 5}}),
        ud(b"hello", dest_qp=0x48, q_key=Q_KEY),
        ud(b"again", dest_qp=0x48, q_key=Q_KEY),
        native(0x04, b"x" * 40, grh={"sgid": bytes.fromhex("fe800000000000000002c90300001491"), "dgid": bytes(15) + b"\x01"}),
        native(0x04, b"x" * 40, lrh={"pktlen": 2000}),
        native(0x04, b"")[:15],
        native(0x04, b"abcd") + b"\xee\xff",
        native(0x1F, b"payload of an OpCode without meaning"),
        gmp(0x04, 0x01, 0x0012, b"\0\x07", at=64),
    ]


def ethernet_frames() -> list[bytes]:
    """RoCE v2, and what stands beside it."""
    arp = bytes.fromhex("ffffffffffff0200000000010806000108000604000102000000000100000000000000000000c0a84d02")
    lldp = bytes.fromhex("0180c200000e02000000000188cc0207040200000000010602")
    return [roce2(0x04, b"hello"), roce2(0x81, bytes(16)), arp, lldp, b"\x01\x02"]
