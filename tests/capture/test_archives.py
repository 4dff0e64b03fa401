"""Captures in archives are read as the files are, and hostile archives cost little."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

import ibdissect
from ibdissect.capture import archives
from ibdissect.capture.compressed import Unpacking
from ibdissect.capture.opening import open_capture
from ibdissect.capture.path_arguments import discover
from ibdissect.errors import CaptureError
from tests.cases import few
from tests.commands import run
from tests.conftest import REPO

LAB = REPO / "captures/pkey-lab.pcap"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the same captures as zip, tar and compressed tar; the working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(REPO / "captures/mkey-enforced.pcap.gz", "b.pcap.gz")
    with zipfile.ZipFile("x.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(LAB, "day/a.pcap")
        packed.write("b.pcap.gz")
        packed.writestr("notes.txt", "none")
    for name, mode in (("x.tar", "w"), ("x.tgz", "w:gz"), ("x.tar.xz", "w:xz")):
        with tarfile.open(name, mode) as tar:
            tar.add(LAB, "day/a.pcap")
            tar.add("b.pcap.gz")
            tar.addfile(tarfile.TarInfo("notes.txt"))
    return tmp_path


def frames(path: str) -> int:
    with open_capture(path) as reader:
        for _ in range(2):
            count = sum(len(chunk) for chunk in reader.chunks())
        assert not reader.damage
        return count


@few("archive", ["zip://{}::x.zip", "tar://{}::x.tar", "tar://{}::x.tgz", "tar://{}::x.tar.xz"], fast=(0, 2))
def test_members_are_read_as_files_are(folder: Path, archive: str) -> None:
    for name, file in (("day/a.pcap", str(LAB)), ("b.pcap.gz", "b.pcap.gz")):
        assert frames(archive.format(name)) == frames(file)
    found = discover([archive.format("")])
    assert found.files == sorted(archive.format(name) for name in ("day/a.pcap", "b.pcap.gz")) and found.left_out == 1
    assert discover([archive.format("*/a.*")]).files == [archive.format("day/a.pcap")]
    assert discover([archive.format("day/")]).files == [archive.format("day/a.pcap")]


def test_a_ring_buffer_in_an_archive_is_one_capture(folder: Path) -> None:
    """In the order of its numbers, 2 before 10; a missing file is noticed."""
    with zipfile.ZipFile("ring.zip", "w") as packed:
        for number in (0, 1, 10, 2):
            packed.write(LAB, f"r/x.pcap{number}")
    found = discover(["zip://::ring.zip"]).files
    with ibdissect.open(found, set=True) as capture:
        assert sum(1 for _ in capture) == 4 * frames(str(LAB)) and capture.path == "zip://r/x.pcap*::ring.zip"
        assert [member.path for member in capture.reader.members] == [f"zip://r/x.pcap{number}::ring.zip" for number in (0, 1, 2, 10)]
        assert [damage.reason for damage in capture.reader.damage] == ["files 3 to 9 are missing between x.pcap2 and x.pcap10"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("zip://a.pcap", "names no archive"),
        ("zip://a.pcap::none.zip", "no such file"),
        ("zip://none.pcap::x.zip", "no such file in the archive"),
        ("tar://none.pcap::x.tgz", "no such file in the archive"),
        ("zip://a.pcap::zip://b.zip::x.zip", "archive in an archive"),
        ("zip://a.pcap::x.tar", "damaged zip archive"),
        ("tar://a.pcap::x.zip", "damaged tar archive"),
        ("zip://notes.txt::x.zip", "not a capture"),
    ],
)
def test_errors_say_what_is_wrong(folder: Path, path: str, said: str) -> None:
    with pytest.raises(CaptureError, match=said):
        open_capture(path)


def test_no_member_decides_what_is_opened(folder: Path) -> None:
    """A member's name that would be a URL is read as a name, or is an error, so that no archive causes a request."""
    with zipfile.ZipFile("evil.zip", "w") as packed:
        for name in ("a.pcap::http://127.0.0.1/x.zip", "http://127.0.0.1/b.pcap", "c.pcap"):
            packed.writestr(name, LAB.read_bytes())
    names = ["zip://a.pcap::http://127.0.0.1/x.zip::evil.zip", "zip://c.pcap::evil.zip", "zip://http://127.0.0.1/b.pcap::evil.zip"]
    assert discover(["zip://::evil.zip"]).files == names and sorted(discover(["zip://*::evil.zip"]).files) == names
    assert frames(names[2]) == frames(names[1])
    with pytest.raises(CaptureError, match=r"evil\.zip: has :: in its name"):
        open_capture(discover(["zip://::evil.zip"]).files[0])


