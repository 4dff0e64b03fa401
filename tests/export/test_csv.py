"""CSV is written without pyarrow, harmless to spreadsheets, and with the cells that `str` makes one by one."""

from __future__ import annotations

import csv
import io
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibdissect.cli import run
from ibdissect.export import csv as ours
from tests.cases import few
from tests.craft import erf_pcap, interfaces_pcapng, smp
from tests.subnet.made import answer


def exported(tmp_path: Path, frames: list[bytes], *names: str, times: Sequence[int] = ()) -> bytes:
    """The rows of frames, as a file has them."""
    path = tmp_path / "x.pcap"
    path.write_bytes(interfaces_pcapng([(0, frame) for frame in frames], times=times) if times else erf_pcap(frames))
    assert run(["export", str(path), "--output", str(tmp_path / "x.csv"), "-q", *(word for name in names for word in ("-e", name))]) == 0
    return (tmp_path / "x.csv").read_bytes().partition(b"\n")[2]


def described(*texts: str) -> list[bytes]:
    return [answer(2, 0x10, text.encode().ljust(64, b"\0")) for text in texts]


def test_cells_are_no_formulas(tmp_path: Path) -> None:
    """Nor with wide signs."""
    starts, texts = "=+-@|%\uff1d\uff0b\uff0d\uff20", ("=1+1", " @x", "-2", "plain", "a\x1b[m", 'a "b"', "a,b", '"\n')
    lines = exported(tmp_path, described(*(f"{start}1" for start in starts), *texts), "nodedescription.nodestring").decode().splitlines()
    assert [line[:2] for line in lines[: len(starts)]] == ["\"'"] * 10
    assert lines[len(starts) :] == [
        '"\'=1+1"', '"\' @x"', '"\'-2"', '"plain"', '"a\\x1b[m"', '"a ""b"""', '"a,b"', '"""\\x0a"',
    ]  # fmt: skip
    assert [cell for (cell,) in csv.reader(lines)][-3:] == ['a "b"', "a,b", '"\\x0a']


def test_columns_need_no_pyarrow(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = str(repo / "captures/pkey-lab.pcap")
    for name in ("pyarrow", "ibdissect.export.writers", "ibdissect.tables.arrow"):
        monkeypatch.setitem(sys.modules, name, None)
    names = ("frame.number", "frame.time", "frame.time_relative", "bth.p_key", "bth.a", "ibdissect.code", "_ws.col.info", "ip.src")
    assert run(["export", lab, "--output", str(tmp_path / "x.csv"), "-q", *(word for name in names for word in ("-e", name))]) == 0
    line = (tmp_path / "x.csv").read_text().splitlines()[32]
    assert line == '32,2023-11-14 22:13:20.003100000Z,0.003100000,291,false,"PKY001,PKY021","ACK QP 0x000202 PSN 20 MSN 1",'


EDGES = [0, 9, 10, 999, 1000, 9999, 10_000, 10_001, 99_999_999, 100_000_000, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]
NANOSECONDS = [0, 1, 9_999, 10_000, 99_999_999, 100_000_000, 999_999_999, 1_000_000_000, 1_700_000_000_123_456_789]


@few("step", [1, 7], fast=(1,))
def test_numbers_and_seconds(tmp_path: Path, step: int) -> None:
    """Each is what `str` makes of it, beside each number of digits."""
    psns = sorted({max(0, min((1 << 24) - 1, 10**digits + by)) for digits in range(9) for by in (-1, 0, 1)})
    transactions = [*EDGES, (1 << 64) - 1]
    frames = [smp(1, 0x11, header={"transaction_id": number}, bth={"psn": psns[at % len(psns)]}) for at, number in enumerate(transactions)]
    times = [time * step % (1 << 62) for time in (*NANOSECONDS, *range(len(frames) - len(NANOSECONDS)))]
    names = "mad.transactionid", "bth.psn", "frame.time_relative", "bth.a", "bth.opcode", "lrh.dlid"
    rows = list(csv.reader(io.StringIO(exported(tmp_path, frames, *names, times=times).decode())))
    assert [row[0] for row in rows] == list(map(str, transactions))
    assert [row[1] for row in rows] == [str(psns[at % len(psns)]) for at in range(len(frames))]
    assert [row[2] for row in rows] == [seconds(time - times[0]) for time in times] and {tuple(row[3:]) for row in rows} == {
        ("false", "100", "2")
    }


def seconds(nanoseconds: int) -> str:
    return f"{'-' * (nanoseconds < 0)}{abs(nanoseconds) // 10**9}.{abs(nanoseconds) % 10**9:09d}"


@pytest.mark.slow
def test_texts(tmp_path: Path) -> None:
    """Of letters of all planes that a NodeDescription has room for, with and without what needs quotes."""
    luck = random.Random(5)
    letters = [chr(code) for code in range(0x21, 0x2FFFF) if chr(code).isalnum()] + list(' ,"!()*')
    texts = ["".join(luck.choice(letters[: 10 ** luck.randrange(2, 6)]) for _ in range(luck.randrange(15))) for _ in range(150)]
    texts += ["".join(luck.choice(letters[-9:]) for _ in range(9)) for _ in range(20)]
    rows = csv.reader(io.StringIO(exported(tmp_path, described(*texts), "frame.number", "nodedescription.nodestring").decode()))
    assert [cell for _, cell in rows] == texts


@pytest.mark.slow
def test_wide_rows_are_joined_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows wider than a piece, and columns of texts and of numbers side by side: the same rows, in order."""
    frames = described(*("x" * (number % 7) for number in range(100)))
    names = "frame.number", "nodedescription.nodestring", "_ws.col.info", "bth.psn"
    whole = exported(tmp_path, frames, *names)
    monkeypatch.setattr(ours, "AT_ONCE", 64)
    assert exported(tmp_path, frames, *names) == whole
    rows = list(csv.reader(io.StringIO(whole.decode())))
    assert [row[:2] for row in rows] == [[str(number + 1), "x" * (number % 7)] for number in range(100)]
