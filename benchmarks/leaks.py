"""Attempts to get keys and identities out of what may be shared: of captures, and of frames whose headers were changed.

    python benchmarks/leaks.py solve PATH...     solves linear equations over the checksums of each shape of frame with a hidden key
    python benchmarks/leaks.py outputs PATH...   searches everything that commands and the screen print of such frames for key and checksum
    python benchmarks/leaks.py scrub PATH...     scrubs each capture and searches the copy for every identity and key, at every bit
    python benchmarks/leaks.py changed           changes single bits of OpCode, QP, class, method, attribute of frames with any key

`solve` takes together what the dump, the JSON lines and the columns of all fields show of a frame: to compute a key takes a checksum.
`outputs` looks whether any other output prints such a key or checksum, in any form; short ones only beside their name.
PATH: captures, or folders of them.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ibdissect.capture.chunk import LINK_ERF, LINK_INFINIBAND  # noqa: E402
from ibdissect.capture.file_names import SUFFIXES  # noqa: E402
from ibdissect.decode.chunk_table import ChunkTable  # noqa: E402
from ibdissect.decode.hidden.cut_keys import checksum_fields, hidden_checksums  # noqa: E402
from ibdissect.decode.hidden.key_numbers import keys_of, secret_fields  # noqa: E402
from ibdissect.dissect.json_lines import JsonLines  # noqa: E402
from ibdissect.dissect.named_values import reveals_key, runs  # noqa: E402
from ibdissect.dissect.printers import dump  # noqa: E402
from ibdissect.dissect.shown_value import Presenter  # noqa: E402
from ibdissect.errors import CaptureError  # noqa: E402
from ibdissect.python_interface import Capture  # noqa: E402
from ibdissect.scrub.rewrite import write_scrubbed  # noqa: E402
from ibdissect.scrub.verify import verify  # noqa: E402
from ibdissect.tables import capture_table  # noqa: E402
from ibdissect.tables.findings import FindingsTable  # noqa: E402
from ibdissect.wire.catalog import builtin  # noqa: E402
from ibdissect.wire.headers import BTH  # noqa: E402
from ibdissect.wire.mad import MAD  # noqa: E402
from ibdissect.wire.numbers import CM_CLASS  # noqa: E402
from tests import commands  # noqa: E402
from tests.decode.hidden.test_cut_keys import known_bits, printed, trees  # noqa: E402
from tests.fuzz.container import pcapng  # noqa: E402
from tests.test_secrets import COLUMNS, FRAMES, OUTPUTS, PLANTED, UPPER, Planted, shown  # noqa: E402
from tests.tui import drawn, made  # noqa: E402

Bytes = dict[int, int | None]


def captures(paths: list[str]) -> list[Path]:
    """The captures among files and folders."""
    found = [one for path in map(Path, paths) for one in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [one for one in found if one.is_file() and one.name.endswith(tuple(SUFFIXES))]


# -- equations


def in_line(line: str) -> Bytes:
    """The bytes that the fields of a JSON line give whole."""
    found: Bytes = {}

    def take(node: dict[str, Any]) -> None:
        value, size = node.get("value"), node["length"]
        if isinstance(value, int) and not isinstance(value, bool) and node["bit"] == 0 and node["bits"] == 8 * size:
            found.update(enumerate(value.to_bytes(size, "big"), node["offset"]))
        for inner in node.get("fields", ()):
            take(inner)

    for layer in json.loads(line)["layers"]:
        if layer["layer"] != "ERF":
            take(layer)
    return found


def in_columns(table: ChunkTable) -> Bytes:
    """The bytes of a chunk that the columns of all its fields give."""
    found: Bytes = {}
    fields = (field for struct in table.catalog.structs if len(table.occurrences(struct)) for field in struct.fields)
    for run in runs(table, tuple(field for field in fields if field.kind not in ("nested", "hole", "rest") and field.bits % 8 == 0)):
        if run.field.bit % 8 or run.field.little:
            continue
        size, hidden = run.field.bits // 8, reveals_key(table, run)
        for at, value, secret in zip(run.at.tolist(), np.asarray(run.values).tolist(), hidden.tolist(), strict=True):
            if not secret:
                found.update(enumerate(value if isinstance(value, list) else int(value).to_bytes(size, "big"), at))
    return found


def solve(path: Path) -> tuple[int, int]:
    """Frames with something hidden, two of each shape, and those of which checksums tell a bit of it."""
    tried = told = 0
    with Capture(path) as opened:
        for table in opened.tables():
            chosen = [(row, tree) for row, tree in trees(table, 2) if tree.secret_bytes]
            if not chosen:
                continue
            columns = in_columns(table)
            lines = JsonLines(Presenter()).lines(table, np.array(sorted(row for row, _ in chosen)))
            for (row, tree), line in zip(sorted(chosen, key=lambda pair: pair[0]), lines, strict=True):
                start = int(table.chunk.offset[row])
                seen = printed(dump(tree))
                there = {at - start: value for at in range(start, start + tree.caplen) if (value := columns.get(at)) is not None}
                seen.update(in_line(line) | there)
                tried += 1
                told += known_bits(table, row, seen)[1] > 0
    return tried, told


# -- everything that is printed


SUMS = sorted({field.filter_name for field in checksum_fields(builtin())})
NAMES = [*COLUMNS, *(word for name in (*SUMS, "frame") for word in ("-e", name))]
LONG = 1 << 24
"""A smaller number is found by chance; it is looked for in lines about checksums only."""
MOST = 60
"""Frames of one capture that the screen draws."""


def sample(path: Path) -> tuple[list[tuple[int, bytes, int]], list[Planted]]:
    """Two frames of each shape with something hidden and all that say which connections there are, and what is hidden in them."""
    rows, secrets = list[tuple[int, bytes, int]](), list[Planted]()
    with Capture(path) as opened:
        for table in opened.tables():
            wanted = [row for row, tree in trees(table, 2) if tree.secret_bytes]
            if not wanted:
                continue
            managed = [each for (mgmt_class, _), each in table.attributes().items() if mgmt_class == CM_CLASS]
            chosen = sorted({*wanted, *(row for each in managed for row in each.tolist())})
            numbers = {row: len(rows) + i for i, row in enumerate(chosen)}
            secrets += [one for one in hidden_in(table, numbers) if int.from_bytes(one.value, "big")]
            chunk = table.chunk
            for row in chosen:
                start, link = int(chunk.offset[row]), int(chunk.link[row])
                data = chunk.data[start : start + int(chunk.caplen[row])].tobytes()
                rows.append((LINK_INFINIBAND if link == LINK_ERF else link, data, max(int(chunk.length[row]), len(data))))
    return rows, secrets


def hidden_in(table: ChunkTable, numbers: dict[int, int]) -> Iterator[Planted]:
    """The keys and checksums that are hidden in some rows, which have these numbers."""
    shown_table = table.shown
    found = [(field, *keys_of(shown_table, field)) for field in secret_fields(table.catalog)]
    for field in checksum_fields(table.catalog):
        column = shown_table.column(field)
        hides = hidden_checksums(table, column.rows, np.asarray(column.values))
        found.append((field, column.rows, column.at, column.values, hides))
    for field, rows, at, _, hides in found:
        for row, place in zip(rows[hides].tolist(), at[hides].tolist(), strict=True):
            value = table.chunk.data[place : place + field.bits // 8].tobytes()
            if row in numbers:
                yield Planted(field.filter_name, value, numbers[row], 0)


def everything(path: Path, frames: int, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Each output of a capture, and what it prints."""
    for name, words in OUTPUTS.items():
        extra = NAMES if name == "fields" else []
        yield name, _said(*(word.format(path) for word in words if word not in COLUMNS), *extra)
    for ending in ("csv", "jsonl", "parquet", "arrow"):
        target = folder / f"x.{ending}"
        for more in ((), ("--findings",)):
            said = _said("export", str(path), "--output", str(target), *(more or NAMES))
            yield f"export {ending} {' '.join(more)}", said + _read(target)
    for name in ("packets", "mads", "findings", "ports"):
        yield f"sql {name}", _said("sql", str(path), f"select * from {name}", "--format", "jsonl", *NAMES)
    target = folder / "x.pcapng"
    said = _said("annotate", str(path), "--output", str(target))
    with Capture(target) as opened:
        list(opened.tables())
        yield "annotate", said + "\n".join(text for texts in opened.reader.comments.values() for text in texts).encode()
    with Capture(path) as opened:
        dissected = [opened.dissect(frame + 1) for frame in range(frames)]
        shown_there: tuple[Any, ...] = (opened.table().select(*NAMES[1::2]), opened, FindingsTable(opened.lint()), *dissected)
        yield "notebook", "\n".join(f"{one!r}\n{one._repr_html_()}" for one in shown_there).encode()
    nodes = ((tree, node) for tree in dissected for node in tree.walk(joined=True))
    yield "copies", "\n".join(node.raw.hex() for tree, node in nodes if not tree.hides(node)).encode()
    yield "screen", asyncio.run(drawn_of(path, frames)).encode()


