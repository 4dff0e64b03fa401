"""The text of a value is exact: at the edges of widths, of what can be printed, and of each kind of field."""

from __future__ import annotations

from typing import Any

from ibdissect.wire import text
from ibdissect.wire.encapsulation import Ethernet, IPv4
from ibdissect.wire.headers import BTH, GRH
from ibdissect.wire.sm import NodeDescription, NodeInfo
from ibdissect.wire.spec import Field
from tests.cases import every


@every(
    ("given", "shown"),
    [
        ("ab ä", "ab ä"), ("\x1f", "\\x1f"), ("\x7f", "\\x7f"), ("\x9f", "\\x9f"), ("\xad", "\\xad"), ("\u0100", "\u0100"),
        ("\u2028", "\\u2028"),
        ("\uffff", "\\uffff"), ("\U000e0001", "\\U000e0001"), ("\U00010000", "\U00010000"), ("a\nb", "a\\x0ab"), ("", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_printed_is_escaped(given: str, shown: str) -> None:
    assert text.printable(given) == shown and shown.isprintable()


@every(("given", "shown"), [('"ä\n"', '"ä\n"'), ('"\x1b\n"', '"\\u001b\n"'), ('"\u2028"', '"\\u2028"'), ("", "")])
def test_json_stays_the_same_value(given: str, shown: str) -> None:
    assert text.visible_json(given) == shown


@every(("count", "said"), [(0, "0 switches"), (1, "1 switch"), (2, "2 switches"), (-1, "-1 switches")])
def test_one_and_many(count: int, said: str) -> None:
    assert text.counted(count, "switch") == said and text.counted(count, "frame") == said.replace("switches", "frames").replace(
        "switch", "frame"
    )
    assert text.counted(1965, "frame", ",") == "1,965 frames"


@every(
    ("numbers", "ranges"),
    [([], []), ([5], [(5, 5)]), ([1, 2, 4], [(1, 2), (4, 4)]), ([0, 1, 2, 3], [(0, 3)]), ([1, 3, 5], [(1, 1), (3, 3), (5, 5)])],
)
def test_ranges(numbers: list[int], ranges: list[tuple[int, int]]) -> None:
    assert text.runs(numbers) == ranges


@every(("bits", "shown"), [(1, "0x1"), (4, "0x1"), (5, "0x01"), (8, "0x01"), (9, "0x001"), (24, "0x000001"), (64, "0x" + "0" * 15 + "1")])
def test_hexadecimal_numbers_are_as_wide_as_their_field(bits: int, shown: str) -> None:
    assert text.hex_text(1, bits) == shown


@every(
    ("address", "shown"),
    [
        (bytes(15) + b"\1", "::1"),
        (bytes(10) + b"\xff\xff\x0a\0\0\1", "::ffff:10.0.0.1"),
        (b"\xfe\x80" + bytes(14), "fe80::"),
        (bytes(16), "::"),
    ],
)
def test_addresses(address: bytes, shown: str) -> None:
    assert text.gid_text(address) == shown == text.plain_value(GRH.sgid, address) == text.value_text(GRH.dgid, address)


@every(
    ("field", "value", "plain", "shown"),
    [
        (Ethernet.source, b"\2\0\0\0\0\1", "02:00:00:00:00:01", "02:00:00:00:00:01"), (IPv4.source, b"\x0a\0\0\1", "10.0.0.1", "10.0.0.1"),
        (NodeDescription.node_string, "a\nb", "a\nb", "a\\x0ab"), (BTH.a, True, True, "True"), (BTH.a, False, False, "False"),
        (BTH.psn, 5, 5, "5"),
        (BTH.destqp, 5, 5, "0x000005"), (NodeInfo.node_type, 2, 2, "Switch (2)"), (NodeInfo.node_type, 9, 9, "unknown (9)"),
        (NodeInfo.node_guid, 5, 5, "0x0000000000000005"),
    ],
)  # fmt: skip
def test_values(field: Field[Any], value: Any, plain: Any, shown: str) -> None:
    assert text.plain_value(field, value) == plain and text.value_text(field, value) == shown


def test_units_and_own_texts() -> None:
    field: Field[int] = Field("uint", 8, "Length", unit="bytes")
    assert text.value_text(field, 7) == "7 bytes" and text.number_text(field, 7) == "7"
    assert text.value_text(Field("uint", 8, "Length", unit="bytes", show=lambda value: f"<{value}>"), 7) == "<7>"
    assert text.value_text(Field("raw", 16, "Data"), b"\1\xff") == "01ff" == text.plain_value(Field("raw", 16, "Data"), b"\1\xff")
    assert text.plain("x", "error") == "x" and text.ip4_text(b"\xff\0\1\x7f") == "255.0.1.127"


def test_a_lid_is_read_from_its_text() -> None:
    assert [text.lid_of(one) for one in ("LID 7", "LID 0", "LID", "LID x", "7", "10.0.0.7", "fe80::7", "")] == [7, 0, *[None] * 6]
