"""Text of IBA codes: timeouts, rates, link widths and speeds, LIDs, P_Keys; and the GUID in a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import names
from .numbers import FIRST_MULTICAST, PERMISSIVE

LIFETIME_INFINITE = 20
"""Smallest LifeTimeValue and HOQLife that mean "infinite" (IBA 14.2.5.4)."""
LATEST_NS = 10_000_000_000
"""No timer of a requester runs longer as a rule: 2.1 s, which Linux agrees on with the usual packet lifetime (core/cm.c), may take four
times as long (IBA 9.7.6.1.3)."""

RATE_GBPS: Mapping[int, float] = {
    2: 2.5, 3: 10, 4: 30, 5: 5, 6: 20, 7: 40, 8: 60, 9: 80, 10: 120, 11: 14, 12: 56, 13: 112, 14: 168, 15: 25, 16: 100, 17: 200,
    18: 300, 19: 28, 20: 50, 21: 400, 22: 600, 23: 800, 24: 1200, 25: 1600, 26: 2400,
}  # fmt: skip
"""Rate codes of PathRecord and MCMemberRecord (2-10 IBA 15.2.5.16, 11-24 opensm, 25-26 trex-core ib_types.h), nominal Gb/s."""


def decode_text(data: bytes) -> str:
    """Decode a NUL-padded UTF-8 string; invalid bytes become U+FFFD."""
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def timeout_ns(code: int) -> int:
    """The nanoseconds of a timeout code: 4.096 us * 2**code (IBA 13.4.6.2)."""
    return 4096 << code


def duration_text(seconds: float) -> str:
    """A duration with four significant digits in us, ms or s."""
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds:.4g} s"


def timeout_text(code: int) -> str:
    """`18 (1.074 s)`: the code and its time."""
    return f"{code} ({duration_text(timeout_ns(code) / 1e9)})"


def lifetime_text(code: int) -> str:
    """Like `timeout_text`, for LifeTimeValue and HOQLife, where 20 and above mean infinite."""
    return f"{code} (infinite)" if code >= LIFETIME_INFINITE else timeout_text(code)


def lease_text(seconds: int) -> str:
    """A key lease period; 0 means infinite."""
    return f"{seconds} s" if seconds else "0 (infinite)"


def rate_text(code: int) -> str:
    """`3 (10 Gb/s)`."""
    gbps = RATE_GBPS.get(code)
    return f"{code} (unknown)" if gbps is None else f"{code} ({gbps:g} Gb/s)"


def _mask_text(bits: Mapping[int, str], special: Mapping[int, str], none: str) -> Callable[[int], str]:
    """A function that names the bits of a mask, or a `special` value as a whole."""

    def show(value: int) -> str:
        if value in special:
            return f"{value} ({special[value]})"
        if value == 0:
            return f"0 ({none})"
        known = [name for bit, name in bits.items() if value & bit]
        left = value & ~sum(bits)
        return f"{value} ({' or '.join([*known, f'unknown {left:#x}'] if left else known)})"

    return show


width_mask_text = _mask_text(names.LINK_WIDTH, {}, "none")
"""LinkWidthSupported."""
width_enabled_text = _mask_text(names.LINK_WIDTH, {255: "set to supported"}, "no change")
"""LinkWidthEnabled."""
speed_mask_text = _mask_text(names.LINK_SPEED, {}, "none")
"""LinkSpeedSupported."""
speed_enabled_text = _mask_text(names.LINK_SPEED, {15: "set to supported"}, "no change")
"""LinkSpeedEnabled."""
speed_ext_mask_text = _mask_text(names.LINK_SPEED_EXT, {}, "none")
"""LinkSpeedExtSupported."""
speed_ext_enabled_text = _mask_text(names.LINK_SPEED_EXT, {30: "extended speeds disabled", 31: "set to supported"}, "no change")
"""LinkSpeedExtEnabled."""
speed_ext2_mask_text = _mask_text(names.LINK_SPEED_EXT2, {}, "none")
"""LinkSpeedExtSupported2."""
speed_ext2_enabled_text = _mask_text(names.LINK_SPEED_EXT2, {7: "set to supported"}, "no change")
"""LinkSpeedExtEnabled2."""
fec_mask_text = _mask_text({1 << code: name for code, name in names.FEC_MODE.items()}, {}, "none")
"""FEC modes supported or enabled; bit n is mode n of FECModeActive (inferred, not stated in the sources)."""
mlnx_speed_mask_text = _mask_text({1: "FDR10"}, {}, "none")
"""Link speeds of MlnxExtPortInfo (libibmad)."""


def lid_text(lid: int) -> str:
    """Unicast LIDs in decimal; others in hex with their type."""
    if lid == PERMISSIVE:
        return "0xffff (permissive)"
    if lid >= FIRST_MULTICAST:
        return f"{lid:#06x} (multicast)"
    return str(lid)


def opa_lid_text(lid: int) -> str:
    """A 32-bit LID: multicast from 0xF0000000 on, all ones permissive (opa-ff stl_types.h)."""
    if lid == 0xFFFFFFFF:
        return "0xffffffff (permissive)"
    return f"{lid:#010x} (multicast)" if lid >= 0xF0000000 else str(lid)


def p_key_text(value: int) -> str:
    """A P_Key as partition and membership: bit 15 is full membership, the rest the partition."""
    return f"0x{value:04x} ({'full' if value & 0x8000 else 'limited'} member of partition 0x{value & 0x7FFF:04x})"


def parse_guid(text: str) -> int:
    """`0002:c903:0000:1491`, `00:02:c9:03:00:00:14:91` or `0x0002c90300001491` as a number; raises ValueError if invalid."""
    plain = text.strip().lower()
    groups = plain.split(":")
    width = {4: 4, 8: 2}.get(len(groups))
    if width is not None and all(0 < len(group) <= width for group in groups):
        digits = "".join(group.zfill(width) for group in groups)
    else:
        digits = plain.removeprefix("0x")
        if len(digits) != 16:
            raise ValueError(f"not a GUID: {text!r}, wanted 16 hexadecimal digits")
    if any(digit not in "0123456789abcdef" for digit in digits):
        raise ValueError(f"not a GUID: {text!r}, wanted hexadecimal digits")
    return int(digits, 16)
