"""Files are told apart by their bytes, and captures by what they hold once unpacked."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
from pathlib import Path

from ibdissect.capture.digest import Digest, content_of, digest_of
from ibdissect.capture.sets import CaptureSet

DATA = bytes(range(256)) * 9000


def test_a_file_as_it_lies_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    assert digest_of(str(tmp_path / "a")) == Digest(len(DATA), hashlib.sha256(DATA).hexdigest())
    os.mkfifo(tmp_path / "pipe")
    for none in ("-", "https://h/a.pcap", str(tmp_path / "pipe"), str(tmp_path), str(tmp_path / "no")):
        assert digest_of(none) is None and content_of(none) is None


def test_what_a_capture_holds_is_the_same_however_it_is_packed(tmp_path: Path) -> None:
    data = DATA[:100_000]
    for name, packed in (("a", data), ("a.gz", gzip.compress(data)), ("a.xz", lzma.compress(data)), ("a.bz2", bz2.compress(data))):
        (tmp_path / name).write_bytes(packed)
        assert content_of(str(tmp_path / name)) == hashlib.sha256(data).hexdigest()
    (tmp_path / "cut.gz").write_bytes(gzip.compress(data)[:-9])
    assert content_of(str(tmp_path / "cut.gz")) is None
    (tmp_path / "empty").write_bytes(b"")
    assert content_of(str(tmp_path / "empty")) == hashlib.sha256().hexdigest()


def test_a_set_holds_what_its_members_hold(tmp_path: Path) -> None:
    members = []
    for name, data in (("a", DATA[:1000]), ("b.gz", gzip.compress(DATA[1000:]))):
        (tmp_path / name).write_bytes(data)
        members.append(str(tmp_path / name))
    assert content_of(CaptureSet("x", tuple(members))) == hashlib.sha256(DATA).hexdigest()
    assert content_of(CaptureSet("x", tuple(reversed(members)))) != hashlib.sha256(DATA).hexdigest()
    assert content_of(CaptureSet("x", (members[0], "-"))) is None
