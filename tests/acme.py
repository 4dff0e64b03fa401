"""A capture for plugin tests, from a vendor ACME: REQ, REP, messages on the connection, datagrams of vendor classes."""

from __future__ import annotations

from collections.abc import Sequence

from tests.craft import build, erf_pcap, gmp, mad, put, rc, ud

SERVICE = 0x0000_00AC_E000_0001
ACTIVE_QP, PASSIVE_QP = 0x111, 0x222


def connection(service: int, private: bytes = b"", *, accepted: bytes = b"", psn: int = 0, gids: Sequence[bytes] = ()) -> list[bytes]:
    """REQ from LID 1 to LID 2 with `private` data, and its REP with `accepted`; the PSNs of the active side begin with `psn`.

    `gids`: those of both ends, behind routers.
    """
    from ibdissect.wire.cm import REP, REQ

    routed = {"primary_local_port_gid": gids[0], "primary_remote_port_gid": gids[1]} if gids else {}
    there, back = ({"sgid": gids[0], "dgid": gids[1]}, {"sgid": gids[1], "dgid": gids[0]}) if gids else (None, None)
    req = bytearray(build(REQ, local_communication_id=7, service_id=service, local_qpn=ACTIVE_QP, primary_local_port_lid=1,
                          primary_remote_port_lid=2, starting_psn=psn, **routed))  # fmt: skip
    req[REQ.private_data.bit // 8 :] = private.ljust(REQ.size - REQ.private_data.bit // 8, b"\0")
    rep = bytearray(build(REP, local_communication_id=9, remote_communication_id=7, local_qpn=PASSIVE_QP))
    put(rep, REP.private_data, accepted)
    return [
        gmp(0x07, 0x03, 0x0010, bytes(req), at=24, slid=1, dlid=2, grh=there),
        gmp(0x07, 0x03, 0x0013, bytes(rep), at=24, slid=2, dlid=1, grh=back),
    ]


def message(payload: bytes, *, opcode: int = 0x04, answer: bool = False) -> bytes:
    """A message on the connection, from the active side unless it is an answer."""
    ends = {"slid": 2, "dlid": 1} if answer else {"slid": 1, "dlid": 2}
    return rc(opcode, payload, bth={"destqp": ACTIVE_QP if answer else PASSIVE_QP}, **ends)


def vendor(mgmt_class: int, attr_id: int, body: bytes, *, oui: int = 0x00ACE1) -> bytes:
    """A datagram of the second vendor range, with the OUI before its data."""
    data = bytearray(mad(mgmt_class, 0x81, attr_id, body, at=40))
    data[37:40] = oui.to_bytes(3, "big")
    return ud(bytes(data))


BEACON = b"\x00\x05\x03hey\x1e\x61"


def frames() -> list[bytes]:
    """Nine frames; 3 and 6 violate rules of the package in tests/plugin_package."""
    return [
        *connection(SERVICE, b"\x00\x02\x10\x00"),
        message(b"\x80\x01\x05\x09" + b"\x01\x03abc" + b"\x02\x00" + b"\x03\x09cut"),
        message(b"\x00\x07\x08\x02", answer=True),
        message(b"\xff\xff\xff\xff", opcode=0x01),
        gmp(0x0D, 0x81, 0x0101, b"\x00\x03\x00\x5a\x00\x50\x00\x01", at=24),
        vendor(0x30, 0x0001, b"SN-17\0"),
        rc(0x04, BEACON, bth={"destqp": 0xACE}),
        rc(0x04, b"\x80\x01\x05\x09", bth={"destqp": 0x333}),
    ]


def capture() -> bytes:
    """The frames as a pcap."""
    return erf_pcap(frames())
