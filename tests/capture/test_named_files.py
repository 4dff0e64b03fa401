"""Files that a configuration names and nobody else: the ones that are opened, and the limits."""

from __future__ import annotations

import glob
import json
import os
import re
from pathlib import Path

import pytest

from ibdissect.capture import named_files
from tests.commands import run
from tests.craft import erf_pcap, native


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


def read(folder: Path, *names: str, here: bool = False) -> tuple[set[int], str]:
    """LIDs that the files told, which a configuration names, and what is said. `here`: with the limits of this process."""
    (folder / "x.pcap").write_bytes(erf_pcap([native()]))
    (folder / "ibdissect.toml").write_text(f"[site]\nsubnet = {json.dumps(names)}\n")
    done = run("fabric", "x.pcap", "--format", "json", cwd=folder, text=True, here=here)
    nodes = json.loads(done.stdout)["nodes"] if done.returncode == 0 else []
    return {port["lid"] for node in nodes for port in node["ports"] if port["lid"]}, done.stderr


def test_regular_files_below_its_folder(folder: Path) -> None:
    assert read(folder, "guid2lid", "alias") == ({2, 3}, "")
    assert read(folder, "deep") == read(folder, "d*p/**") == ({3}, "")


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
    none, told = read(folder, name)
    assert not none and re.search(f"ibdissect.toml: site.subnet: .*{said}.*; to allow it, name it: --config", told)


@pytest.mark.parametrize(
    ("limit", "most", "said"), [("MOST_FILES", 1, "more than 1 files"), ("MOST_BYTES", 40, "million bytes"), ("MOST_S", 0.0, "takes more")]
)
def test_limits_hold_for_all_files_together(folder: Path, limit: str, most: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, limit, most)
    assert re.search(f"site.subnet: .*{said}", read(folder, "guid2lid", "deep/guid2lid", here=True)[1])
    if limit == "MOST_BYTES":
        assert read(folder, "guid2lid", here=True) == ({2}, "")


def test_a_glob_finds_what_glob_finds(folder: Path) -> None:
    (folder / ".hidden").mkdir()
    for number, path in enumerate((".hidden/guid2lid", "deep/other", "dark"), 4):
        (folder / path).write_text(f"0x0002c9030000000{number} 0x000{number} 0x000{number}\n")
    for entry in ("link", "device", "fifo", "alias"):  # what leads out of the folder is refused
        (folder / entry).unlink()
    lids = {"guid2lid": 2, "deep/guid2lid": 3, ".hidden/guid2lid": 4, "deep/other": 5, "dark": 6}
    for pattern in ("g*", "**/guid2lid", "d?ep/*", "deep/**/guid2lid", "*/guid2lid", "[dg]*", "**/**/guid2lid"):
        found = {os.path.relpath(path, folder) for path in glob.glob(str(folder / pattern), recursive=True)}
        wanted = {lid for path, lid in lids.items() if path in found or os.path.dirname(path) in found}
        assert read(folder, pattern) == (wanted, ""), pattern
    for pattern in ("no/*", "guid2lid/*"):
        assert not glob.glob(str(folder / pattern)) and "matches no file" in read(folder, pattern)[1]


def test_a_glob_ends(folder: Path) -> None:
    """Many `**`, links in a circle, many parts, and what is no path."""
    for name in ("one", "two"):
        (folder / "deep" / name).symlink_to(".")
    most = "/x*" * (64 - str(folder).count("/"))
    for pattern, said in (
        ("/".join(["**"] * 30) + "/x", "matches no file"), (most[1:], "matches no file"), (most[1:] + "/x", "more than 64 parts"),
        ("a\0b", "is no path"),
    ):  # fmt: skip
        assert said in read(folder, pattern)[1]


def test_what_the_user_names_is_free_and_a_fifo_is_told(folder: Path) -> None:
    (folder / "x.pcap").write_bytes(erf_pcap([native()]))
    for name in ("link", "guid2lid"):
        done = run("fabric", "x.pcap", "--subnet", name, cwd=folder, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    done = run("fabric", "x.pcap", "--subnet", "/dev/null", cwd=folder, text=True)
    assert "note: /dev/null is a device: it is read until it ends" in done.stderr
