"""Can keys and identities be got out of what may be shared? Tries it on captures, and on frames whose headers were changed.

    python benchmarks/leaks.py solve PATH...     solves linear equations over the checksums of each shape of frame with a hidden key
    python benchmarks/leaks.py scrub PATH...     scrubs each capture and searches the copy for every identity and key, at every bit
    python benchmarks/leaks.py changed           changes single bits of OpCode, QP, class, method, attribute of frames with any key

`solve` takes together what the dump, the JSON lines and the columns of all fields show of a frame. PATH: captures, or folders of them.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ibdissect.capture.chunk import LINK_INFINIBAND  # noqa: E402
from ibdissect.capture.discover import SUFFIXES  # noqa: E402
from ibdissect.dissect.bulk import JsonLines  # noqa: E402
from ibdissect.dissect.named_values import reveals_key, runs  # noqa: E402
from ibdissect.dissect.printers import dump  # noqa: E402
from ibdissect.dissect.value import Presenter  # noqa: E402
from ibdissect.errors import CaptureError  # noqa: E402
from ibdissect.scrub.copy import write_scrubbed  # noqa: E402
from ibdissect.scrub.verify import verify  # noqa: E402
from ibdissect.session.capture import Capture  # noqa: E402
from ibdissect.table.table import ChunkTable  # noqa: E402
from ibdissect.wire.mad import MAD  # noqa: E402
from ibdissect.wire.transport import BTH  # noqa: E402
from tests.fuzz.container import pcapng  # noqa: E402
from tests.table.test_cut_keys import known_bits, printed, trees  # noqa: E402
from tests.test_secrets import FRAMES, PLANTED, UPPER, shown  # noqa: E402

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
    parser.add_argument("what", choices=("solve", "scrub", "changed"))
    parser.add_argument("paths", nargs="*")
    given = parser.parse_args()
    if given.what == "changed":
        changed()
        return 0
    paths = captures(given.paths)
    if given.what == "scrub":
        left = [text for path in paths if (text := scrub(path))]
        print(*left, f"{len(paths)} captures scrubbed, something is left in {len(left)}", sep="\n")
        return int(bool(left))
    tried, told = (sum(numbers) for numbers in zip(*map(solve, paths), strict=True))
    print(f"{len(paths)} captures, {tried} frames with something hidden, checksums tell something of {told}")
    return int(told > 0)


if __name__ == "__main__":
    sys.exit(main())
