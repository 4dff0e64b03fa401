"""The plugin pages show the code of their example files, and their capture is the one that tests build."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

import pytest

from ibdissect.plugins import load
from tests.acme import capture


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize(
    ("page", "example"),
    [("first-dissector.md", "docs/examples/first_dissector.py"), ("first-rule.md", "docs/examples/first_rule.py"),
     ("plugins.md", "tests/plugin_package/src/acme_ib/stream.py")],
)  # fmt: skip
def test_code_of_the_page_is_in_the_file(repo: Path, page: str, example: str) -> None:
    """Compares line by line; imports may be grouped differently."""
    text = (repo / example).read_text(encoding="utf-8")
    shown = [line for block in blocks(repo / "docs" / page) for line in block.splitlines()]
    statements = [line for line in shown if line.strip() and not line.startswith(("from ", "import "))]
    assert len(statements) > 6
    known = {line.strip() for line in text.splitlines()}
    assert [line for line in statements if line.strip() not in known] == []


@pytest.mark.slow
def test_the_examples_load_together_and_alone(repo: Path) -> None:
    for name in ("acme.py", "first_dissector.py", "first_rule.py"):
        loaded = load([str(repo / "docs/examples" / name)])
        assert len(loaded.catalog.structs) > 300
    assert load([str(repo / "docs/examples/first_dissector.py")]).columns == ("acme.temperature.celsius",)


def test_the_capture_is_the_one_built_here(repo: Path) -> None:
    assert (repo / "docs/examples/acme.pcap").read_bytes() == capture()


def test_the_page_of_all_words_is_current(repo: Path, written: Callable[[Path, bytes | str], None]) -> None:
    page = runpy.run_path(str(repo / "docs/plugin_words.py"))["page"]()
    written(repo / "docs/plugin-words.md", page)
    for word in ("`repeat(", "`case(", "`uint(", "`@on_struct`", "`Replied`", "`Setting(", "`holds`", "`VendorOui("):
        assert word in page, word


def test_every_constructor_of_fields_is_on_the_page_of_all_words(repo: Path) -> None:
    from ibdissect.wire import spec, tail

    page = (repo / "docs/plugin-words.md").read_text(encoding="utf-8")
    for module in (spec, tail):
        for name, value in vars(module).items():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__ and "return" in value.__annotations__:
                told = str(value.__annotations__["return"]).startswith("Field[") and not name.startswith("_")
                assert not told or name in ("sized", "field_named") or f"`{name}(" in page, name


def test_every_place_is_on_the_page(repo: Path) -> None:
    from ibdissect.wire import places

    page = (repo / "docs/plugins.md").read_text(encoding="utf-8")
    words = [name for name, value in vars(places).items() if isinstance(value, type) and value.__module__ == places.__name__]
    assert [word for word in words if f"`{word}(" not in page] == ["Place", "SaPiece"], "a base, and the record finder's own"
