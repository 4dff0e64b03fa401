"""Nothing follows a link that another user has put into a folder for everybody, or believes a file that others can write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ibdissect.capture.file_owners import private
from ibdissect.capture.writing import CaptureWriter
from ibdissect.errors import CaptureError
from tests.commands import run
from tests.conftest import REPO

SOMEBODY, OTHER = 12_345, 23_456
LAB = str(REPO / "captures/pkey-lab.pcap")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's files")


@pytest.fixture
def shared_folder(tmp_path: Path) -> Path:
    """A folder for everybody, as /tmp is, of nobody who is asked here."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    os.chmod(folder, 0o1777)
    if os.geteuid() == 0:
        os.chown(folder, OTHER, -1)
    (tmp_path / "mine").write_text("precious")
    return folder


def link(path: Path, to: object, owner: int = SOMEBODY) -> Path:
    path.symlink_to(str(to))
    os.lchown(path, owner, -1)
    return path


WRITERS: dict[str, Callable[[str], object]] = {
    "export --to csv": lambda path: run("export", LAB, "--to", path, "-e", "frame.number", "--format", "csv"),
    "export --to pcap": lambda path: run("export", LAB, "--to", f"{path}.pcap"),
    "annotate": lambda path: run("annotate", LAB, "--to", f"{path}.pcapng"),
    "scrub": lambda path: run("scrub", LAB, "--to", f"{path}.pcap"),
    "lint --output": lambda path: run("lint", LAB, "--output", path),
    "lint --write-baseline": lambda path: run("lint", LAB, "--write-baseline", path),
    "the job summary": lambda path: run("lint", LAB, "--format", "github", env={**os.environ, "GITHUB_STEP_SUMMARY": path}),
    "report": lambda path: run("report", LAB, "-o", f"{path}.html"),
}


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("what", WRITERS)
def test_outputs_do_not_follow_another_users_link(what: str, shared_folder: Path, tmp_path: Path) -> None:
    for ending in ("", ".pcap", ".pcapng", ".html"):
        link(shared_folder / f"out{ending}", tmp_path / "mine")
    done = WRITERS[what](str(shared_folder / "out"))
    assert (tmp_path / "mine").read_text() == "precious"
    assert done.returncode == 2 and b"is a link that another user has put into a folder for everybody" in done.stderr  # type: ignore[attr-defined]


def report(path: Path | str) -> str:
    """What `lint` says that writes a report there."""
    done = run("lint", LAB, "--select", "PKY001", "--exit-zero", "--output", str(path), text=True)
    assert bool(done.stderr) == bool(done.returncode)
    return str(done.stderr)


@needs_root
def test_neither_does_a_folder_on_the_way_nor_a_link_to_a_link(shared_folder: Path, tmp_path: Path) -> None:
    link(shared_folder / "folder", tmp_path)
    link(tmp_path / "hop", shared_folder / "folder/mine", os.geteuid())
    for name in (shared_folder / "folder/new", shared_folder / "folder/../mine", tmp_path / "hop"):
        assert f"{shared_folder}/folder is a link that another user" in report(name)
    with pytest.raises(CaptureError, match="is a link that another user"):
        CaptureWriter(str(shared_folder / "folder/new.pcap"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hop", "mine", "tmp"]


@needs_root
def test_a_report_goes_to_no_fifo_of_another_user(shared_folder: Path) -> None:
    os.mkfifo(shared_folder / "fifo")
    os.chown(shared_folder / "fifo", SOMEBODY, -1)
    done = run("lint", LAB, "--output", str(shared_folder / "fifo"), text=True)
    assert done.returncode == 2 and "fifo is a FIFO that another user has put" in done.stderr


@needs_root
@pytest.mark.parametrize("owner", [0, OTHER])
def test_links_of_ones_own_and_of_the_folders_owner_are_followed(owner: int, shared_folder: Path, tmp_path: Path) -> None:
    for name, whose, mode in (("out", owner, 0o1777), ("other", SOMEBODY, 0o755)):  # that is not for everybody
        os.chmod(shared_folder, mode)
        (tmp_path / "mine").write_text("precious")
        assert not report(link(shared_folder / name, tmp_path / "mine", whose))
        assert "PKY001" in (tmp_path / "mine").read_text() and (shared_folder / name).is_symlink()


@needs_root
def test_a_file_that_another_user_has_put_there_does_not_choose_the_permissions(shared_folder: Path) -> None:
    (shared_folder / "out").write_text("")
    os.chmod(shared_folder / "out", 0o666)
    os.chown(shared_folder / "out", SOMEBODY, -1)
    assert not report(shared_folder / "out")
    assert (shared_folder / "out").stat().st_mode & 0o022 == 0


def test_the_place_of_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "a/b/up").symlink_to("../../link/..")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a/b/new").mkdir()
    (tmp_path / "a/new").mkdir()
    for path in ("x", "a/../x", "link/x", "link/../x", "./link//up/new/x", str(tmp_path / "link/up/x")):
        with CaptureWriter(f"{path}.pcap"):
            assert os.path.exists(os.path.realpath(f"{path}.pcap")), path
        os.unlink(os.path.realpath(f"{path}.pcap"))
    (tmp_path / "round.pcap").symlink_to("round.pcap")
    with pytest.raises(CaptureError, match="is a link to itself"):
        CaptureWriter("round.pcap")
    for i in range(41):
        (tmp_path / f"l{i}.pcap").symlink_to(f"l{i - 1}.pcap" if i else "x.pcap")
    with CaptureWriter("l39.pcap"):
        assert (tmp_path / "x.pcap").exists()
    with pytest.raises(CaptureError):
        CaptureWriter("l40.pcap")


@pytest.mark.parametrize(("mode", "said"), [(0o700, ""), (0o755, ""), *((mode, "can be written by others") for mode in (0o720, 0o702))])
def test_what_others_can_write(mode: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for name, folder in (("folder", True), ("file", False)):
        os.chmod(tmp_path / name, mode)
        assert private(tmp_path / name, folder=folder) == said
        assert "is no" in private(tmp_path / name, folder=not folder)
    (tmp_path / "link").symlink_to("folder")
    assert private(tmp_path / "link", folder=True) == "is no folder"
    if os.geteuid() == 0:
        os.chown(tmp_path / "folder", SOMEBODY, -1)
        assert private(tmp_path / "folder", folder=True) == "belongs to another user"
