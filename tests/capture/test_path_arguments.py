"""Path arguments expand to the right files, in the same order every time."""

from __future__ import annotations

import gzip
import os
import pickle
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.capture.path_arguments import discover
from ibdissect.errors import CaptureError
from tests.capture.built import Packet, pcap, read


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "b/2.pcapng",
        "b/1.PCAP",
        "b/notes.txt",
        "a/x.erf.zst",
        "a/y.cap.gz",
        "a/z.gz",
        "c/readme",
        "top.dmp",
        "odd[1].pcap",
        "s.sniffer.xz",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def names(root: Path, *paths: str) -> list[str]:
    return [str(Path(file).relative_to(root)) for file in discover([str(root / path) for path in paths]).files]


def test_directories(tree: Path) -> None:
    assert names(tree, "") == ["odd[1].pcap", "s.sniffer.xz", "top.dmp", "a/x.erf.zst", "a/y.cap.gz", "b/1.PCAP", "b/2.pcapng"]
    assert discover([str(tree)]).left_out == 3


def test_files_are_taken_whatever_their_name(tree: Path) -> None:
    assert names(tree, "b/notes.txt", "missing", "odd[1].pcap", "b") == ["b/notes.txt", "missing", "odd[1].pcap", "b/1.PCAP", "b/2.pcapng"]
    assert discover(["-", "-"]).files == ["-"]


def test_globs(tree: Path) -> None:
    assert names(tree, "*/*.pcap*") == ["b/2.pcapng"]
    assert names(tree, "[ab]") == ["a/x.erf.zst", "a/y.cap.gz", "b/1.PCAP", "b/2.pcapng"]
    assert names(tree, "**/*.cap.gz") == ["a/y.cap.gz"]


@pytest.mark.parametrize(
    ("path", "reason"), [("c", "directory without captures"), ("*.none", "matches no file"), ("[c]", "matches no capture")]
)
def test_nothing_found(tree: Path, path: str, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        discover([str(tree / path)])


def test_links_that_lead_back(tree: Path) -> None:
    (tree / "a/loop").symlink_to(tree)
    assert len(set(names(tree, ""))) == 7


def test_what_looks_like_a_capture_is_never_left_out(tmp_path: Path) -> None:
    """A name says it, of whatever kind the file is, or the first bytes do; a README beside captures is no capture."""
    blob = pcap([Packet(0, 0, b"frame")])
    for name in ("clean.pcap", "dump", "old.bak", "log.txt.gz"):
        (tmp_path / name).write_bytes(gzip.compress(blob) if name.endswith("gz") else blob)
    for name, head in (("sun", b"snoop\0\0\0" + bytes(16)), ("ms", b"GMBU" + bytes(99)), ("a.pcap.7z", b"7z"), ("b.cap1.zip.xz", b"?")):
        (tmp_path / name).write_bytes(head)
    for name, text in (("README.md", "# pcap"), ("short", ""), ("x.gz", "\x1f"), ("pcap", "d4c3b2a1")):
        (tmp_path / name).write_text(text)
    (tmp_path / "gone.pcap").symlink_to("nowhere")
    (tmp_path / "itself.pcap1").symlink_to("itself.pcap1")
    (tmp_path / "folder").symlink_to("no-folder")  # no name of a capture
    (tmp_path / "null.erf").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe.pcap")
    found = discover([str(tmp_path)])
    plain = ["a.pcap.7z", "b.cap1.zip.xz", "clean.pcap", "dump", "log.txt.gz", "ms", "old.bak", "sun"]
    odd = {"gone.pcap": "link to nowhere, which does not exist", "itself.pcap1": "symbolic links", "null.erf": "is a device",
           "pipe.pcap": "is a pipe"}  # fmt: skip
    assert sorted(os.path.basename(file) for file in found.files) == sorted([*plain, *odd]) and found.left_out == 5
    for file in pickle.loads(pickle.dumps(found.files)):  # as other processes get them
        if reason := odd.get(os.path.basename(file)):
            with pytest.raises(CaptureError, match=reason) as caught:
                open_capture(file)
            assert type(caught.value.path) is str
    with pytest.raises(CaptureError, match="is a pipe"):
        open_capture(discover([str(tmp_path / "pi*")]).files[0])
    (named,) = discover([str(tmp_path / "pipe.pcap")]).files  # the user named it
    writer = threading.Thread(target=Path(named).write_bytes, args=(blob,))
    writer.start()
    assert len(read(Path(named))[0]) == 1
    writer.join()


@pytest.mark.parametrize("pack", ["w", "w:gz", "zip"])
def test_archives_of_captures(pack: str, tmp_path: Path) -> None:
    """An archive is left out if it holds no capture; otherwise it is said, and how its captures are read."""
    for inside, expected in (("day/a.pcap.gz", 1), ("b.pcap2", 1), ("notes.pcap.txt", 0)):
        for one in tmp_path.iterdir():
            one.unlink()
        (tmp_path / "clean.pcap").touch()
        if pack == "zip":
            with zipfile.ZipFile(tmp_path / "all.bin", "w") as archive:
                archive.writestr("README", "x" * 1000)
                archive.writestr(inside, "x")
        else:
            with tarfile.open(tmp_path / "all.bin", pack) as tar:
                for name in ("README", inside):
                    tar.addfile(tarfile.TarInfo(name))
        found = discover([str(tmp_path)])
        assert (len(found.files), found.left_out) == (1 + expected, 1 - expected)
        kind = "zip" if pack == "zip" else "tar"
        with pytest.raises(CaptureError, match=f"is a {kind} archive; name its captures: {kind}://.*all.bin"):
            open_capture(str(tmp_path / "all.bin"))
    (tmp_path / "all.bin").write_bytes((tmp_path / "all.bin").read_bytes()[:-30])
    assert len(discover([str(tmp_path)]).files) == 1


def test_a_folder_that_cannot_be_listed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may list every folder, so the system's answer is made up."""
    listed = os.scandir

    def scandir(path: str) -> object:
        if os.path.basename(path) == "b":
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (closed,) = [file for file in discover([str(tree)]).files if file.startswith(str(tree / "b"))]
    assert closed == str(tree / "b")
    with pytest.raises(CaptureError, match="is a folder that cannot be listed"):
        open_capture(closed)


def test_two_spellings_of_a_path_are_one_capture(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert discover(["./top.dmp", "b", "top.dmp", str(tree / "b" / "1.PCAP"), "a/../b/"]).files == ["./top.dmp", "b/1.PCAP", "b/2.pcapng"]