def _said(*words: str) -> bytes:
    done = commands.run(*words)
    if done.returncode not in (0, 1):
        sys.exit(f"{words[:2]}: {done.stderr.decode()}")
    return bytes(done.stdout + done.stderr)


def _read(target: Path) -> bytes:
    """The values of a file of columns, which may be compressed."""
    if target.suffix not in (".parquet", ".arrow"):
        return target.read_bytes()
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    table = (pyarrow.parquet.read_table if target.suffix == ".parquet" else pyarrow.feather.read_table)(target)
    times = [field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in table.schema]
    return repr(table.cast(pa.schema(times)).to_pylist()).encode()  # without pandas, nanoseconds are no Python value


async def drawn_of(path: Path, frames: int) -> str:
    """What the screen draws of the first frames."""
    app, said = made.app_on(path), ""
    async with app.run_test(size=(150, 60)) as pilot:
        await made.until(pilot, lambda: app.study.finished and app.main.tree_pane.lines)
        for frame in range(1, min(frames, MOST) + 1):
            app.jump(frame)
            await made.shows(pilot, frame)
            app.main.tree_pane.action_open_all()
            await pilot.pause()
            said += drawn.text(app)
    return said + "\n" + re.sub(r"[\s:]", "", said)


def words(one: Planted) -> list[Planted]:
    """A key, or only those words of it that are not found by chance."""
    parts = [one.value[i : i + 4] for i in range(0, len(one.value), 4)]
    long = [part for part in parts if int.from_bytes(part, "big") >= LONG and part.count(0) < 2]
    return [one] if long == parts else [replace(one, value=part) for part in long]


