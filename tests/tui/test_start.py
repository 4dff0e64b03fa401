"""`ibdissect` alone offers captures, and opens the one that is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibdissect.tui.start import StartApp
from tests.tui import drawn
from tests.tui.made import focused


def test_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state/ibdissect").mkdir(parents=True)

    def offered() -> Any:
        return StartApp().shown.shown[0].lines  # type: ignore[attr-defined]

    assert [one.path for one in offered()].count("") == 1 and not any(one.path for one in offered())
    for name in ("b.pcap", "a.pcapng.gz", "notes.txt"):
        (tmp_path / name).write_bytes(b"x" * 1234)
    (tmp_path / "folder.pcap").mkdir()
    (tmp_path / "state/ibdissect/recent").write_text(f"{tmp_path}/a.pcapng.gz\n{tmp_path}/b.pcap\n{tmp_path}/gone.pcap\n/\n")
    found = offered()
    names = [Path(one.path).name for one in found if one.path]
    assert names == ["b.pcap", "a.pcapng.gz", "a.pcapng.gz", "b.pcap"], "opened before, the latest first, then those here"
    assert found[0].path == "" and "1,234 bytes" in [one.note for one in found]


async def test_a_capture_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "a\x1b.pcap").write_bytes(b"")
    for keys, result in ((["down"] * 3 + ["enter"], str(tmp_path / "a\x1b.pcap")), (["q"], None), (["ctrl+c"], None)):
        app = StartApp()
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert focused(app).count() > 5
            text = drawn.text(app)
            assert "\x1b" not in text and "In this folder" in text and "ibdissect lint CAPTURE" in text
            await pilot.press(*keys)
            await pilot.pause()
        assert app.return_value == result


async def test_a_path_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "long-name.pcap").write_bytes(b"")
    app = StartApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press(*"lo", "tab", "enter")
        await pilot.pause()
    assert app.return_value == "long-name.pcap"
