"""Proofs of the attribute-modifier rules."""

from __future__ import annotations

from tests.craft import smp
from tests.rules.cases import case

case("AM001", smp(1, 0x10, modifier=1), smp(1, 0x10, modifier=0))
case("AM009", smp(1, 0x15, modifier=0x80000001), smp(1, 0x15, modifier=1))
