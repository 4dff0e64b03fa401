"""Proofs of the rules about payload lengths."""

from __future__ import annotations

from tests.craft import native
from tests.rules.cases import case

case("BTH007", native(0x01, bytes(100)), native(0x01, bytes(256)))
case("BTH007", native(0x01, bytes(768)), native(0x02, bytes(768)))
