"""Fields of cut structures are found where they are whole, and only there."""

from __future__ import annotations

from ibdissect.wire.cut import bytes_of, field_of, number_of
from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.spec import Field
from tests.cases import every
from tests.craft import native

FRAME = native(0x04, bytes(8), slid=7, dlid=9, bth={"destqp": 0x123456})


@every("field", [LRH.slid, LRH.dlid, LRH.pktlen, LRH.lnh])
@every("at", [0, 3])
def test_a_field_is_that_of_its_structure(field: Field[int], at: int) -> None:
    data = bytes(at) + FRAME
    assert field_of(data, field, at) == number_of(data, field, at) == getattr(LRH(FRAME, 0), field.name)
    stop = at + field.span[1]
    assert field_of(data[:stop], field, at) is not None
    less = data[: stop - 1]
    assert field_of(less, field, at) is None and bytes_of(less, field, at) is None and number_of(less, field, at) == 0


def test_bytes() -> None:
    assert field_of(FRAME, BTH.destqp, LRH.size) == 0x123456
    assert bytes_of(bytes(range(40)), IPv6.source) == bytes(range(8, 24))
    assert bytes_of(bytes(range(20)), IPv4.source) == bytes(range(12, 16))
