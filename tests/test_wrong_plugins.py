"""Each plugin of a folder of wrong ones, with one mistake each, is told in one line that names it, and none with a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.errors import IbdissectError
from ibdissect.lint.rule import REGISTRY
from ibdissect.plugins import load
from ibdissect.rules import load as load_rules
from tests import commands

SHARED = Path(__file__).resolve().parents[2] / "shared/extend"
WRONG = {path.stem: str(path) for path in sorted((SHARED / "wrong").glob("*.py"))}
LEGAL = {"big", "imp_print", "nodoc", "noplace", "nosize", "rule_print", "show_esc", "unilabel"}
"""Nothing is wrong with these but what is mended silently: a place alone, no docstring, no size, what is printed, odd labels."""
SHOW = {
    "col_raise", "col_type", "p_exit", "p_huge", "p_mem", "p_neg", "p_none", "p_over", "p_raise",
    "p_rec", "p_type", "show_raise", "show_type",
}  # fmt: skip
"""Said when a function of theirs runs, in every command."""
LINT = {"pr2", "rule_frame", "rule_init", "rule_msgarg", "rule_noyield", "rule_raise", "rule_yield"}
"""Said when a rule of theirs runs."""
ENDLESS = {"p_inf", "p_infyield", "rule_loop"}
"""Stopped after a time: see test_patience."""
needs_folder = pytest.mark.skipif(not WRONG, reason="needs ../shared")


@needs_folder
@pytest.mark.slow
def test_what_is_declared_wrongly_is_said_when_it_is_loaded() -> None:
    load_rules()
    for code in [code for code, rule in REGISTRY.items() if not rule.__module__.startswith("ibdissect.")]:
        del REGISTRY[code]  # of another test
    silent, before = set(), dict(REGISTRY)
    for stem, path in WRONG.items():
        try:
            load([path])
        except IbdissectError as error:
            said = str(error)
            assert stem in said and "\n" not in said and len(said) < 400, said
        else:
            silent.add(stem)
        finally:
            REGISTRY.clear()
            REGISTRY.update(before)
    assert silent == LEGAL | SHOW | LINT | ENDLESS


@needs_folder
@pytest.mark.slow
@pytest.mark.parametrize(("command", "stem"), [("show", one) for one in sorted(SHOW)] + [("lint", one) for one in sorted(LINT)])
def test_what_fails_on_a_packet_is_said_with_status_2(command: str, stem: str) -> None:
    done = commands.run(command, "--plugin", WRONG[stem], str(SHARED / "zed.pcap"), text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.count("error: ") == 1 and (stem in done.stderr or "BBB001" in done.stderr)
