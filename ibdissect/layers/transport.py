"""Transport headers in Scapy: BTH with pad bytes and ICRC, and the extended headers of each OpCode."""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import NoPayload, Packet

from ibdissect.wire import crc, headers
from ibdissect.wire.cut import number_of
from ibdissect.wire.numbers import GSI_Q_KEY
from ibdissect.wire.opcodes import DATAGRAMS, OPCODES

from .derive import LAYERS, Layer, layer, make
from .fields import TrailerField, scapy_fields, trailer_bytes
from .inner import IPoIB, looks_like_ipoib
from .link import GRH, LRH, management_qp
from .mad import MadLayer, mad_class
from .registry import payload_of_qp

_UDP, _ICRC, _SEND_ONLY = 8, 4, 0x04
_WHOLE_MESSAGE = (*DATAGRAMS, 0x04, 0x24)
"""SEND Only of UD, RC and UC: may contain a whole IPoIB packet."""
_EXTENDED = {name: getattr(headers, name) for opcode in OPCODES.values() for name in opcode.headers}


def _headers_size(opcode: int) -> int:
    known = OPCODES.get(opcode)
    return sum(_EXTENDED[name].size for name in known.headers) if known is not None else 0


ANSWERED_BY = {"RDMA READ Request": "RDMA READ response", "CmpSwap": "ATOMIC Acknowledge", "FetchAdd": "ATOMIC Acknowledge"}
ANSWERS = frozenset({"Acknowledge", *ANSWERED_BY.values()})
"""What answers requests; those that are not named, by an acknowledgement."""


def _kind(operation: str) -> str:
    """What kind of packet an operation is, whatever part of its message."""
    return next((kind for kind in (*ANSWERED_BY, *ANSWERS) if operation.casefold().startswith(kind.casefold())), operation)


class _Chained(Layer):
    """BTH or an extended header: the OpCode determines what follows."""

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        bth: Any = self
        passed = 0
        while bth is not None and not isinstance(bth, BTH):
            bth, passed = bth.underlayer, passed + 1
        if bth is None:
            return super().guess_payload_class(payload)
        known = OPCODES.get(bth.opcode)
        names = known.headers if known is not None else ()
        if passed < len(names):
            struct = _EXTENDED[names[passed]]
            return layer(struct) if struct.size <= len(payload) else conf.raw_layer
        if bth.opcode in DATAGRAMS and bth.destqp <= 1:
            return mad_class(payload)
        if bth.opcode in _WHOLE_MESSAGE and looks_like_ipoib(payload):
            return IPoIB
        named = payload_of_qp(bth.destqp)
        return named if named is not conf.raw_layer else super().guess_payload_class(payload)


class _BTH(_Chained):
    """OpCode, pad count, destination QP, pad bytes and ICRC are computed if None.

    Without a lower layer the ICRC is zero, because it covers headers of that layer.
    """

    def pre_dissect(self, s: bytes) -> bytes:
        s = super().pre_dissect(s)
        below = self.underlayer
        if isinstance(below, (LRH, GRH)):
            self.whole, self.cut = below.whole, below.cut
        elif isinstance(below, UDP):
            room, ip = ip_room(below), below.underlayer
            goes_on = below.len > room and isinstance(ip, IP) and ip.flags.MF  # in another IP fragment
            self.whole = len(s) + _UDP == min(below.len, room) and not goes_on
            self.cut = 0 if goes_on else max(min(below.len, room) - _UDP - len(s), 0)
        else:
            self.whole = True
        size, rest = headers.BTH.size, _ICRC - self.cut
        if not self.whole and 0 < rest < _ICRC and len(s) - rest >= size:
            self.tail = {"icrc": s[-rest:]}  # cut off within the ICRC
            return s[:-rest]
        if not self.whole or len(s) < size + _ICRC:
            return s
        end = len(s) - _ICRC
        payload_end = max(end - number_of(s, headers.BTH.padcnt), size + _headers_size(number_of(s, headers.BTH.opcode)))
        payload_end = min(payload_end, end)
        self.tail = {"pad_bytes": s[payload_end:end], "icrc": int.from_bytes(s[end:], "big")}
        return s[:payload_end]

    def hashret(self) -> bytes:
        """Equal for a request and its answer: what the MAD says, else the PSN."""
        inner = self.getlayer(MadLayer)
        return inner.hashret() if inner is not None else int(self.psn or 0).to_bytes(3, "big")

    def answers(self, other: Packet) -> bool:
        """Whether it is the acknowledgement or response to a request with its PSN, or a MAD that answers the other's."""
        if not isinstance(other, BTH):
            return False
        mine, theirs = self.getlayer(MadLayer), other.getlayer(MadLayer)
        if mine is not None or theirs is not None:
            return mine is not None and theirs is not None and bool(mine.answers(theirs))
        known, asked = OPCODES.get(self.opcode), OPCODES.get(other.opcode)
        if known is None or asked is None or known.service != asked.service or self.psn != other.psn:
            return False
        return ANSWERED_BY.get(_kind(asked.operation), "Acknowledge") == _kind(known.operation) and _kind(asked.operation) not in ANSWERS

    def _opcode(self) -> int:
        """The OpCode of a single-packet message with these extended headers."""
        names, inner = [], self.payload
        while isinstance(inner, _Chained):
            names.append(inner.declared.__name__)
            inner = inner.payload
        data = not isinstance(inner, NoPayload)
        fitting = [known for known in OPCODES.values() if known.headers == tuple(names) and known.payload >= data]
        whole = [known for known in fitting if not known.operation.endswith(("First", "Middle", "Last"))]
        return min(whole, key=lambda known: known.payload != data).code if whole else _SEND_ONLY

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        built = bytearray(pkt)
        if self.opcode is None:
            built[0] = self._opcode()
        if self.padcnt is None:
            built[1] |= (-len(pay) & 3) << 4
        if self.destqp is None:
            built[5:8] = (management_qp(self) or 0).to_bytes(3, "big")
        pad = self.pad_bytes
        whole = bytes(built) + pay + (bytes(built[1] >> 4 & 3) if pad is None else trailer_bytes(pad, 24))
        icrc = self.icrc
        return whole + (self._icrc(whole).to_bytes(4, "little") if icrc is None else trailer_bytes(icrc, 32))

    def _icrc(self, data: bytes) -> int:
        """The ICRC of `data` (BTH up to the pad bytes) and the headers before it."""
        below, size = self.underlayer, len(data) + _ICRC
        if isinstance(below, LRH):
            return crc.icrc_native(below.header(below.self_build(), size) + data, False)
        if isinstance(below, GRH):
            grh = below.header(below.self_build(), size) + data
            lrh = below.underlayer
            return crc.icrc_native(bytes(8) + grh, True) if isinstance(lrh, LRH) else crc.icrc_roce1(grh)
        if isinstance(below, UDP) and isinstance(below.underlayer, (IP, IPv6)):
            udp = bytearray(below.self_build())
            if below.len is None:
                udp[4:6] = (8 + size).to_bytes(2, "big")
            return crc.icrc_roce2(_ip_header(below.underlayer, 8 + size) + udp + data)
        return 0


