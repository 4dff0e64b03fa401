"""Walks of folders and globs end, whatever links and mounts lead to, and say where they did not go."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibdissect.capture import folders
from ibdissect.capture.opening import open_capture
from ibdissect.capture.path_arguments import discover
from ibdissect.errors import CaptureError
from ibdissect.subnet.files import read_files
from tests.commands import run

NEEDS_PROC = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
DEEP = 1200
"""More folders in each other than Python has levels of calls."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two captures, and two links that lead back, of which each may come after each other."""
    (tmp_path / "top/day").mkdir(parents=True)
    (tmp_path / "top/a.pcap").touch()
    (tmp_path / "top/day/b.pcap").touch()
    (tmp_path / "top/one").symlink_to(".")
    (tmp_path / "top/day/two").symlink_to("..")
    (tmp_path / "top/itself").symlink_to("itself")
    return tmp_path / "top"


def relative(tree: Path, *paths: str) -> list[str]:
    return sorted(os.path.relpath(file, tree) for file in discover(paths).files)


@pytest.mark.parametrize("pattern", ["", "**/*.pcap", "**/**/*.pcap", "**/**/**/*.pcap", "**"])
def test_links_that_lead_back_end(tree: Path, pattern: str) -> None:
    assert relative(tree, str(tree / pattern)) == ["a.pcap", "day/b.pcap", *(["itself"] if pattern == "**" else [])]


def test_a_glob_finds_what_glob_finds(tree: Path) -> None:
    for link in ("one", "day/two", "itself"):
        (tree / link).unlink()
    (tree / ".hidden.pcap").touch()
    for pattern in ("*", "*/", "*/b.pcap", "d?y/*", "**/b.pcap", "**", ".h*", "*/../a.*", "day/../*.pcap", "no/*", "a.pcap/*", "[ad]*"):
        found = {os.path.normpath(path) for path in glob.glob(str(tree / pattern), recursive=True)} - {str(tree)}
        inside = {os.path.join(at, name) for path in found for at, _, names in os.walk(path) for name in names if name.endswith(".pcap")}
        wanted = {path for path in found if os.path.isfile(path)} | inside
        try:
            files = {os.path.normpath(file) for file in discover([str(tree / pattern)]).files}
        except CaptureError:
            files = set()
        assert files == wanted, pattern


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory with folders in each other, which `shutil.rmtree` cannot remove."""
    monkeypatch.chdir(tmp_path)
    paths = ["/".join("d" * count) for count in range(1, DEEP + 1)]
    for path in paths:
        os.mkdir(path)
    Path(paths[-1], "x.pcap").touch()
    yield
    os.unlink(f"{paths[-1]}/x.pcap")
    for path in reversed(paths):
        os.rmdir(path)


@pytest.mark.slow
@pytest.mark.usefixtures("deep")
def test_folders_deeper_than_python() -> None:
    for path in (".", "**/*.pcap"):
        (file,) = discover([path]).files
        assert file.endswith("d/x.pcap") and file.count("d/") == DEEP


@NEEDS_PROC
@pytest.mark.parametrize("path", ["/proc/self", "/proc", "/proc/self/fd", "/sys", "/proc/**/x.pcap"])
def test_folders_of_the_kernel_are_refused(path: str, tree: Path) -> None:
    (file,) = discover([path]).files
    assert file == path.partition("/**")[0]
    with pytest.raises(CaptureError, match=r"is in a file system of the kernel .*, which is not searched"):
        open_capture(file)


@NEEDS_PROC
def test_a_link_to_one_is_an_error_beside_what_was_found(tree: Path) -> None:
    (tree / "day/z").symlink_to("/proc/self")
    for path in (str(tree), str(tree / "**"), str(tree / "**/*.pcap")):
        found = discover([path])
        assert {os.path.relpath(file, tree) for file in found.files} - {"itself"} == {"a.pcap", "day/b.pcap", "day/z"}
    done = run("lint", str(tree), text=True)
    assert done.returncode == 2 and f"error: {tree}/day/z: is in a file system of the kernel (proc)" in done.stderr
    for path in (tree, tree / "day/z"):
        with pytest.raises(CaptureError, match="is in a file system of the kernel"):
            read_files([str(path)])
    for name in ("day/z/fd", "day", "**"):
        (tree / "ibdissect.toml").write_text(f'[site]\nsubnet = ["{name}"]\n')
        refused = run("fabric", "a.pcap", cwd=tree, text=True)
        assert refused.returncode == 2 and "ibdissect.toml: site.subnet: " in refused.stderr


def test_links_out_of_a_folder_add_no_more_than_a_bound(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tree.parent / "other"
    for number in range(3):
        (outside / f"{number}/deep").mkdir(parents=True)
        (outside / f"{number}/x.pcap").touch()
    (tree / "day/z").symlink_to(outside)
    assert len(discover([str(tree)]).files) == 5
    monkeypatch.setattr(folders, "MOST_OUTSIDE", 5)
    found = discover([str(tree)]).files
    assert [os.path.relpath(file, tree) for file in found] == ["a.pcap", "day/b.pcap", "day/z/0/x.pcap", "day/z/1"]
    with pytest.raises(CaptureError, match=f"is reached by links out of {tree}, as more than 5 files are; name it itself"):
        open_capture(found[-1])
    assert len(discover([str(outside)]).files) == 3, "what the user names is no link"
