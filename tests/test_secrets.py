"""No output shows a key without --show-keys. Keys are put into every key field, then searched for in all outputs."""

from __future__ import annotations

import io
import random
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from ibdissect import Capture
from ibdissect.decode.equal_rows import SLOTS, slot
from ibdissect.decode.hidden.key_numbers import secret_fields
from ibdissect.dissect.json_lines import JsonLines
from ibdissect.dissect.shown_value import Presenter
from ibdissect.tables import capture_table
from ibdissect.wire.catalog import builtin
from ibdissect.words import Inside, Mad
from tests import commands, tunnels
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND, build
from tests.fuzz.container import pcapng
from tests.fuzz.seeds import management, of_declarations
from tests.subnet.made import answer, port_info
from tests.wire.ulp.test_services import nvme_frames

pytestmark = pytest.mark.slow

PER_FIELD = 2


@dataclass(frozen=True, slots=True)
class Planted:
    """A key in a frame."""

    field: str
    value: bytes
    frame: int
    end: int
    """Offset in the frame of the byte after the key."""


def notices() -> Iterator[bytes]:
    """Traps that repeat a key: structures nested in another one if its fields have certain values."""
    rnd = random.Random(5)
    for what in builtin().structs:
        for place in what.carried_by:
            if not isinstance(place, Inside) or not any(field.secret for field in what.fields):
                continue
            outer = place.field.owner
            assert outer is not None
            values = {field.name: min(allowed) for field, allowed in place.when}
            body = build(outer, **values, **{place.field.name: rnd.randbytes(place.field.bits // 8)})
            for home in (home for home in outer.carried_by if isinstance(home, Mad)):
                yield management(rnd, home, body)


def plant() -> tuple[list[bytes], list[Planted]]:
    """Frames of all declarations that have a key field, each with a distinct key, and the connections that others need."""
    rnd = random.Random(7)
    frames = [answer(5, 0x15, port_info(5))]  # `ports` are answers
    frames += [seed.data for n in (3, 4) for seed in of_declarations(n) if seed.link == LINK_INFINIBAND]
    declared = len(frames)
    frames += [*notices(), *nvme_frames()]
    planted: list[Planted] = []
    with Capture(io.BytesIO(pcapng([(LINK_INFINIBAND, data, len(data)) for data in frames]))) as capture:
        for table in capture.tables():
            taken: dict[int, bytearray] = {}
            for field in secret_fields(table.catalog):
                found = table.occurrences(field.owner)
                places = list(zip(found.rows.tolist(), found.at.tolist(), strict=True))
                for row, at in places[: PER_FIELD if field.when is None else None]:
                    start = at + field.bit // 8 - int(table.chunk.offset[row])
                    number = table.chunk.first + row - 1
                    frame = taken.setdefault(number, bytearray(frames[number]))
                    size = field.bits // 8
                    if any(p.frame == number and start < p.end and start + size > p.end - len(p.value) for p in planted):
                        continue
                    value = rnd.randbytes(size)
                    frame[start : start + size] = value
                    planted.append(Planted(field.filter_name, value, number, start + size))
            for number, frame in taken.items():
                frames[number] = bytes(frame)
    kept = sorted({key.frame for key in planted} | set(range(declared, len(frames))))
    return [frames[i] for i in kept], [replace(key, frame=kept.index(key.frame)) for key in planted]


def forms(key: bytes) -> Iterator[bytes]:
    """Forms of a key in an output: bytes in either order, hex in words and with separators, a number."""
    yield key
    yield key[::-1]
    for part in {key, *(key[i : i + 4] for i in range(0, len(key), 4))}:
        yield part.hex().encode()
        yield part.hex().upper().encode()
        yield part.hex(":").encode()
        yield part.hex(" ").encode()
    yield str(int.from_bytes(key, "big")).encode()
    yield str(int.from_bytes(key, "little")).encode()


def shown(output: bytes, keys: Iterable[Planted]) -> list[str]:
    """Fields whose key occurs in an output, in any form: all forms are looked for at once, by their first 8 or 4 bytes."""
    owners: dict[bytes, list[str]] = {}
    for key in keys:
        for form in forms(key.value):
            owners.setdefault(form, []).append(f"{key.field} in frame {key.frame + 1}")
    found = set()
    for size in (8, 4):
        starts: dict[bytes, list[bytes]] = {}
        for form in owners:
            if (len(form) >= 8) == (size == 8):
                assert len(form) >= size
                starts.setdefault(form[:size], []).append(form)
        for at in places(output, starts, size):
            found.update(form for form in starts[output[at : at + size]] if output.startswith(form, at))
    return sorted({owner for form in found for owner in owners[form]})


def places(output: bytes, words: Iterable[bytes], size: int) -> list[int]:
    """Where any of the words of `size` bytes occurs."""
    if len(output) < size:
        return []
    here = np.lib.stride_tricks.sliding_window_view(np.frombuffer(output, np.uint8), size)
    numbers = np.zeros(len(here), np.uint64)
    for i in range(size):
        numbers = numbers << np.uint64(8) | here[:, i]
    wanted = np.array([int.from_bytes(word, "big") for word in words], np.uint64)
    perhaps = np.zeros(SLOTS, np.bool_)
    perhaps[slot(wanted)] = True
    index = np.flatnonzero(perhaps[slot(numbers)])
    return index[np.isin(numbers[index], wanted)].tolist()


FRAMES, PLANTED = plant()
KINDS = [*tunnels.FRAMES, *tunnels.PACKETS]
UPPER = ("nvme.", "iser.", "rpcordma.")
"""Structures known only from the frame's connection: a single frame has only a payload."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The captures of `written`, with the planted keys."""
    return written(tmp_path_factory.mktemp("keys"), FRAMES)


def written(folder: Path, frames: list[bytes]) -> Path:
    """`whole.pcapng` with every frame, `cut.pcapng` with one of each key field that ends within or right after its key, cut off or
    not, and in a tunnel; `few.pcapng`: one frame with each kind of key, whole and cut off after it.
    """
    (folder / "whole.pcapng").write_bytes(pcapng([(LINK_INFINIBAND, data, len(data)) for data in frames]))
    cut = []
    for key in {key.field: key for key in PLANTED if not key.field.startswith(UPPER)}.values():
        data = frames[key.frame]
        for size in (key.end, key.end + 1, key.end + 4):
            for wire in (size, len(data)):
                cut.append((LINK_INFINIBAND, data[:size], max(wire, len(data[:size]))))
        frame = tunnels.roce(data)
        end = len(frame) - (len(data) - 2 - key.end)
        for size in (end - 1, end, len(frame)):
            inside, _ = tunnels.wrapped(KINDS[len(cut) % len(KINDS)], frame[:size], len(frame))
            cut += [(LINK_ETHERNET, inside, len(inside)), (LINK_ETHERNET, inside, len(inside) + len(frame) - size)]
        for words in (2, 5):  # the packet's length ends before the key
            cut.append((LINK_INFINIBAND, data[:4] + struct.pack(">H", words) + data[6:], len(data)))
    (folder / "cut.pcapng").write_bytes(pcapng(cut))
    kinds = {field.filter_name: field.secret for field in secret_fields(builtin())}
    few = [(frames[key.frame], size) for key in {kinds[key.field]: key for key in PLANTED}.values() for size in (None, key.end)]
    (folder / "few.pcapng").write_bytes(pcapng([(LINK_INFINIBAND, data[:size], len(data)) for data, size in few]))
    return folder


def run(*words: str, cwd: Path | None = None) -> bytes:
    """All output of a command."""
    done = commands.run(*words, cwd=cwd)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


RAW = sorted(name for name, fields in builtin().names.items() if any(field.kind in ("raw", "rest", "pad") for field in fields))
KEYS = sorted({field.filter_name for field in secret_fields(builtin())})
COLUMNS = [word for name in (*KEYS, *RAW) for word in ("-e", name)]
OUTPUTS = {
    **{f"show {name}": ("show", "{}", "--format", name) for name in ("summary", "tree", "dump", "dotted", "scapy", "json", "jsonl")},
    **{f"lint {name}": ("lint", "{}", "--max-findings", "none", "--format", name)
       for name in ("text", "json", "jsonl", "sarif", "junit", "github", "html")},
    "report": ("report", "{}"),
    "lint with figures": ("lint", "{}", "--statistics", "--timing"),
    "fields": ("show", "{}", *COLUMNS), "stats": ("stats", "{}"), "stats json": ("stats", "{}", "--format", "json"),
    "fabric": ("fabric", "{}"), "fabric json": ("fabric", "{}", "--format", "json"), "fabric dot": ("fabric", "{}", "--dot"),
}  # fmt: skip
LEFT_OUT = {"show scapy", "show json", "lint with figures"}
"""They take a minute, are the lines of jsonl in an array, or hold times."""


def test_every_kind_of_key_is_planted(folder: Path) -> None:
    """With --show-keys the search finds the keys, so the other tests cannot pass because the search fails."""
    kinds = {field.secret for field in secret_fields(builtin())} - {"DMB Token"}  # only over TCP: tests/decode/hidden/test_cut_messages.py
    assert {f.secret for f in secret_fields(builtin()) if f.filter_name in {key.field for key in PLANTED}} == kinds
    found = shown(run("show", str(folder / "whole.pcapng"), "--format", "jsonl", "--show-keys"), PLANTED)
    assert len(found) == len({(key.field, key.frame) for key in PLANTED}) > 60


BOTH = [pytest.param(name, part, id=f"{name}-{part}", marks=[pytest.mark.thorough] * (name != "lint with figures"))
        for name in OUTPUTS for part in ("whole", "cut")]  # fmt: skip
"""An output that is the same with other keys shows none. Scapy's own text of all frames takes a minute; `few` has one of each kind."""


@cache
def output(name: str, folder: Path, capture: str) -> bytes:
    """One of OUTPUTS of a capture in a folder."""
    return run(*(word.format(f"{capture}.pcapng") for word in OUTPUTS[name]), cwd=folder)


@pytest.mark.parametrize(("name", "capture"), [*BOTH, ("show scapy", "few")])
def test_no_output_shows_a_key(name: str, capture: str, folder: Path) -> None:
    assert shown(output(name, folder, capture), PLANTED) == []


@pytest.mark.parametrize("capture", ["whole", "cut"])
def test_with_other_keys_every_output_is_the_same(capture: str, folder: Path, tmp_path: Path) -> None:
    """To the byte: then no number, count, order or checksum in it tells anything about a key, whatever one computes. Only the SHA-256 of
    the file differs, as SECURITY.md says.
    """
    frames = [bytearray(data) for data in FRAMES]
    for key in PLANTED:
        for at in range(key.end - len(key.value), key.end):
            frames[key.frame][at] ^= 0x55
    other = written(tmp_path, [bytes(data) for data in frames])
    shows = [run("show", f"{capture}.pcapng", "--format", "jsonl", "--show-keys", cwd=place) for place in (folder, other)]
    differ = sum(one != two for one, two in zip(*(text.splitlines() for text in shows), strict=True))
    assert differ > len(PLANTED) // 2, "few keys are other ones"
    for name in OUTPUTS.keys() - LEFT_OUT:
        one, two = (output(name, place, capture).replace(sha256((place / f"{capture}.pcapng").read_bytes()).hexdigest().encode(), b"#")
                    for place in (folder, other))  # fmt: skip
        if name == "lint junit":  # it says when and how long it checked
            one, two = (re.sub(rb' time(stamp)?="[^"]+"', b"", text) for text in (one, two))
        assert one == two, name


TABLES = {"jsonl": ("whole", "cut"), "csv": ("cut",), "parquet": ("cut",), "arrow": ("whole",)}
"""All formats write the same cells; those that are not here only with --thorough."""


@pytest.mark.parametrize(("ending", "capture"), [
    pytest.param(ending, capture, marks=[pytest.mark.thorough] * (capture not in TABLES[ending]))
    for ending in TABLES for capture in ("whole", "cut")
])  # fmt: skip
def test_no_table_holds_a_key(ending: str, capture: str, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    target = tmp_path / f"x.{ending}"
    said = run("export", str(folder / f"{capture}.pcapng"), "--output", str(target), *COLUMNS)
    assert shown(said + target.read_bytes(), PLANTED) == []
    said = run("export", str(folder / f"{capture}.pcapng"), "--findings", "--output", str(target))
    assert shown(said + target.read_bytes(), PLANTED) == []


@pytest.mark.parametrize("show_keys", [False, True])
def test_no_repr_shows_a_key(show_keys: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a prompt, in a notebook, in what pytest prints of a test that failed; and what the screen copies of a layer or a field."""
    monkeypatch.setattr(capture_table, "SHOWN", 1000)
    with Capture(folder / "whole.pcapng", show_keys=show_keys) as opened:
        columns = opened.table().select("frame", *COLUMNS[1::2])
        texts = [opened._repr_html_(), columns._repr_html_(), opened.findings()._repr_html_()]
        for number in sorted({key.frame + 1 for key in ({key.field: key for key in PLANTED}.values() if show_keys else PLANTED)}):
            tree, frame = opened.dissect(number), opened.frame(number)
            texts += [repr((tree, frame, list(tree.walk(joined=True)))), tree._repr_html_(), frame._repr_html_()]
            texts += [node.raw.hex() for node in tree.walk(joined=True) if not tree.hides(node)]
    text = "\n".join(texts)
    found = {key.field for key in PLANTED if repr(key.value)[2:-1] in text} | {one.split()[0] for one in shown(text.encode(), PLANTED)}
    assert found == ({key.field for key in PLANTED} if show_keys else set())


@commands.NEEDS_DUCKDB
def test_no_query_gives_a_key(folder: Path) -> None:
    for table in ("packets", "mads", "findings", "ports"):
        out = run("sql", str(folder / "whole.pcapng"), f"select * from {table}", "--format", "jsonl", *COLUMNS)
        assert out and shown(out, PLANTED) == []


def test_no_comment_and_no_baseline_holds_a_key(folder: Path, tmp_path: Path) -> None:
    """Annotated frames keep their keys, and the command says so; comments show none."""
    target, baseline = tmp_path / "a.pcapng", tmp_path / "known.json"
    assert b"keys" in run("annotate", str(folder / "whole.pcapng"), "--output", str(target))
    with Capture(str(target)) as capture:
        for _ in capture.tables():
            pass
        comments = [text for texts in capture.reader.comments.values() for text in texts]
    assert comments and shown("\n".join(comments).encode(), PLANTED) == []
    run("lint", str(folder / "whole.pcapng"), "--write-baseline", str(baseline))
    assert baseline.stat().st_size > 500 and shown(baseline.read_bytes(), PLANTED) == []


def test_no_error_repeats_a_key(folder: Path) -> None:
    """The error of a rejected command does not show the values."""
    path = str(folder / "whole.pcapng")
    for words in (("show", path, "-Y", "smplid.mkey == x"), ("show", path, "--frames", "x"), ("lint", path, "--select", "NONE")):
        done = commands.run(*words)
        assert done.returncode == 2 and shown(done.stdout + done.stderr, PLANTED) == []


def test_a_key_stays_hidden_when_the_method_was_changed() -> None:
    """Where a receiver finds it does not depend on the method. Other headers decide that: `benchmarks/leaks.py changed` counts."""
    changed, keys = [], []
    for key in {key.field: key for key in PLANTED if not key.field.startswith(UPPER)}.values():
        with Capture(io.BytesIO(pcapng([(LINK_INFINIBAND, FRAMES[key.frame], len(FRAMES[key.frame]))]))) as opened:
            table = next(iter(opened.tables()))
        at = int(table.located.at("mad")[0] - table.chunk.offset[0]) + 3
        for bit in range(8) if table.located.at("mad")[0] >= 0 else ():
            frame = FRAMES[key.frame]
            changed.append(frame[:at] + bytes([frame[at] ^ 1 << bit]) + frame[at + 1 :])
            keys.append(key)
    with Capture(io.BytesIO(pcapng([(LINK_INFINIBAND, data, len(data)) for data in changed]))) as opened:
        lines = [line for table in opened.tables() for line in JsonLines(Presenter()).lines(table, np.arange(len(table)))]
    assert len(lines) == len(keys) > 200
    assert not [key.field for key, line in zip(keys, lines, strict=True) if shown(line.encode(), [key])]


def test_a_representation_holds_what_it_says() -> None:
    """Findings, trees and tables are masked; views are not, as they give direct access to the bytes."""
    with Capture(io.BytesIO(pcapng([(LINK_INFINIBAND, data, len(data)) for data in FRAMES]))) as capture:
        findings = capture.lint()
        assert findings and shown(repr(findings).encode(), PLANTED) == []


def test_a_scrubbed_capture_holds_no_key(folder: Path, tmp_path: Path) -> None:
    """Neither as bytes in the file nor in the command's output."""
    for name in ("whole", "cut"):
        target = tmp_path / f"{name}.pcapng"
        said = run("scrub", str(folder / f"{name}.pcapng"), "--output", str(target))
        assert shown(said, PLANTED) == []
        written = target.read_bytes()
        assert [key.field for key in PLANTED if key.value in written or key.value[::-1] in written] == []