def test_a_member_cut_short_is_damage(folder: Path) -> None:
    whole = Path("x.tar").read_bytes()
    Path("cut.tar").write_bytes(whole[:2000])
    with open_capture("tar://day/a.pcap::cut.tar") as reader:
        count = sum(len(chunk) for chunk in reader.chunks())
        assert 0 < count < frames(str(LAB)) and "the archive breaks here" in reader.damage[0].reason
    data = bytearray(Path("x.zip").read_bytes())
    data[300] ^= 0xFF
    Path("bad.zip").write_bytes(data)
    with open_capture("zip://day/a.pcap::bad.zip") as reader:
        assert sum(len(chunk) for chunk in reader.chunks()) <= frames(str(LAB)) and reader.damage


@pytest.mark.slow
def test_a_header_that_claims_gigabytes_costs_nothing(folder: Path) -> None:
    """A pax header of 1 GB of zeros packs to a megabyte; nothing may unpack it into memory."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 30
    with tarfile.open("bomb.tgz", "w:gz", compresslevel=1) as tar:
        assert tar.fileobj is not None
        tar.fileobj.write(info.tobuf())
        for _ in range(16):
            tar.fileobj.write(bytes(1 << 20))
    tracemalloc.start()
    with pytest.raises(CaptureError, match="headers are larger than 65536 bytes"):
        open_capture("tar://a.pcap::bomb.tgz")
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 2)
    for path in ("zip://::x.zip", "tar://::x.tar"):
        with pytest.raises(CaptureError, match="more than 2 members"):
            discover([path])
    monkeypatch.setattr(archives, "MOST_LIST", 30)
    with pytest.raises(CaptureError, match="damaged zip archive"):
        open_capture("zip://day/a.pcap::x.zip")


@pytest.mark.slow
def test_a_member_unpacks_to_the_limit_at_most(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Unpacking, "most", 1 << 20)
    with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.pcap", LAB.read_bytes() + bytes(4 << 20))
    with open_capture("zip://a.pcap::bomb.zip") as reader:
        assert sum(chunk.data.size for chunk in reader.chunks()) <= 1 << 20
        assert reader.damage[-1].reason == "it unpacks to more than 1,048,576 bytes (--max-unpacked)"


def test_an_encrypted_member(folder: Path) -> None:
    data = io.BytesIO(Path("x.zip").read_bytes())
    raw = bytearray(data.getvalue())
    raw[raw.index(b"PK\1\2") + 8] |= 1
    Path("secret.zip").write_bytes(raw)
    with pytest.raises(CaptureError, match="is encrypted"):
        open_capture("zip://day/a.pcap::secret.zip")


@few("cut", [True, False], fast=(1,))
def test_a_damaged_tar_loses_only_what_lies_behind_the_damage(folder: Path, cut: bool) -> None:
    whole = Path("x.tar").read_bytes()
    if cut:
        Path("x.tar").write_bytes(whole[: whole.index(b"b.pcap.gz") + 700])
    else:  # a member that claims more than a file can hold
        claim = tarfile.TarInfo("c.pcap")
        claim.size = 1 << 60
        Path("x.tar").write_bytes(whole[: whole.index(b"notes.txt")] + claim.tobuf() + bytes(512))
    found = discover(["tar://*::x.tar"]).files
    assert {"tar://day/a.pcap::x.tar", "tar://b.pcap.gz::x.tar", "tar://*::x.tar"} <= set(found)
    assert frames("tar://day/a.pcap::x.tar") == frames(str(LAB))
    with pytest.raises(CaptureError, match="is a damaged tar archive"):
        open_capture("tar://*::x.tar")


@pytest.mark.slow
def test_the_list_of_an_archive_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise n members cost n times n; an archive that changed is read anew."""
    lists, real = [], archives._list
    monkeypatch.setattr(archives, "_list", lambda *given: lists.append(given) or real(*given))
    for kind in ("zip", "tar"):
        for path in discover([f"{kind}://*.pcap*::x.{kind}"]).files:
            frames(path)
    assert len(lists) == 2
    with zipfile.ZipFile("x.zip", "a") as packed:
        packed.write(LAB, "c.pcap")
    assert frames("zip://c.pcap::x.zip") == frames(str(LAB)) and len(lists) == 3


