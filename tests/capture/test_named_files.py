"""Files that a configuration names and nobody else: the ones that are opened, and the limits."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest

from ibdissect.capture import named_files
from ibdissect.capture.named_files import Confined, NamedFiles
from ibdissect.errors import ConfigError
from ibdissect.subnet.files import read_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a configuration, with what it may not name beside it and in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/guid2lid").write_text("0x0002c90300000001 0x0001 0x0001\n")
    here = tmp_path / "here"
    here.mkdir()
    (here / "guid2lid").write_text("0x0002c90300000002 0x0002 0x0002\n")
    (here / "deep").mkdir()
    (here / "deep/guid2lid").write_text("0x0002c90300000003 0x0003 0x0003\n")
    os.mkfifo(here / "fifo")
    (here / "device").symlink_to("/dev/zero")
    (here / "link").symlink_to("../outside")
    (here / "alias").symlink_to("deep/guid2lid")
    return here


def read(folder: Path, *names: str) -> list[str]:
    named = Confined(str(folder / "ibdissect.toml"), "site.subnet")
    return [os.path.relpath(file.known.path, folder) for file in read_files([str(folder / name) for name in names], named=named).files]


def test_regular_files_below_its_folder(folder: Path) -> None:
    assert sorted(read(folder, "guid2lid", "alias")) == ["alias", "guid2lid"]
    assert read(folder, "deep") == read(folder, "d*p/**") == ["deep/guid2lid"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fifo", "is a FIFO"), ("f*o", "is a FIFO"), ("device", "does not lie below"),
        ("/dev/zero", "does not lie below"),
        ("/proc", "does not lie below"), ("/**", "does not lie below"), ("**", "does not lie below"), (".", "does not lie below"),
        ("../outside/guid2lid", "does not lie below"), ("link/guid2lid", "does not lie below"), ("link", "does not lie below"),
        ("link/*", "does not lie below"), ("*/../../outside/*", "leads out of"),
    ],
)  # fmt: skip
def test_anything_else_is_an_error_with_file_and_key(folder: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"ibdissect.toml: site.subnet: .*{said}.*; to allow it, name it: --config"):
        read(folder, name)


@pytest.mark.parametrize(
    ("limit", "most", "said"), [("MOST_FILES", 1, "more than 1 files"), ("MOST_BYTES", 40, "million bytes"), ("MOST_S", 0.0, "takes more")]
)
def test_limits_hold_for_all_files_together(folder: Path, limit: str, most: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, limit, most)
    with pytest.raises(ConfigError, match=f"site.subnet: .*{said}"):
        read(folder, "guid2lid", "deep/guid2lid")
    if limit == "MOST_BYTES":
        assert read(folder, "guid2lid") == ["guid2lid"]


def test_a_glob_finds_what_glob_finds(folder: Path) -> None:
    named = Confined(str(folder / "ibdissect.toml"), "site.subnet")
    (folder / ".hidden").mkdir()
    (folder / ".hidden/guid2lid").touch()
    for entry in ("link", "device"):  # what leads out of the folder is refused
        (folder / entry).unlink()
    for pattern in ("*", "**", "**/guid2lid", "d?ep/*", "deep/**/guid2lid", "*/guid2lid", "[dg]*", "**/**/guid2lid", "no/*", "guid2lid/*"):
        wanted = {path.rstrip("/") for path in glob.glob(str(folder / pattern), recursive=True)} - {str(folder)}
        assert set(named.matches(str(folder / pattern))) == wanted, pattern


def test_a_glob_ends(folder: Path) -> None:
    """Many `**`, links in a circle, many parts, and what is no path."""
    for name in ("one", "two"):
        (folder / "deep" / name).symlink_to(".")
    named = Confined(str(folder / "ibdissect.toml"), "site.subnet")
    assert not [*named.matches(str(folder / "/".join(["**"] * 30) / "x"))]
    most = str(folder) + "/x*" * (64 - str(folder).count("/"))
    assert not [*named.matches(most)]
    with pytest.raises(ConfigError, match="more than 64 parts"):
        list(named.matches(most + "/x"))
    with pytest.raises(ConfigError, match="is no path"):
        read(folder, "a\0b")


def test_what_the_user_names_is_free_and_a_fifo_is_told(folder: Path) -> None:
    told: list[str] = []
    named = NamedFiles(told.append)
    assert len(read_files([str(folder / "link"), str(folder / "guid2lid")], named=named).files) == 2 and not told
    with named.open("/dev/null") as file:
        assert file.read() == b"" and told == ["note: /dev/null is a device: it is read until it ends"]