def _ip_header(ip: Any, size: int) -> bytes:
    """An IP header with its lengths, as Scapy will build it; `size` counts the bytes after it. The ICRC ignores the checksum."""
    built = bytearray(ip.self_build())
    if isinstance(ip, IPv6):
        if ip.plen is None:
            built[4:6] = size.to_bytes(2, "big")
        return bytes(built)
    built += bytes(-len(built) % 4)
    if ip.ihl is None:
        built[0] = built[0] & 0xF0 | len(built) // 4
    if ip.len is None:
        built[2:4] = (len(built) + size).to_bytes(2, "big")
    return bytes(built)


class _DETH(_Chained):
    """Source QP, and for QP1 the Q_Key, are computed if None and a MAD follows."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        qp = management_qp(self) or 0
        if self.q_key is None and qp:
            pkt = GSI_Q_KEY.to_bytes(4, "big") + pkt[headers.DETH.q_key.span[1] :]
        if self.srcqp is None:
            pkt = pkt[: headers.DETH.srcqp.span[0]] + qp.to_bytes(3, "big")
        return pkt + pay


class _RETH(_Chained):
    """DMALen is computed if None: the bytes of the payload."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.dmalen is None:
            inner, size = self.payload, len(pay)
            while isinstance(inner, _Chained):
                inner, size = inner.payload, size - inner.declared.size
            low, high = headers.RETH.dmalen.span
            pkt = pkt[:low] + size.to_bytes(high - low, "big") + pkt[high:]
        return pkt + pay


def ip_room(udp: Packet) -> int:
    """Payload bytes according to the IP header below; 65535 without a lower layer."""
    ip: Any = udp.underlayer
    if isinstance(ip, IP):
        return int(ip.len - ip.ihl * 4) if ip.version == 4 and ip.ihl >= 5 else 0
    if isinstance(ip, IPv6):
        return int(ip.plen) if ip.version == 6 else 0
    return 0xFFFF if ip is None else 0


def _dispatch(cls: type[Packet], _pkt: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
    """Raw for bytes too short for a BTH, and after IP and UDP headers whose lengths leave no room for one."""
    if not _pkt:
        return cls
    below = kargs.get("_underlayer")
    short = len(_pkt) < headers.BTH.size
    if not short and isinstance(below, UDP):
        short = min(below.len, ip_room(below)) < _UDP + headers.BTH.size
    return conf.raw_layer if short else cls


_COMPUTED = {"opcode": None, "padcnt": None, "destqp": None, "p_key": 0xFFFF}
_BTH_FIELDS = [*scapy_fields(headers.BTH.fields, layer, _COMPUTED), TrailerField("pad_bytes", 24), TrailerField("icrc", 32)]
BTH = make(headers.BTH, _BTH, fields=_BTH_FIELDS, dispatch_hook=classmethod(_dispatch))
DETH = make(headers.DETH, _DETH, fields=scapy_fields(headers.DETH.fields, layer, {"q_key": None, "srcqp": None}))
RETH = make(headers.RETH, _RETH, fields=scapy_fields(headers.RETH.fields, layer, {"dmalen": None}))
for _struct in _EXTENDED.values():
    if _struct not in LAYERS:
        make(_struct, _Chained)
