"""The parts of messages are those of the OpCodes' names."""

from __future__ import annotations

import pytest

from ibdissect.wire.opcodes import OPCODES, SERVICE
from tests.craft import headers_of
from tests.diagnosis.lab import MS, Lab, joined

RC, UC, XRC = 0x00, 0x20, 0xA0
STREAMS = [code for code in OPCODES if code & SERVICE in (RC, UC, XRC)]


def messages(*sequences: tuple[int, ...]) -> list[int | None]:
    """How many messages end in each sequence of OpCodes to a queue pair of its own; None: none of them belongs to a connection."""
    labs = [Lab(qa=0x100 + number, qb=0x100 + number) for number in range(len(sequences))]
    for number, (lab, codes) in enumerate(zip(labs, sequences, strict=True)):
        for psn, code in enumerate(codes):
            back = code in OPCODES and not OPCODES[code].request
            ends = (lab.b, lab.a) if back else (lab.a, lab.b)
            extended = headers_of(code) if code in OPCODES else b""
            lab.put(number * 10 * MS + psn, *ends, code, lab.qb, 10 * number + psn, payload=bytes(256), headers=extended)
    found = {end.qpn: one.counts.messages for one in joined(*labs).diagnosis().connections for end in one.ends}
    return [found.get(lab.qb) for lab in labs]


def test_a_message_ends_where_the_name_says_so() -> None:
    """First and middle packets end none, nor do answers."""
    found = dict(zip(STREAMS, messages(*((code,) for code in STREAMS)), strict=True))
    names = {code: OPCODES[code].operation for code in STREAMS}
    assert found == {code: int(OPCODES[code].request and not names[code].endswith(("First", "Middle"))) for code in STREAMS}
    assert {"First", "Middle", "Last", "Only"} <= {names[code].split()[-1] for code in STREAMS}


@pytest.mark.parametrize("service", [RC, UC, XRC])
def test_packets_of_a_message_are_one(service: int) -> None:
    send, write = (0x00, 0x01, 0x01, 0x02), (0x06, 0x07, 0x08)
    both = [tuple(service + code for code in codes) for codes in (send, write, (*send, *write), (0x04, 0x0A), (*send[:2], 0x04))]
    assert messages(*both) == [1, 1, 2, 2, 1]


def test_other_services_have_no_streams() -> None:
    assert messages((0x64,), (0x44,), (0xC4,), (0xFF,)) == [None] * 4
