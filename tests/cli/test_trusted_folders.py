"""A damaged or misplaced list of trusted folders trusts nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ibdissect.cli import run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name, appauthor: str(tmp_path / "home" / name))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ibdissect.toml").write_text("")
    return tmp_path


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '"/"', "[" * 100_000])
def test_a_damaged_list_trusts_nothing(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home" / "ibdissect").mkdir(parents=True)
    (tmp_path / "home" / "ibdissect" / "trusted.json").write_text(text)
    assert run(["trust"]) == 2 and "is damaged" in capsys.readouterr().err


def test_the_list_is_never_in_a_relative_folder(
    monkeypatch: pytest.MonkeyPatch, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name, appauthor: os.path.join("config", name))
    assert run(["trust"]) == 2 and "absolute" in capsys.readouterr().err
    assert run(["trust", str(home)]) == 2 and not (Path.cwd() / "config").exists()
