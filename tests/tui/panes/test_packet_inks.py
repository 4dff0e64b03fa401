"""Coloring rules, refusals, repetitions and management give packets their inks, in this order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.tui import made


def test_inks(tmp_path: Path) -> None:
    app = made.app_on(made.capture(tmp_path))
    model, inks, frames = app.model, app.main.packets.inks, list(range(1, 6))
    model.scan(lambda: None)
    app.study.repeated.add(2)
    one = replace(model.lines([1])[0], frame=1, p_key=0xFFFF, malformed=False, protocol="RC", info="SEND Only")
    asked = list[int]()

    def page(number: int) -> list[int]:
        asked.append(number)
        return frames

    def ink(**changes: object) -> str | None:
        return inks.of(replace(one, **changes), 0, page)  # type: ignore[arg-type]

    assert ink() is None and ink(p_key=None) == "other" and ink(protocol="SMP", p_key=None) == "smp"
    assert ink(frame=2) == "again" and ink(frame=2, info="RNR NAK") == "nak" and ink(frame=2, malformed=True) == "nak"
    assert not asked, "without rules no page is matched"
    wide, narrow = model.filter("frame.number <= 2")[0], model.filter("frame.number == 1")[0]
    assert wide is not None and narrow is not None
    inks.rules = [(narrow, "sa"), (wide, "cm")]
    assert ink(malformed=True) == "sa" and ink(frame=2, info="NAK") == "cm" and ink(frame=3, protocol="SMP") == "smp"
    assert asked == [0]
    inks.forget()
    assert ink() == "sa" and asked == [0, 0]
