"""Every bit of a field is read, and none beside it, wherever it begins and however wide it is."""

from __future__ import annotations

import numpy as np

from ibdissect.decode.bit_fields import extract
from ibdissect.wire.catalog import builtin
from ibdissect.wire.spec import BIT_KINDS
from tests.cases import every
from tests.craft import LINK_INFINIBAND, build, smp
from tests.decode.made import tables_of
from tests.fuzz.container import pcapng


def around(size: int, bit: int, bits: int) -> tuple[bytes, bytes]:
    """Bytes in which only these bits are set, and in which only they are not."""
    number = ((1 << bits) - 1) << (8 * size - bit - bits)
    return number.to_bytes(size, "big"), (((1 << 8 * size) - 1) ^ number).to_bytes(size, "big")


@every("size", [1, 2, 3, 5, 8, 9, 12])
def test_a_number_of_any_bits_has_these_bits(size: int) -> None:
    for bit in range(8 * size):
        for bits in range(1, min(64, 8 * size - bit) + 1):
            rows = np.frombuffer(b"".join(around(size, bit, bits)), np.uint8).reshape(2, size)
            assert extract(rows, bit, bits).tolist() == [(1 << bits) - 1, 0], (bit, bits)


STRUCTS = [struct for struct in builtin().structs if struct.size]


def test_every_declared_field_has_its_bits() -> None:
    """As a view reads it; tests/decode/test_chunk_table.py compares views and columns."""
    read = 0
    for struct in STRUCTS:
        for field in struct.fields:
            if field.kind not in BIT_KINDS or field.little:
                continue
            for bit in field.entries():
                there, beside = around(struct.size, bit, field.bits)
                full = (1 << field.bits) - 1
                assert [int(field.read(struct(data, 0, struct.size), bit)) for data in (there, beside)] == [full, 0], field
                read += 1
    assert read > 4000


def test_reserved_bits_beside_the_lmc_do_not_count() -> None:
    """Neither for columns nor for what is learnt of the subnet: LMC has three bits, and two reserved ones are in front of it."""
    from ibdissect.subnet import FabricFollower
    from ibdissect.wire.sm_port import PortInfo

    for lmc in range(8):
        for reserved in (0, 0x08, 0x10, 0x18, 0xC0):
            info = bytearray(build(PortInfo, lid=0x80, gid_prefix=0xFE80 << 48, local_port_num=1, port_state=4))
            info[PortInfo.lmc.span[0]] = reserved | lmc
            node = build("NodeInfo", node_type=1, num_ports=1, node_guid=5, port_guid=6, system_image_guid=5, local_port_num=1)
            data = [smp(0x81, 0x11, node, slid=0x80, dlid=1), smp(0x81, 0x15, bytes(info), slid=0x80, dlid=1, modifier=1)]
            follower = FabricFollower()
            for table in tables_of(pcapng([(LINK_INFINIBAND, frame, len(frame)) for frame in data])):
                assert table.values(PortInfo.lmc).tolist() == [lmc]
                list(follower.feed(table))
            (found,) = [port.lids.now for port in follower.subnet.ports() if port.lids.now] or [None]
            assert found == (0x80, lmc), reserved
