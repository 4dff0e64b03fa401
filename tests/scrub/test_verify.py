"""The search for leftovers finds what is left, at any bit and as text, and nothing in what `scrub` wrote."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ibdissect import Capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.errors import CaptureError
from ibdissect.scrub import verify as module
from ibdissect.scrub.rewrite import Scrubber, write_scrubbed
from ibdissect.scrub.verify import verify
from ibdissect.wire.catalog import builtin
from ibdissect.wire.sm import NodeDescription
from ibdissect.wire.sm_port import PortInfo
from tests.cases import every
from tests.conftest import a_third_of, shared_captures
from tests.craft import build, erf_pcap, rc, smp
from tests.crowds import crowd

KEY, NAME = 0xDEADBEEFCAFEF00D, b"vault-17 HCA-2"
FRAMES = [smp(0x81, 0x15, build(PortInfo, m_key=KEY)), smp(0x81, 0x10, build(NodeDescription, node_string=NAME.decode()))]


def checked(blob: bytes, spoil: bytes = b"", at: int = 0) -> None:
    """Scrub, write `spoil` into the copy, verify."""
    out = io.BytesIO()
    with Capture(io.BytesIO(blob)) as opened:
        _, scrubber = write_scrubbed(opened, out, "pcap")
        out.seek(at or len(out.getvalue()) - 200)
        out.write(spoil)
        verify(opened, scrubber, out, "copy.pcap")


def test_nothing_is_left() -> None:
    checked(erf_pcap(FRAMES))


@every("shift", range(8))
def test_a_key_is_found_at_every_bit(shift: int) -> None:
    with pytest.raises(CaptureError, match="still hold a key M_Key of the capture, at byte") as raised:
        checked(erf_pcap(FRAMES), (KEY << (8 - shift)).to_bytes(9, "big"))
    assert f"{KEY:x}" not in str(raised.value)


@every("text", [f"{KEY:x}", f"{KEY:X}", str(KEY), "dead:beef:cafe:f00d", "de:ad:be:ef:ca:fe:f0:0d"])
def test_so_is_its_text(text: str) -> None:
    with pytest.raises(CaptureError, match="M_Key"):
        checked(erf_pcap(FRAMES), text.encode())


def test_and_a_name() -> None:
    with pytest.raises(CaptureError, match="a text of the capture"):
        checked(erf_pcap(FRAMES), NAME)


def test_a_short_value_is_found_where_it_stood() -> None:
    """Anywhere else, 32 bits may be chance."""
    frame = rc(0x0C, ext={"RETH": {"r_key": 0xA1B2C3D4}})
    blob, key = erf_pcap([frame, frame]), bytes.fromhex("a1b2c3d4")
    place = blob.rindex(key)
    checked(blob, key, place + 4)
    with pytest.raises(CaptureError, match=r"a key R_Key of the capture, .* after frame 0"):
        checked(blob, key, place)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [*sorted((Path(__file__).parents[2] / "captures").glob("*.pcap*")), *a_third_of(shared_captures(), 2)], ids=lambda p: p.name
)
def test_no_capture_leaves_anything(path: Path) -> None:
    if path.stat().st_size < 3_000_000:
        checked(path.read_bytes())


def places(spoil: bytes, kind: str) -> Iterator[tuple[int, int]]:
    """Where `spoil` was written into the copy, and which byte the complaint names: every third byte of the last frame."""
    blob = erf_pcap(FRAMES)
    out = io.BytesIO()
    with Capture(io.BytesIO(blob)) as opened:
        _, scrubber = write_scrubbed(opened, out, "pcap")
        clean = out.getvalue()
        for at in range(len(clean) - 60, len(clean) - len(spoil), 3):
            copy = io.BytesIO(clean[:at] + spoil + clean[at + len(spoil) :])
            with pytest.raises(CaptureError, match=f"still hold a {kind} of the capture, at byte ") as raised:
                verify(opened, scrubber, copy, "copy.pcap")
            yield at, int(str(raised.value).rpartition(" ")[2])


@pytest.mark.slow
@pytest.mark.parametrize("block", [16, 37, 1 << 20])
def test_the_complaint_names_the_byte_also_across_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    for spoil, kind in ((KEY.to_bytes(8, "big"), "key M_Key"), (NAME, "text"), (str(KEY).encode(), "key M_Key")):
        assert all(at == said for at, said in places(spoil, kind))


@pytest.mark.parametrize("block", [100, 1 << 20])
@pytest.mark.parametrize("number", range(5))
def test_a_short_value_is_named_by_its_frame(number: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    key = bytes.fromhex("a1b2c3d4")
    frames = [rc(0x0C, ext={"RETH": {"r_key": 0xA1B2C3D4}})] * 5
    blob = erf_pcap(frames)
    at = [place for place in range(len(blob)) if blob.startswith(key, place)][number]
    with pytest.raises(CaptureError, match="R_Key") as raised:
        checked(blob, key, at)
    where, frame = re.findall(r"\d+", str(raised.value).split("capture, ")[1])
    size = len(frames[0])
    assert int(frame) == (number // 3 * 3 if block == 100 else 0)  # blocks of three frames of 42 bytes
    assert int(frame) * size + int(where) == number * size + frames[0].index(key)


def test_what_is_searched_and_how() -> None:
    """Enough bits: everywhere and as text. Fewer: where they stood. A few, and what is also a substitute: not at all."""
    known = {
        "guid": [bytes.fromhex("0002c90300001491")], "key K": [bytes(4) + bytes.fromhex("a1b2c3d4"), bytes(7) + b"\5", bytes(8)],
        "key L": [bytes.fromhex("8000000001"), bytes.fromhex("4000000001"), bytes.fromhex("00018001"), bytes.fromhex("00008001"),
                  bytes.fromhex("00004001")],
        "ip4": [bytes([10, 1, 2, 3])], "mac": [bytes.fromhex("f402c9123457")], "text": [b"vault-17"],
    }  # fmt: skip
    anywhere, in_place, texts = module._forms(SimpleNamespace(replaced=lambda: known.items()))  # type: ignore[arg-type]
    assert anywhere == {
        known["guid"][0]: "guid", known["key L"][0]: "key L", known["mac"][0]: "mac", b"vault-17": "text",
    }  # fmt: skip
    assert in_place == {
        known["key K"][0]: "key K", **dict.fromkeys(known["key L"][1:4], "key L"), known["ip4"][0]: "ip4",
    }  # fmt: skip
    assert {text.decode(): kind for text, kind in texts.items()} == {
        "0002c90300001491": "guid", "0002C90300001491": "guid", "00:02:c9:03:00:00:14:91": "guid", "00-02-c9-03-00-00-14-91": "guid",
        "783964675511441": "guid", "2:c903:0:1491": "guid", "f402c9123457": "mac", "F402C9123457": "mac", "f4:02:c9:12:34:57": "mac",
        "f4-02-c9-12-34-57": "mac", "268292800525399": "mac", "8000000001": "key L", "80:00:00:00:01": "key L", "80-00-00-00-01": "key L",
        "549755813889": "key L", "10.1.2.3": "ip4",
    }  # fmt: skip


def test_a_copy_with_other_frames_is_compared_as_far_as_it_goes() -> None:
    """More frames, or longer ones, hold nothing of the capture's in place."""
    pairs = list(module._pairs(iter([b"ab", b"cdef"]), iter([b"AB", b"CD", b"EF"])))
    assert pairs == [(0, b"abcd\0\0", b"ABCDEF")]
    assert list(module._pairs(iter([]), iter([]))) == [(0, b"", b"")]


