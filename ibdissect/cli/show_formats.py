"""The formats of `show`: printers for the frames of a chunk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import localtime
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import SetMember
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.operand_values import Values
from ibdissect.dissect import named_values, printers
from ibdissect.dissect.frame_trees import tree_of
from ibdissect.dissect.info_line import summaries
from ibdissect.dissect.json_lines import JsonLines
from ibdissect.dissect.layout import Layouts
from ibdissect.dissect.named_values import FieldValues
from ibdissect.dissect.shown_value import Presenter
from ibdissect.dissect.tree import Tree, outline
from ibdissect.dissect.walk import Walk
from ibdissect.lint.set_members import place, place_text
from ibdissect.mad.rmpp_reassembly import Transfers
from ibdissect.python_interface import Capture
from ibdissect.subnet.kinds_of_ports import KindsOfPorts
from ibdissect.tables.values_in_frames import NamedColumn, each_once, named_columns, objects, occurrences, plain_values
from ibdissect.transport.completed import completed, completed_json
from ibdissect.wire.spec import Field
from ibdissect.wire.text import Paint, counted, printable

BATCH = 4096
"""Rows formatted at once."""


class Printer:
    """Turns rows into text; most formats have no head and no tail."""

    def head(self) -> str:
        return ""

    def frames(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        raise NotImplementedError

    def tail(self) -> str:
        return ""


class SummaryLines(Printer):
    """One line per frame: number (FILE:N of a set), seconds since the first frame, source, destination, protocol, length, info."""

    clock = "r"
    """One of CLOCKS."""
    address: Callable[[str], str] | None = None
    """Gives the names of addresses."""

    def __init__(self, presenter: Presenter, paint: Paint, members: Sequence[SetMember] = ()) -> None:
        """`members` are the files of a set."""
        self.presenter, self.paint, self.members = presenter, paint, members
        self.first_ns: int | None = None
        self.before_ns = 0

    def frames(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        if not len(table):
            return
        every: Int = table.chunk.time_ns
        if self.first_ns is None:
            self.first_ns = self.before_ns = int(every[0])
        before = np.concatenate([[self.before_ns], every[:-1]])
        since = every - before if self.clock == "d" else every - self.first_ns if self.clock == "r" else every
        self.before_ns = int(every[-1])
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            lines = summaries(table, some, self.presenter)
            if self.address is not None:
                names = {address: self.address(address) for address in {*lines.source, *lines.destination}}
                lines.source, lines.destination = ([names[address] for address in side] for side in (lines.source, lines.destination))
            times, lengths = CLOCKS[self.clock](since[some]), table.chunk.length[some].tolist()
            numbers = [place_text(self.members, number) for number in (some + table.chunk.first).tolist()]
            paint = self.paint
            yield "".join(
                f"{number:>6} {time}  {source:<15} → {destination:<15}  {paint(f'{protocol:<6}', 'protocol')}"
                f" {length:4d}  {printable(info)}\n"
                for number, time, source, destination, protocol, length, info in zip(
                    numbers, times, lines.source, lines.destination, lines.protocol, lengths, lines.info, strict=True
                )
            )


def seconds(ns: int) -> str:
    """Seconds with six decimals, rounded down, as in Wireshark's Time column."""
    whole, rest = divmod(abs(ns) // 1000, 1_000_000)
    return f"{'-' * (ns < 0)}{whole}.{rest:06d}".rjust(12)


def _dates(ns: Int) -> list[str]:
    return [text.replace("T", " ") for text in np.datetime_as_string(ns.astype("M8[ns]"), unit="us").tolist()]


def _local(ns: Int) -> Int:
    """The same times as clocks here show them; the difference to UTC is looked up once per quarter of an hour."""
    quarters, which = np.unique(ns // QUARTER, return_inverse=True)
    ahead = np.array([localtime(quarter * QUARTER // 10**9).tm_gmtoff for quarter in quarters.tolist()], np.int64)
    return ns + ahead[which] * 10**9


QUARTER = 15 * 60 * 10**9
CLOCKS: dict[str, Callable[[Int], list[str]]] = {
    "r": lambda ns: list(map(seconds, ns.tolist())), "d": lambda ns: list(map(seconds, ns.tolist())),
    "e": named_values.seconds_texts,
    "u": lambda ns: [text[11:] for text in _dates(ns)], "ud": _dates,
    "a": lambda ns: [text[11:] for text in _dates(_local(ns))], "ad": lambda ns: _dates(_local(ns)),
}  # fmt: skip
"""Times as tshark's -t names them: since the first frame, since the frame before, since 1970, of the day in UTC and here, with the date."""


class Json(Printer):
    """One JSON object per frame: one per line, or all in one array; with the transfer, records or message that the frame completes."""

    def __init__(self, presenter: Presenter, *, lines: bool, members: Sequence[SetMember] = ()) -> None:
        self.lines, self.first, self.members = lines, True, members
        self.json = JsonLines(presenter)
        self.transfers = Transfers()

    def head(self) -> str:
        return "" if self.lines else "["

    def frames(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        """Objects, each with its line end, or preceded by a comma."""
        ended = self.transfers.feed(table)
        for row, line in zip(rows.tolist(), self.json.lines(table, rows), strict=True):
            frame = table.chunk.first + row
            if more := completed_json(table, row, self.json.presenter, ended.get(frame)):
                line = f"{line[:-1]}, {json.dumps(more)[1:]}"
            if self.members:
                path, number = place(self.members, frame)
                line = f'{{"file": {json.dumps(printable(path))}, "file_frame": {number}, {line[1:]}'
            if self.lines:
                yield line + "\n"
            else:
                yield ("\n" if self.first else ",\n") + line
                self.first = False

    def tail(self) -> str:
        return "" if self.lines else "\n]\n"


class Trees(Printer):
    def __init__(self, presenter: Presenter, form: Callable[[Tree, Paint], str], paint: Paint) -> None:
        self.presenter, self.form, self.paint = presenter, form, paint
        self.layouts = Layouts()
        self.blank = ""
        self.transfers = Transfers() if form is outline else None
        self.ports = KindsOfPorts() if form is outline else None

    def frames(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        ended = self.transfers.feed(table) if self.transfers is not None else {}
        ports = self.ports.feed(table) if self.ports is not None else {}
        if not len(rows):
            return
        walk, others = Walk(table), table.located.without_infiniband
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            shapes = {row: shape for shape in walk.shapes(some) for row in shape.rows.tolist()}
            lines = summaries(table, some, self.presenter)
            for i, row in enumerate(some.tolist()):
                tree = tree_of(walk, self.layouts.of(walk, shapes[row]), row, self.presenter, lines[i], ports)
                if self.transfers is not None:
                    tree.joined = completed(table, row, self.presenter, ended.get(tree.frame))
                yield self.blank + self.form(tree, self.paint)
                if self.transfers is not None and others[row]:
                    yield _by_scapy(table, row, self.presenter)
                self.blank = "\n"


def _by_scapy(table: ChunkTable, row: int, presenter: Presenter) -> str:
    """A frame without InfiniBand as Scapy shows it; Scapy is imported for the first one."""
    from ibdissect.cli.scapy_text import shown

    lines = shown(table, row, presenter).rstrip("\n").split("\n")
    return "Decoded by Scapy\n" + "".join(f"    {line}".rstrip() + "\n" for line in lines)


class LadderText(Printer):
    """Who sent what to whom, as arrows between the ends, drawn when all is read."""

    def __init__(self, presenter: Presenter) -> None:
        from ibdissect.screen_model.ladder import Ladder  # needed by no other format

        self.ladder = Ladder(presenter)

    def frames(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        self.ladder.feed(table, rows)
        return iter(())

    def tail(self) -> str:
        from ibdissect.screen_model.stalls import stalls
        from ibdissect.tui.widgets.ladder_lines import LEAST, LadderColumns

        lanes = LadderColumns(self.ladder, max(shutil.get_terminal_size((LEAST, 0)).columns, LEAST))
        steps = self.ladder.steps
        lines = [lanes.head(), *(line for _, line, _ in lanes.lines(steps, stalls(steps)))]
        return "\n".join([*lines, *([counted(self.ladder.left_out, "more packet")] if self.ladder.left_out else [])]) + "\n"


class FieldLines(Printer):
    """Columns as `tshark -T fields` prints them: tabs between fields, commas between occurrences."""

    def __init__(self, opened: Capture, names: tuple[str, ...]) -> None:
        self.presenter = opened.presenter()
        self.columns = [column for name in names for column in named_columns(opened.catalog, [name], first=True)]
        self.state = opened.state(column.name for column in self.columns)

    def frames(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        yield from ("\t".join(line) + "\n" for line in self.lines(table, rows))

    def lines(self, table: ChunkTable, rows: Int) -> Iterator[tuple[str, ...]]:
        self.state.begin(table)
        columns = [self._column(table, rows, column) for column in self.columns]
        self.state.end(table)
        return zip(*columns, strict=True)

    def _column(self, table: ChunkTable, rows: Int, column: NamedColumn) -> list[str]:
        of_row, values, hidden = occurrences(column, table, self.state, rows, self._texts)
        if not column.fields:
            values = starred(undeclared_texts(column, values), hidden)
        line = [""] * len(table)
        for row, text in zip(of_row.tolist(), values.tolist(), strict=True):
            line[row] = f"{line[row]},{text}" if line[row] else text
        return [line[row] for row in rows.tolist()]

    def _texts(self, run: FieldValues, hidden: Bool) -> npt.NDArray[Any]:
        if isinstance(run.values, list):
            texts = objects([value if isinstance(value, str) else value.hex() for value in plain_values(run)])
        else:
            texts = each_once(plain_values(run), partial(field_text, self.presenter, run.field))
        return texts if run.field.secret else starred(texts, hidden)  # a key's text is its number


def starred(texts: npt.NDArray[Any], hidden: Bool) -> npt.NDArray[Any]:
    """Texts with asterisks in place of those that are hidden."""
    for i in np.flatnonzero(hidden).tolist():
        texts[i] = "*" * len(texts[i])
    return texts


class ChosenColumns(FieldLines):
    """The same values under their names, in columns as wide as they need."""

    def __init__(self, opened: Capture, names: tuple[str, ...]) -> None:
        super().__init__(opened, names)
        self.widths = [len(column.name) for column in self.columns]
        self.begun = False

    def frames(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        """Lines of the chunk; the first ones after a line of names."""
        found = list(self.lines(table, rows))
        lines = found if self.begun or not found else [tuple(column.name for column in self.columns), *found]
        self.begun |= bool(found)
        for line in lines:
            self.widths = [max(width, len(cell)) for width, cell in zip(self.widths, line, strict=True)]
        yield from ("  ".join(map(str.ljust, line, self.widths)).rstrip() + "\n" for line in lines)


def undeclared_texts(column: NamedColumn, values: Values) -> npt.NDArray[Any]:
    """Values of a name that no structure declares, as tshark prints them; times in UTC."""
    if column.type == "time":
        return objects([f"{text}Z" for text in np.datetime_as_string(values.astype("M8[ns]"), unit="ns").tolist()])
    return objects([printable(text) for text in map(named_values.seconds_text if column.type == "seconds" else str, values.tolist())])


def field_text(presenter: Presenter, field: Field[Any], value: Any) -> str:
    """A value as `tshark -T fields` (4.0) prints it: flags as 1 or 0, hexadecimal numbers padded to their type's width."""
    plain, text = presenter.present(field, value)
    if plain is None:
        return text
    if isinstance(plain, str):
        return printable(plain)
    if field.base in ("hex", "guid") and not isinstance(plain, bool):
        digits = next((width for width in (2, 4, 6, 8, 16) if field.bits <= width * 4), (field.bits + 3) // 4)
        return f"0x{plain:0{digits}x}"
    return str(int(plain))


class ScapyText(Printer):
    """Scapy's own view of the frames, through the layers derived from the declarations."""

    def __init__(self, opened: Capture) -> None:
        from ibdissect.layers import use_catalog

        use_catalog(opened.catalog)
        self.show_keys = opened.show_keys
        self.presenter = opened.presenter()
        self.blank = ""

    def frames(self, table: ChunkTable, rows: Int) -> Iterator[str]:
        from ibdissect.cli.scapy_text import shown

        for row in rows.tolist():
            number = table.chunk.first + row
            yield f"{self.blank}###[ Frame {number} ]###\n" + shown(table, row, self.presenter)
            self.blank = "\n"


def _trees(form: Callable[[Tree, Paint], str]) -> MakePrinter:
    return lambda opened, _, paint: Trees(opened.presenter(), form, paint)


MakePrinter = Callable[[Capture, tuple[str, ...], Paint], Printer]
"""Called with the capture, the names given with -e, and the painter."""
PRINTERS: dict[str, MakePrinter] = {
    "summary": lambda opened, names, paint: (
        ChosenColumns(opened, names) if names else SummaryLines(opened.presenter(), paint, opened.reader.members)
    ),
    "tree": _trees(outline),
    "dump": _trees(printers.dump),
    "dotted": _trees(printers.dotted),
    "ladder": lambda opened, _, __: LadderText(opened.presenter()),
    "scapy": lambda opened, _, __: ScapyText(opened),
    "json": lambda opened, _, __: Json(opened.presenter(), lines=False, members=opened.reader.members),
    "jsonl": lambda opened, _, __: Json(opened.presenter(), lines=True, members=opened.reader.members),
    "fields": lambda opened, names, _: FieldLines(opened, names),
}
"""The formats of `show`."""
