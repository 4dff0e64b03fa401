"""The ways in which a host writes the ICRC wrongly are told apart."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest

from ibdissect.decode.icrc_mistakes_of_hosts import Checksums
from tests.cases import every
from tests.craft import roce2
from tests.decode.made import ethernet_table
from tests.diagnosis.lab import US, A, Lab


def over_tag(frame: bytes) -> bytes:
    """The ICRC as a sender computes it that adds the tag first."""
    masked = bytearray(frame[18:-4])
    for at in (1, 8, 10, 11, 26, 27, 32):
        masked[at] = 0xFF
    return zlib.crc32(bytes(8 * b"\xff") + frame[12:16] + masked).to_bytes(4, "little")


@every("how", ["constant", "swapped", "vlan", "other"])
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


HOST = bytes([192, 168, 0, 1])


def frame(icrc: bytes | None, psn: int = 0, *, host: int = 1, vlan: int | None = 7) -> bytes:
    """A packet with an ICRC of its own; None: the right one; empty: over the tag, too."""
    made = roce2(payload=b"%08d" % psn, bth={"psn": psn}, ip={"source": HOST[:3] + bytes([host])}, vlan=vlan)
    return made if icrc is None else made[:-4] + (icrc or over_tag(made))


def reversed_(psn: int) -> bytes:
    return frame(frame(None, psn)[-4:][::-1], psn)


@every(
    ("frames", "said"),
    [
        ([frame(None)], None), ([frame(bytes(4))], None), ([], None), ([frame(b"abcd")], "other"),
        ([frame(b"abcd", i) for i in (1, 2)], "constant"),
        ([frame(b"abcd"), frame(b"abce")], "other"), ([frame(None), frame(b"abcd"), frame(b"abcd", 1)], "constant"),
        ([reversed_(1)], "swapped"), ([reversed_(1), reversed_(2), frame(b"abcd")], "swapped"),
        ([reversed_(1), frame(b"abcd"), frame(b"abce")], "other"),
        ([frame(b"")], "vlan"), ([frame(b"", 1), frame(b"", 2), reversed_(1)], "vlan"), ([frame(b"abcd", vlan=None)], "other"),
    ],
)  # fmt: skip
def test_what_most_wrong_ones_of_a_host_are(frames: Sequence[bytes], said: str | None) -> None:
    """One alone is no constant."""
    seen = Checksums()
    for one in frames:  # in windows of their own
        seen.feed(ethernet_table([one]))
    assert seen.of(HOST) == said and seen.of(HOST[:3] + b"\2") is None


def test_each_row_has_its_verdict() -> None:
    frames = [frame(None), frame(b"abcd"), frame(bytes(4)), bytes(60), frame(None)]
    right, wrong, unchecked, *rest = Checksums().feed(ethernet_table(frames)).tolist()
    assert len({right, wrong, unchecked}) == 3 and rest == [unchecked, right]


def test_samples_are_bounded() -> None:
    """Of a host that makes all of them wrongly."""
    frames, seen = [frame(bytes([9, 9, 9, i % 50]), i % 50, host=1 + i % 2) for i in range(600)], Checksums()
    for some in (frames[:100], frames[100:]):
        seen.feed(ethernet_table(some))
    assert [seen.how[HOST[:3] + bytes([host])].total() for host in (1, 2)] == [256, 256]


@pytest.mark.slow
def test_hosts_are_bounded() -> None:
    seen = Checksums()
    hosts = [bytes([10, 9, i >> 8, i & 0xFF]) for i in range(4100)]
    seen.feed(ethernet_table([roce2(ip={"source": host})[:-4] + b"abcd" for host in hosts]))
    assert len(seen.how) == 4096 and seen.of(hosts[4095]) == "other" and seen.of(hosts[4096]) is None
