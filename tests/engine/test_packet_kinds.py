"""The interpreter and the compiler take the same numbers."""

from __future__ import annotations

import re

from ibdissect.engine import packet_kinds
from tests.engine.plain import FOLDER


def test_the_numbers_are_those_of_the_declarations_for_the_compiler() -> None:
    text = (FOLDER / "common.pxd").read_text(encoding="utf-8")
    declared = {name: int(value) for name, value in re.findall(r"^    ([A-Z]\w+) = (\d+)$", text, re.MULTILINE)}
    assert declared == {name: value for name, value in vars(packet_kinds).items() if name in declared} and len(declared) > 12
