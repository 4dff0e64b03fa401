"""Do path arguments expand to the right files, in the same order every time?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.capture.discover import discover
from ibdissect.errors import CaptureError


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
    (tree / "a/gone.pcap").symlink_to(tree / "nowhere")
    assert len(set(names(tree, ""))) == 7


def test_two_spellings_of_a_path_are_one_capture(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert discover(["./top.dmp", "b", "top.dmp", str(tree / "b" / "1.PCAP"), "a/../b/"]).files == ["./top.dmp", "b/1.PCAP", "b/2.pcapng"]
