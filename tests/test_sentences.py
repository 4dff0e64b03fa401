"""The page of the standard's sentences names rules that exist, and a rule for every sentence that a capture can show broken."""

from __future__ import annotations

import re

from ibdissect.rules import load
from tests.conftest import REPO

ROW = re.compile(r"\| (?P<sentence>.+?) \| (?P<rule>[^|]+) \| (?P<seen>[^|]*) \|")
CODES = {rule.code for rule in load()}
PAGE = (REPO / "docs" / "sentences.md").read_text(encoding="utf-8")


def rows() -> list[re.Match[str]]:
    found = [row for line in PAGE.splitlines() if (row := ROW.fullmatch(line)) is not None and row["rule"] != "rule" and "---" not in line]
    assert len(found) > 140
    return found


def test_codes_exist() -> None:
    for row in rows():
        named = set(re.findall(r"\b[A-Z]{2,3}[0-9]{3}\b", row["rule"]))
        assert named <= CODES, row["sentence"]


def test_what_a_capture_can_show_has_a_rule() -> None:
    for row in rows():
        named = re.findall(r"\b[A-Z]{2,3}[0-9]{3}\b", row["rule"])
        provable = row["seen"].startswith(("P", "F"))
        assert named or not provable or "left out" in row["rule"], row["sentence"]
        assert "not yet" not in row["rule"], row["sentence"]
        assert named or re.search(r"\(.{10,}\)", row["rule"]), f"say why no rule is possible: {row['sentence']}"