def outputs(path: Path) -> list[str]:
    """Where a key or checksum was found that is hidden."""
    rows, secrets = sample(path)
    if not secrets:
        return []
    long = [each for one in secrets if len(one.value) >= 4 for each in words(one)]
    short = [one for one in secrets if len(one.value) < 4 and one.field in SUMS]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "sample.pcapng"
        copy.write_bytes(pcapng(rows))
        if len(shown(_said("show", str(copy), "--format", "jsonl", "--show-keys"), long)) < len({(one.field, one.frame) for one in long}):
            sys.exit(f"{path}: with --show-keys not every key is found, so the search proves nothing")
        for name, said in everything(copy, len(rows), Path(folder)):
            about = b"\n".join(line for line in said.splitlines() if b"crc" in line.lower() and not line.startswith((b"{", b"[")))
            text = "\n".join(f"0x{int.from_bytes(one.value, 'big'):04x}" for one in short)
            told = [word for word in text.split() if word.encode() in about.lower()]
            found += [f"{path.name}: {name}: {what}" for what in (*shown(said, long), *told)]
    print(f"{path.name}: {len(rows)} frames, {len(secrets)} keys and checksums hidden, {len(found)} found", flush=True)
    return found


# -- scrubbed captures


def scrub(path: Path) -> str:
    """What is left of the capture in its scrubbed copy; empty for nothing."""
    with Capture(path) as opened, io.BytesIO() as copy:
        try:
            _, scrubber = write_scrubbed(opened, copy, "pcapng")
            verify(opened, scrubber, copy, "the copy")
        except CaptureError as error:
            return str(error)
    return ""


# -- changed headers


FIELDS = {"OpCode": ("bth", BTH.opcode), "QP": ("bth", BTH.destqp), "class": ("mad", MAD.mgmt_class), "method": ("mad", MAD.method),
          "attribute": ("mad", MAD.attribute_id)}  # fmt: skip


def changes(table: ChunkTable, frame: bytes) -> Iterator[tuple[str, bytes]]:
    """The frame with one other bit in its OpCode, destination QP, class, method or attribute."""
    for what, (header, field) in FIELDS.items():
        start = int(table.located.at(header)[0] - table.chunk.offset[0])
        for bit in range(field.bit, field.bit + field.bits) if table.located.at(header)[0] >= 0 else ():
            data = bytearray(frame)
            data[start + bit // 8] ^= 0x80 >> bit % 8
            yield what, bytes(data)


def changed() -> None:
    """Count the changed frames, and those that show their key."""
    all_, show = Counter[str](), Counter[str]()
    for number, frame in enumerate(FRAMES):
        keys = [key for key in PLANTED if key.frame == number and not key.field.startswith(UPPER)]
        if not keys:
            continue
        with Capture(io.BytesIO(pcapng([(LINK_INFINIBAND, frame, len(frame))]))) as opened:
            made = list(changes(next(iter(opened.tables())), frame))
        with Capture(io.BytesIO(pcapng([(LINK_INFINIBAND, data, len(data)) for _, data in made]))) as opened:
            for table in opened.tables():
                lines = JsonLines(Presenter()).lines(table, np.arange(len(table)))
                for row, line in enumerate(lines):
                    what = made[table.chunk.first - 1 + row][0]
                    all_[what] += 1
                    show[what] += bool(shown(line.encode(), keys))
    for what in all_:
        print(f"{what:10} {show[what]:6} of {all_[what]:6} show a key")
    print(f"{'all':10} {show.total():6} of {all_.total():6} show a key")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("solve", "outputs", "scrub", "changed"))
    parser.add_argument("paths", nargs="*")
    given = parser.parse_args()
    if given.what == "changed":
        changed()
        return 0
    paths = captures(given.paths)
    if given.what == "outputs":
        capture_table.SHOWN = sys.maxsize - 1
        found = [text for path in paths for text in outputs(path)]
        print(*found, f"{len(paths)} captures, found {len(found)}", sep="\n")
        return int(bool(found))
    if given.what == "scrub":
        left = [text for path in paths if (text := scrub(path))]
        print(*left, f"{len(paths)} captures scrubbed, something is left in {len(left)}", sep="\n")
        return int(bool(left))
    tried, told = (sum(numbers) for numbers in zip(*map(solve, paths), strict=True))
    print(f"{len(paths)} captures, {tried} frames with something hidden, checksums tell something of {told}")
    return int(told > 0)


if __name__ == "__main__":
    sys.exit(main())
