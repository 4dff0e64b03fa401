"""The engine runs where Cython is not installed."""

from __future__ import annotations

import re

from tests.engine.plain import FOLDER, plain


def test_the_shadow_has_every_word_that_the_modules_use() -> None:
    shadow = plain("without_cython")
    used = {name for path in FOLDER.glob("*.py") for name in re.findall(r"\bcython\.(?!cimports)(\w+)", path.read_text(encoding="utf-8"))}
    assert {"cclass", "declare", "compiled"} <= used and not [name for name in sorted(used) if not hasattr(shadow, name)]


def test_decorators_and_types_change_nothing() -> None:
    shadow = plain("without_cython")

    @shadow.cfunc
    @shadow.exceptval(-1)
    def one(n: int) -> int:
        return n

    assert one(3) == 3 and shadow.declare(shadow.int, 5) == 5 and shadow.cast(shadow.const[shadow.uchar], 7) == 7
    assert not shadow.compiled and not plain("common").COMPILED


def test_each_module_begins_with_the_directives() -> None:
    """Those at the head of a .py do not reach a .pxd, and the compiler's own defaults wrap indices around."""
    for path in (*FOLDER.glob("*.py"), *FOLDER.glob("*.pxd")):
        text = path.read_text(encoding="utf-8")
        if "cython.compiled" in text or path.suffix == ".pxd":
            assert text.startswith("# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False\n"), path
