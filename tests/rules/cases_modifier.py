"""Proofs of the attribute-modifier rules."""

from __future__ import annotations

from tests.craft import gmp, smp
from tests.rules.cases import case

case("AM001", smp(1, 0x10, modifier=1), smp(1, 0x10, modifier=0))
# An agent that refuses the modifier is right; an Omni-Path modifier has other rules.
case("AM001", smp(0x81, 0x10, modifier=1), smp(0x81, 0x10, modifier=1, header={"status": 0x1C}))
case("AM002", smp(1, 0x11, modifier=3), smp(1, 0x11))
case("AM003", smp(1, 0x12, modifier=2), smp(1, 0x12))
case("AM006", smp(1, 0x15, modifier=0x100), smp(1, 0x15, modifier=0xFF))
case("AM009", [smp(1, 0x15, modifier=0x80000001), smp(1, 0x15, modifier=0x80000002)], smp(1, 0x15, modifier=1), frames=[1])
case("AM010", smp(1, 0x16, modifier=2000), smp(1, 0x16, modifier=1023))
case("AM014", smp(1, 0x18, modifier=0x00050001), smp(1, 0x18, modifier=0x00040001))
case("AM014", smp(1, 0x18, modifier=1), smp(1, 0x18, modifier=0x00010001))
case("AM020", smp(1, 0x1B, modifier=0x200), smp(1, 0x1B, modifier=0xF00001FF))
case("AM023", smp(2, 0x20, modifier=7), smp(2, 0x20, bytes(20) + b"\x03", modifier=5))
case("AM023", smp(2, 0x20, modifier=0), smp(1, 0x20, modifier=0))
case("AM024", smp(1, 0x20, modifier=2), smp(2, 0x20, bytes(20) + b"\x02", modifier=2))
case("AM026", smp(2, 0x31, modifier=1), smp(2, 0x31))
case("AM027", smp(5, 0x02, modifier=5), smp(7, 0x02, modifier=5))
case("AM028", smp(1, 0xFF10, modifier=0x10000), smp(1, 0xFF10, modifier=0xFFFF))
case("AM030", gmp(6, 1, 0x11, header={"attribute_modifier": 0}), gmp(6, 1, 0x11, header={"attribute_modifier": 255}))
case("AM032", gmp(0x21, 2, 0x15, header={"attribute_modifier": 99}), gmp(0x21, 2, 0x15, header={"attribute_modifier": 7}))
case("AM033", smp(1, 0x33, modifier=0x200), smp(1, 0x33, modifier=0xFF))
