"""The words of a REJ beside its reason are told, as far as they are captured."""

from __future__ import annotations

from typing import Any

from ibdissect.wire import cm
from tests.cases import every
from tests.diagnosis.lab import US, Lab

GID = bytes(10) + b"\xff\xff\x0a\0\0\7"


def why(reason: int, ari: bytes = b"", snap: int = 65535, **more: Any) -> str:
    lab = Lab()
    lab.req(0)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, reason=reason, reject_info_length=len(ari), ari=ari, **more)
    return lab.only(snap).why


@every(("reason", "ari", "said"), [
    (26, bytes([3]), "; it takes a path MTU of 1024"), (26, bytes([5]), "; it takes a path MTU of 4096"),
    (26, bytes([6]), ""), (26, b"", ""),
    (12, GID, "; it names the port with GID ::ffff:10.0.0.7"), (12, bytes(16), ""), (12, GID[:15], ""), (13, b"\1\2", "LID 258"),
    (28, bytes([3]), ""),
])  # fmt: skip
def test_additional_information(reason: int, ari: bytes, said: str) -> None:
    told = why(reason, ari)
    assert told.endswith(said) if said else ";" not in told


def test_private_data_as_text_or_bytes() -> None:
    assert why(28, private_data=b"no such queue").endswith('; private data "no such queue"')
    assert why(28, private_data=b"ab").endswith("; private data 61 62")
    assert why(28, private_data=b"\1\2\3\4").endswith("; private data 01 02 03 04")
    assert why(28, private_data=bytes([1] * 20)).endswith("01 and 4 more bytes")
    assert why(28, private_data=b"\x1b[31mred").endswith("1b 5b 33 31 6d 72 65 64") and "private" not in why(28)


def test_private_data_of_nvme_is_its_status() -> None:
    assert why(28, private_data=b"\0\0\3").endswith("NVMe status 3, invalid queue id")
    assert why(28, private_data=b"\0\0\0\7").endswith("; private data 00 00 00 07")


def test_what_is_cut_off_is_not_told() -> None:
    told = why(26, bytes([3]), snap=98)
    assert "reason 26" in told and "path MTU of" not in told
    assert "private" not in why(28, snap=120, private_data=b"no such queue")
