"""Columns of headers are the bytes of the packets, wherever these begin: in most rows alike, in some elsewhere, at the end of the data."""

from __future__ import annotations

import random

from ibdissect.decode import ChunkTable
from ibdissect.wire.encapsulation import UDP, IPv4
from ibdissect.wire.headers import BTH, DETH, GRH, LRH, RETH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm_port import PortInfo
from tests import tunnels
from tests.cases import every
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND, rc, roce2, smp, ud
from tests.decode.made import Row, chunk_of
from tests.decode.test_chunk_table import plain, read


def packets(chance: random.Random, native: bool) -> list[bytes]:
    """One of each kind, with numbers of its own."""
    psn, noise = chance.randrange(1 << 24), chance.randbytes(64)
    ext = {"RETH": {"va": chance.getrandbits(64), "r_key": chance.getrandbits(32), "dmalen": 8}}
    if native:
        grh = {"sgid": noise[:16], "dgid": noise[16:32], "flow_label": psn >> 4}
        made = [rc(0x06, noise[:8], ext=ext, bth={"psn": psn}, slid=psn & 0xFFF), smp(0x81, 0x15, noise, slid=psn & 0x7FF)]
        return [*made, rc(0x06, noise[:8], ext=ext, bth={"psn": psn}, grh=grh), ud(noise, dest_qp=psn, q_key=psn, grh=grh)]
    frame = roce2(0x06, noise[:8], ext=ext, bth={"psn": psn}, ip={"identification": psn & 0xFFFF})
    return [frame, frame[:12] + b"\x81\0\0\7" + frame[12:], tunnels.wrapped("VXLAN", frame)[0], tunnels.wrapped("GRE", frame)[0]]


@every("seed", range(40))
def test_each_field_is_read_where_its_packet_has_it(seed: int) -> None:
    chance = random.Random(seed)
    native, most = seed % 2 == 0, chance.randrange(4)
    rows = [packets(chance, native)[most if chance.random() < 0.6 else chance.randrange(4)] for _ in range(chance.choice((1, 2, 3, 9)))]
    rows[-1] = rows[-1][: chance.choice((20, 40, 61, 200, 999))]
    link = LINK_INFINIBAND if native else LINK_ETHERNET
    table = ChunkTable(chunk_of([Row(row, link) for row in rows], around=b"\xff" * chance.choice((0, 8))))
    seen = 0
    for struct in (LRH, GRH, BTH, RETH, DETH, MAD, PortInfo, UDP, IPv4):
        for i in range(len(table.occurrences(struct))):
            for field in struct.fields:
                found = plain(table.values(field)[i])
                assert (found if field.count > 1 else [found]) == read(table, field, i), (field, i)
                seen += 1
    assert seen or len(rows) == 1
