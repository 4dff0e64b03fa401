"""Does the search for leftovers find what is left, at any bit and as text, and nothing in what `scrub` wrote?"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ibdissect.errors import CaptureError
from ibdissect.scrub.copy import write_scrubbed
from ibdissect.scrub.verify import verify
from ibdissect.session.capture import Capture
from ibdissect.wire.sm import NodeDescription
from ibdissect.wire.sm_port import PortInfo
from tests.conftest import a_third_of, shared_captures
from tests.craft import build, erf_pcap, rc, smp

KEY, NAME = 0xDEADBEEFCAFEF00D, b"vault-17 HCA-2"
FRAMES = [smp(0x81, 0x15, build(PortInfo, m_key=KEY)), smp(0x81, 0x10, build(NodeDescription, node_string=NAME.decode()))]


def checked(blob: bytes, spoil: bytes = b"", at: int = 0) -> None:
    """Scrub, write `spoil` into the copy, verify."""
    out = io.BytesIO()
    with Capture(io.BytesIO(blob)) as opened:
        _, scrubber = write_scrubbed(opened, None, out, "pcap")
        out.seek(at or len(out.getvalue()) - 200)
        out.write(spoil)
        verify(opened, None, scrubber, out, "copy.pcap")


def test_nothing_is_left() -> None:
    checked(erf_pcap(FRAMES))


@pytest.mark.parametrize("shift", range(8))
def test_a_key_is_found_at_every_bit(shift: int) -> None:
    with pytest.raises(CaptureError, match="still hold a key M_Key of the capture, at byte") as raised:
        checked(erf_pcap(FRAMES), (KEY << (8 - shift)).to_bytes(9, "big"))
    assert f"{KEY:x}" not in str(raised.value)


@pytest.mark.parametrize("text", [f"{KEY:x}", f"{KEY:X}", str(KEY), "dead:beef:cafe:f00d", "de:ad:be:ef:ca:fe:f0:0d"])
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