def made(file: str, *members: tuple[str, bytes, str]) -> None:
    """A tar of members: a name, a type and the target of a link; files hold the lab's capture."""
    with tarfile.open(file, "w") as tar:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            data = LAB.read_bytes() if kind in (b"0", b"Z") else b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data) if kind == b"0" else None)
            if kind == b"Z":
                assert tar.fileobj is not None
                tar.fileobj.write(data + bytes(-len(data) % 512))


def outcomes(url: str) -> dict[str, str]:
    """By member what became of it: `read`, or the error."""
    found = {}
    for file in discover([url]).files:
        name = file.partition("://")[2].rpartition("::")[0]
        try:
            found[name] = "read" if frames(file) == frames(str(LAB)) else "?"
        except CaptureError as error:
            found[name] = error.reason
    return found


def test_every_member_that_looks_like_a_capture_is_read_or_an_error(folder: Path) -> None:
    made(
        "links.tar", ("x/data.bin", b"0", ""), ("x/sym.pcap", b"2", "data.bin"), ("up.pcap", b"2", "x/../x/data.bin"),
        ("chain.pcap", b"2", "up.pcap"),
        ("hard.pcap", b"1", "x/data.bin"), ("none.pcap", b"2", "../none"), ("self.pcap", b"2", "self.pcap"), ("folder.pcap", b"2", "x"),
        ("fifo.pcap", b"6", ""), ("device.pcap", b"3", ""), ("new.pcap", b"Z", ""), ("fifo", b"6", ""), ("README", b"2", "none"),
        ("a::b.pcap", b"0", ""),
        ("twice.pcap", b"0", ""), ("twice.pcap", b"0", ""), ("./twice.pcap", b"0", ""),
        ("x.pcap.7z", b"0", ""), ("LOUD.PCAP", b"0", ""), ("d.pcap/", b"5", ""),
    )  # fmt: skip
    assert outcomes("tar://::links.tar") == {
        **dict.fromkeys(("x/data.bin", "x/sym.pcap", "up.pcap", "chain.pcap", "hard.pcap"), "read"),
        **dict.fromkeys(("new.pcap", "./twice.pcap", "x.pcap.7z", "LOUD.PCAP"), "read"),
        "none.pcap": "is a link to ../none, which is not in the archive", "self.pcap": "is a link to itself", "fifo.pcap": "is a pipe",
        "device.pcap": "is a device", "a::b.pcap": "has :: in its name, which no command can name",
        "twice.pcap": "is in the archive more than once",
    }  # fmt: skip
    with zipfile.ZipFile("odd.zip", "w") as packed, pytest.warns(UserWarning, match="Duplicate name"):
        for name in ("good.pcap", "twice.pcap", "twice.pcap", "y.pcap/", "a::b.pcap", "a::b.txt"):
            packed.writestr(zipfile.ZipInfo(name), LAB.read_bytes())
        link = zipfile.ZipInfo("link.pcap")
        link.external_attr = 0o120777 << 16
        packed.writestr(link, "good.pcap")
    assert outcomes("zip://::odd.zip") == {
        "good.pcap": "read", "twice.pcap": "is in the archive more than once", "y.pcap/": "is a folder with data",
        **dict.fromkeys(("a::b.pcap", "a::b.txt"), "has :: in its name, which no command can name"), "link.pcap": "is a link or no file",
    }  # fmt: skip


