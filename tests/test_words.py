"""An author can import every word of the page of all words from one place."""

from __future__ import annotations

import re
from pathlib import Path

from ibdissect import words


def test_every_word_of_the_page_is_there(repo: Path) -> None:
    page = (repo / "docs/plugin-words.md").read_text(encoding="utf-8")
    tables = page.split("| attribute |")[0] + page.split("## Places")[1].split("## Events")[0]
    told = set(re.findall(r"^\| `@?(\w+)(?:\(|`)[^|]*\|", tables, re.M))
    attributes = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    assert len(told) > 50
    assert told - attributes - set(words.__all__) == set()
    assert all(hasattr(words, name) for name in words.__all__)
