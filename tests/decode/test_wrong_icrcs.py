"""The ways in which a host writes the ICRC wrongly are told apart."""

from __future__ import annotations

import zlib

import pytest

from tests.diagnosis.lab import US, A, Lab


def over_tag(frame: bytes) -> bytes:
    """The ICRC as a sender computes it that adds the tag first."""
    masked = bytearray(frame[18:-4])
    for at in (1, 8, 10, 11, 26, 27, 32):
        masked[at] = 0xFF
    return zlib.crc32(bytes(8 * b"\xff") + frame[12:16] + masked).to_bytes(4, "little")


@pytest.mark.parametrize("how", ["constant", "swapped", "vlan", "other"])
def test_how(how: str) -> None:
    lab = Lab()
    for psn in range(10):
        lab.ask(psn * 100 * US, psn, vlan=7)
        lab.answer(psn * 100 * US + 5 * US, psn, vlan=7)
    wrong = {
        "constant": lambda f: b"\xde\xad\xbe\xef", "swapped": lambda f: f[-4:][::-1], "vlan": over_tag,
        "other": lambda f: bytes(b ^ 0x5A for b in f[-4:]),
    }[how]  # fmt: skip
    lab.frames = [(t, f[:-4] + wrong(f)) if f[30:34] == A else (t, f) for t, f in lab.frames]
    found = lab.only()
    assert (found.cause, found.detail, found.blamed) == ("icrc-wrong-at-sender", {"how": how}, 0)


def test_a_zero_is_not_filled_in_and_a_single_one_was_damaged_on_the_way() -> None:
    lab = Lab()
    lab.good(0, 100, 20)
    lab.frames = [(t, f[:-4] + bytes(4)) for t, f in lab.frames]
    assert lab.only().cause == "healthy"
    lab = Lab()
    lab.good(0, 100, 20)
    lab.frames[4] = (lab.frames[4][0], lab.frames[4][1][:-4] + b"abcd")
    assert lab.only().cause == "healthy"


def test_cut_packets_are_not_checked() -> None:
    lab = Lab()
    lab.good(0, 100, 6)
    lab.frames = [(t, f[:-4] + b"abcd") for t, f in lab.frames]
    assert lab.only(snap=61).cause == "healthy"