@every("shift", range(8))
def test_every_form_is_found_at_every_bit(shift: int) -> None:
    data = int.from_bytes(b"\x11" * 5 + KEY.to_bytes(8, "big") + b"\x22" * 5 + b"\xab\xcd\xef\x01\x23" + b"\x33", "big") << (8 - shift)
    raw = data.to_bytes(25, "big")
    forms = {KEY.to_bytes(8, "big"): "one", b"\xab\xcd\xef\x01\x23": "two", b"not there": "none"}
    found = list(module._found(raw, forms, range(8)))
    assert sorted((at, kind) for at, kind in found) == [(5, "one"), (18, "two")]
    assert not list(module._found(raw, forms, range(8), bytes(25)))
    half = bytes(byte ^ 0x55 * (i % 2) for i, byte in enumerate(raw))
    assert not list(module._found(raw, forms, range(8), half)), "only some bytes are the same"
    assert len(list(module._found(raw, forms, range(8), raw))) == 2


def test_a_value_is_found_at_the_very_end() -> None:
    form = b"\xd1\xd2\xd3\xd4\xd5"
    assert list(module._found(bytes(3) + form, {form: "key"}, range(1))) == [(3, "key")]


@pytest.mark.slow
def test_captures_that_differ_only_in_identities_and_keys_become_the_same() -> None:
    """The proofs of all rules under two sets of names: what is the same for both tells nothing about either."""
    copies = [chunk for i, chunk in enumerate(crowd(196, at_once=1, what="guid key text address qpn")) if i in (165, 195)]
    after = []
    for chunk in copies:
        scrubber = Scrubber(builtin())
        scrubber.lids.survey(ChunkTable(chunk))
        after.append(scrubber.scrub(chunk).data)
    assert (copies[0].data != copies[1].data).sum() > 10_000 and (after[0] == after[1]).all()