@few("kind", ["tar", "tar.gz"], fast=(0,))
def test_a_tar_behind_another_one_is_read(kind: str, folder: Path) -> None:
    """Also if both were compressed, one after the other; a damaged header between them is an error."""
    for name in ("one", "two"):
        made(f"{name}.tar", (f"{name}.pcap", b"0", ""))
    first, second = Path("one.tar").read_bytes(), Path("two.tar").read_bytes()
    pack = gzip.compress if kind == "tar.gz" else bytes
    Path(f"both.{kind}").write_bytes(pack(first) + pack(second))
    names = ["one.pcap", "two.pcap"]
    assert list(discover([f"tar://*::both.{kind}"]).files) == [f"tar://{name}::both.{kind}" for name in names]
    assert frames(f"tar://two.pcap::both.{kind}") == frames(str(LAB))
    at = second.index(b"two.pcap")
    Path(f"both.{kind}").write_bytes(pack(first) + pack(second[:at] + b"x" + second[at + 1 :]))
    with pytest.raises(CaptureError, match="is a damaged tar archive"):
        open_capture(f"tar://two.pcap::both.{kind}")


@pytest.mark.parametrize("kind", ["tar.gz", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("zip", "tar"))])
def test_members_that_begin_like_a_capture_are_captures(kind: str, folder: Path) -> None:
    """Also packed ones, and those below a folder; of others only the number is said, and one that is encrypted or damaged tells nothing."""
    blob = LAB.read_bytes()
    contents = {
        "dump": blob, "day/old.bak": gzip.compress(blob), "sun": b"snoop\0\0\0" + bytes(600), "README": b"pcap" * 400, "none": b"",
        "block": b"?" * 512, "short": b"\x1f\x8b", "end": blob[:24],
    }  # fmt: skip
    with zipfile.ZipFile(f"m.{kind}", "w", zipfile.ZIP_DEFLATED) if kind == "zip" else tarfile.open(f"m.{kind}", f"w:{kind[4:]}") as packed:
        for name, data in contents.items():
            if isinstance(packed, zipfile.ZipFile):
                packed.writestr(name, data)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                packed.addfile(info, io.BytesIO(data))
    wanted = {"dump", "day/old.bak", "sun", "end"}
    found = discover([f"{kind[:3]}://::m.{kind}"])
    assert {file.partition("://")[2].partition("::")[0] for file in found.files} == wanted and found.left_out == len(contents) - len(wanted)
    assert discover([f"{kind[:3]}://day/::m.{kind}"]).files == [f"{kind[:3]}://day/old.bak::m.{kind}"]
    assert frames(f"{kind[:3]}://day/old.bak::m.{kind}") == frames(str(LAB))
    assert [os.path.basename(file) for file in discover(["."]).files if f"m.{kind}" in file] == [f"m.{kind}"]
    Path("lone").mkdir()
    Path(f"m.{kind}").rename(f"lone/m.{kind}")
    done = run("lint", "lone", "--exit-zero", text=True, cwd=folder)
    assert done.returncode == 2 and f"m.{kind}: is a {kind[:3]} archive; name its captures" in done.stderr


def test_members_that_lie_upon_each_other_are_damage(folder: Path) -> None:
    """As in a bomb whose members share their data; what a library would unpack a hundred thousand times."""
    with zipfile.ZipFile("bomb.zip", "w") as packed:
        for name in ("a.pcap", "b.pcap", "c.pcap"):
            packed.writestr(name, LAB.read_bytes())
        packed.filelist[1].header_offset = 0
    assert outcomes("zip://::bomb.zip") == {
        "a.pcap": "read", "b.pcap": "shares its bytes with another member", "c.pcap": "read",
    }  # fmt: skip


@pytest.mark.slow
def test_commands_say_what_of_an_archive_was_not_read(folder: Path) -> None:
    made("x.tar", ("good.pcap", b"0", ""), ("a::b.pcap", b"0", ""), ("fifo.pcap", b"6", ""))
    by_capture = ["export", "-o", "ds", "--partition-by", "capture"]
    for words in (["lint", "--exit-zero", "--jobs", "2"], ["lint", "--exit-zero", "--set"], by_capture):
        done = run(*words, "tar://::x.tar", text=True, cwd=folder)
        assert done.returncode == 2 and ("a::b.pcap" in done.stderr or "fifo.pcap" in done.stderr), (words, done.stderr)
