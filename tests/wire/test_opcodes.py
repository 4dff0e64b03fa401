"""OpCodes of datagrams, and times of ERF records to the nanosecond."""

from __future__ import annotations

from ibdissect.wire.encapsulation import erf_time_text
from ibdissect.wire.opcodes import CONNECTED, DATAGRAMS, OPCODES, OPERATION, RELIABLE, SERVICES, WITH_AETH
from tests.cases import every


def test_only_unreliable_datagrams_are_datagrams() -> None:
    """Reliable datagrams (0x40) differ from them in one bit of the service."""
    assert {0x64, 0x65} == DATAGRAMS and {code & 0xE0 for code in OPCODES} >= {0x40, 0x60}


@every(
    ("fraction", "text"),
    [
        (0, "5.000000000"), (2, "5.000000000"), (3, "5.000000001"), (6, "5.000000001"), (7, "5.000000002"), (1 << 31, "5.500000000"),
        (0xFFFFFFFD, "5.999999999"), (0xFFFFFFFE, "6.000000000"), (0xFFFFFFFF, "6.000000000"),
    ],
)  # fmt: skip
def test_parts_of_a_second_are_rounded_to_nanoseconds(fraction: int, text: str) -> None:
    stamp = int.from_bytes((5 << 32 | fraction).to_bytes(8, "little"), "big")
    assert erf_time_text(stamp) == f"1970-01-01T00:00:0{text}Z"


def test_services_and_responses() -> None:
    names = {SERVICES[one] for one in RELIABLE}, {SERVICES[one] for one in CONNECTED}
    assert names == ({"RC", "XRC"}, {"RC", "UC", "XRC"})
    assert {0x0D, 0x0F, 0x10, 0x11, 0x12} == {*WITH_AETH} == {code & OPERATION for code, one in OPCODES.items() if "AETH" in one.headers}
