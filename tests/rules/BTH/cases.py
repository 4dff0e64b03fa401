"""Proofs of the rules about the base transport header: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.cm import REJ
from tests.craft import erf_pcap, ethernet_pcap, gmp, native, rc, roce2, ud
from tests.rules.cases import case
from tests.rules.made.agreed import packet
from tests.rules.made.connections import ACTIVE, IDS, LEAVE, READY, message, over_ethernet, reply, request
from tests.rules.made.gids import gid
from tests.rules.RC.cases import BEGIN, WRITE_FIRST, WRITE_LAST, ask

GROUP = {"sgid": gid("fe80::1"), "dgid": gid("ff12:401b:ffff::1")}


def to_group(opcode: int = 0x64, qp: int = 0xFFFFFF, **kw: Any) -> bytes:
    """A packet to multicast LID 0xC001."""
    if opcode == 0x64:
        return ud(b"12345678", dest_qp=qp, src_qp=9, q_key=0xB1B, dlid=0xC001, grh=GROUP, **kw)
    return native(opcode, b"12345678", bth={"destqp": qp}, dlid=0xC001, grh=GROUP, **kw)


def multicast(destination: int = 0xFFFFFF, dlid: int = 5) -> bytes:
    """A datagram without a GRH."""
    return ud(b"12345678", dest_qp=destination, src_qp=9, q_key=0xB1B, dlid=dlid)


IP_GROUP = {"destination": bytes([239, 7, 7, 7])}
DATAGRAM = b"\0\0\x0b\x1b\0\0\0\x09"
case("BTH001", native(0x1F), native(0xE1))
case("BTH001", native(0x1F, lrh={"vl": 15}), native(0xE1))  # not LNK010, too
case("BTH001", native(0xBF), native(0xC0))  # class bits 110 and 111 are the manufacturers'
case("BTH001", native(0x82), native(0x80))  # the congestion notification of InfiniBand
case("BTH002", native(0x44, bytes(32)), native(0x04))
case("BTH003", native(bth={"tver": 1}), native())
case("BTH003", native(0xBF, bth={"tver": 1}), native(0xC0, bth={"tver": 1}), also=["BTH001"])  # a manufacturer's
case("BTH004", native(bth={"reserved7": 1}), native())
case("BTH004", native(bth={"reserved6": 32}), native())
case("BTH004", native(bth={"reserved7": 1}), native(0xC1, bth={"reserved7": 1}))  # a manufacturer's
case("BTH005", native(0x00, b"12345678", bth={"padcnt": 2}), native(0x02, b"12345678", bth={"padcnt": 2}))
case("BTH005", rc(0x11, bth={"padcnt": 1}), rc(0x11))
# in the middle of a message, which it does not make shorter (RC014)
REST = ask(2, WRITE_LAST, bytes(344))
PADDED = roce2(WRITE_FIRST, bytes(256), ext={"RETH": {"r_key": 7, "dmalen": 600}}, bth={"psn": 1, "destqp": 0x12, "padcnt": 2})
case("BTH005", [PADDED, REST], [BEGIN, REST], frames=[1], file=ethernet_pcap)
# a payload without the pad bytes that it needs
case("BTH005", roce2(payload=bytes(252), headers=bytes(3), bth={"psn": 1}), roce2(payload=bytes(252), headers=bytes(4)), file=ethernet_pcap)
case("BTH009", native(0x0C, b"12345678"), native(0x0C, b"12345678" * 2))
case("BTH010", native(bth={"destqp": 1}), native(bth={"destqp": 2}))
case("BTH011", multicast(), multicast(destination=0xFFFFFE))
case(
    "BTH011",
    roce2(0x64, b"12345678", headers=DATAGRAM, bth={"destqp": 0xFFFFFF}),
    roce2(0x64, b"12345678", headers=DATAGRAM, bth={"destqp": 0xFFFFFF}, ip=IP_GROUP),
    file=ethernet_pcap,
)
TO_ALL, TO_ONE = (roce2(0x64, b"12345678", headers=DATAGRAM, bth={"destqp": 0xFFFFFF}, ip={"destination": bytes([255, 255, 255, last])})
                  for last in (255, 254))  # fmt: skip
case("BTH011", TO_ONE, TO_ALL, file=ethernet_pcap)
case("BTH012", to_group(qp=5), to_group())
case("BTH013", to_group(0x04), to_group())
# manufacturers number queue pairs of groups as they like
case("BTH012", to_group(0x67, qp=5), to_group(0xC0, qp=5), also=["BTH001", "BTH013"])
case("BTH013", to_group(0xBF), to_group(0xC0), also=["BTH001"])
case("BTH014", ud(b"1234", dest_qp=5, src_qp=9, q_key=7, bth={"a": 1}), gmp(4, 1, 0x12, bth={"a": 1}))
# soft-RoCE sets the bit in every last packet
IN_ROCE = ethernet_pcap([roce2(0x64, b"1234", headers=b"\0\0\x0b\x1b\0\0\0\x09", bth={"destqp": 5, "a": 1})])
case("BTH014", erf_pcap([ud(b"1234", dest_qp=5, src_qp=9, q_key=7, bth={"a": 1})]), IN_ROCE, file=None)
case("BTH015", rc(0x11, bth={"se": 1}), native(0x04, bth={"se": 1}))
case("BTH019", native(0x65, DATAGRAM), native(0x65, DATAGRAM + b"imm."))
case("BTH020", native(bth={"fecn": 1}), native(0x81, bytes(16), bth={"becn": 1, "psn": 0}))
case("BTH020", native(0x82, bth={"becn": 1}), native(0x80, bth={"becn": 1}), also=["BTH001"])


def write(opcode: int, size: int, announced: int) -> bytes:
    return rc(opcode, bytes(size), ext={"RETH": {"dmalen": announced, "r_key": 7}})


case("BTH006", write(0x0A, 8, 100), write(0x0A, 8, 8))
case("BTH006", write(0x2A, 7, 8), write(0x2A, 7, 7))
case("BTH007", native(0x01, bytes(100)), native(0x01, bytes(256)))
case("BTH007", native(0x01, bytes(768)), native(0x02, bytes(768)))
# the first fragment of a packet of 1024 bytes, cut after 500
SHORT = roce2(0x01, bytes(500))
BEGINNING = roce2(0x01, bytes(500), ip={"more_fragments": 1, "dont_fragment": 0}, udp={"length": 8 + 12 + 1024 + 4})
case("BTH007", SHORT, BEGINNING, twin_also=["ROC013"], file=ethernet_pcap)
# another path MTU than the first packet of the message; a new message may have another, as its queue pair may be another connection's


def part(opcode: int, size: int, psn: int) -> bytes:
    """A packet of a SEND of several packets."""
    return rc(opcode, bytes(size), bth={"psn": psn})


LONG = [part(0, 1024, 1), part(1, 1024, 2), part(1, 512, 3), part(1, 1024, 4), part(2, 8, 5)]
case("BTH007", LONG, [*LONG[:2], part(1, 1024, 3), *LONG[3:]], frames=[3])
case("BTH007", LONG, [part(0, 1024, 1), part(2, 8, 2), part(0, 512, 3), part(1, 512, 4), part(2, 8, 5)], frames=[3])
# a packet is missing: the message may be another
case("BTH007", LONG[:3], [LONG[0], part(1, 512, 3)], frames=[3])
UC = [request(partition_key=0xFFFF, transport_service_type=1), reply(), READY]
case("BTH018", [*UC, packet(0xFFFF)], [*UC, packet(0xFFFF, opcode=0x24)], frames=[4])
# the active side rejected the REP: there is no connection
case("BTH018", [*UC, packet(0xFFFF)], [*UC[:2], message(0x12, REJ, IDS, ACTIVE, reason=28, message_rejected=1), packet(0xFFFF)], frames=[4])
# RoCE
ROCE_UC = [over_ethernet(frame, 1 + i % 2) for i, frame in enumerate(UC)]
ROCE_RC, ROCE_DATA = (roce2(opcode, b"data", bth={"destqp": 0x200, "psn": 900}) for opcode in (0x04, 0x24))
case("BTH018", [*ROCE_UC, ROCE_RC], [*ROCE_UC, ROCE_DATA], frames=[4], file=ethernet_pcap)
case("BTH018", [*ROCE_UC, ROCE_RC], [*ROCE_UC, ROCE_DATA, ROCE_RC], frames=[4], file=ethernet_pcap)  # the number was used again
case("BTH018", [*ROCE_UC, ROCE_RC], [ROCE_RC, *ROCE_UC, ROCE_DATA], frames=[4], file=ethernet_pcap)  # of an earlier connection
case("BTH018", [*ROCE_UC, ROCE_RC], [*ROCE_UC, over_ethernet(LEAVE, 1), ROCE_RC], frames=[4], file=ethernet_pcap)
# what comes behind packets of the agreed service may be another queue pair of that number
case("BTH018", [*UC, packet(0xFFFF)], [*UC, packet(0xFFFF, opcode=0x24), packet(0xFFFF, 901)], frames=[4])
TO_GROUP, TO_HOST = (roce2(ip={"destination": bytes([first, 0, 0, 1])}) for first in (239, 238 - 28))
case("BTH013", TO_GROUP, TO_HOST, file=ethernet_pcap)
# a minute passes in no message
for seconds, severity in ((29, "error"), (31, "info")):
    slowly: Any = partial(erf_pcap, step_ns=seconds * 1_000_000_000)
    case("BTH007", LONG[:3], [*LONG[:2], part(1, 1024, 3)], frames=[3], severity=severity, file=slowly)
# half an hour passes in a connection
for seconds, severity in ((899, "error"), (901, "info")):
    slowly = partial(erf_pcap, step_ns=seconds * 1_000_000_000)
    case("BTH018", [*UC, packet(0xFFFF)], [*UC, packet(0xFFFF, opcode=0x24)], frames=[4], severity=severity, file=slowly)
    slowly = partial(ethernet_pcap, step_ns=seconds * 1_000_000_000)
    case("BTH018", [*ROCE_UC, ROCE_RC], [*ROCE_UC, ROCE_DATA], frames=[4], severity=severity, file=slowly)
# unless one of its sides sends to the other meanwhile
BACK_TO_IT = roce2(0x24, b"data", bth={"destqp": 0x100}, ip={"source": bytes([192, 168, 0, 2]), "destination": bytes([192, 168, 0, 1])})
case("BTH018", [*ROCE_UC, BACK_TO_IT, ROCE_RC], [*ROCE_UC, BACK_TO_IT, ROCE_DATA], frames=[5], severity="error", file=slowly)
# adapters mark packets of RoCE for adaptive routing
case("BTH004", [roce2(bth={"reserved7": 0x40})], [roce2()], severity="info", file=ethernet_pcap)
case("BTH004", [native(bth={"reserved7": 0x40})], [native()], severity="warning")
