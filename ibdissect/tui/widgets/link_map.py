"""The links of a subnet drawn as text: switches by level with cables between the levels, and hosts below their switch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from rich.segment import Segment
from textual import events

from ibdissect.subnet.switch_levels import Levels
from ibdissect.wire.text import counted

from .cells import width_of
from .line_list import LineList

NARROW, WIDE = 9, 20
"""Cells of a node: its name and the room around it."""
LANES = 8
"""Switches whose cables are drawn all at once; of more, only those of the selected node or the route."""
HOSTS = 8
"""Lines of hosts below a switch, more where there is room."""
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
SIGNS = dict(zip((3, 12, 9, 5, 10, 6, 11, 7, 13, 14, 15), "│─└┘┌┐├┤┴┬┼", strict=True))
"""What a cable looks like in a cell, by where it goes from there."""
Edge = tuple[int, int]
"""Slots of two nodes, the lower one first."""


class LinkMap(LineList, can_focus=False):
    """A subnet in which one node and one route stand out; a click on a node calls `chosen` with its slot."""

    bar = False
    empty = "No node is known."

    def __init__(self, levels: Levels, named: Callable[[int], str], chosen: Callable[[int], None]) -> None:
        super().__init__(id="map")
        self.levels, self.named, self.chosen = levels, named, chosen
        self.selected, self.route = -1, list[int]()
        """Slots of the node that stands out, and of those on the way to it."""
        self.lines: list[dict[int, tuple[str, str]]] = []
        """By line and first cell: text and ink."""
        self.places: dict[int, tuple[int, int]] = {}
        """Line and first cell of each node that is drawn."""

    def parts(self, index: int, width: int) -> list[Segment]:
        segments, at = list[Segment](), 0
        for x, (text, ink) in sorted(self.lines[index].items()):
            segments += [Segment(" " * (x - at)), Segment(text, self.ink(ink) if ink else None)]
            at = max(x, at) + width_of(text)
        return segments

    def on_resize(self, event: events.Resize) -> None:
        self.show(self.selected, self.route)

    def clicked(self, index: int, event: events.Click) -> None:
        for slot, (line, x) in self.places.items():
            if line == index and x <= event.x < x + width_of(self.lines[line][x][0]):
                self.chosen(slot)

    def show(self, selected: int, route: list[int]) -> None:
        """Draw the subnet, with the cables of a route bright; without a route, those of the selected node."""
        self.selected, self.route, self.lines, self.places = selected, route, [], {}
        lit = {(min(pair), max(pair)) for pair in pairwise(route)} or {edge for edge in self.levels.cables if selected in edge}
        near = {slot for edge in lit for slot in edge} | {selected}
        above: dict[int, int] = {}
        joined = {slot for edge in self.levels.cables for slot in edge}
        for level in self.levels.switches:
            if shown := [slot for slot in level if slot in joined]:
                above = self._level(shown, above, lit, near)
        pitch, top = self._pitch(len(above), self.line_width), len(self.lines)
        for slot, middle in above.items():
            self._hosts(slot, top, middle - pitch // 2 + 1, pitch - 2, near)
        self._alone([slot for slot in self.levels.nodes if slot not in joined or slot in self.levels.hosts.get(-1, ())])
        self.renew()
        if selected in self.places:
            self.select(self.places[selected][0])

    def _alone(self, slots: list[int]) -> None:
        """Draw the nodes of which no cable is known side by side, in a group of their own."""
        if slots:
            self._put(len(self.lines) + bool(self.lines), 2, f"No cable to a switch is known of {counted(len(slots), 'node')}", "dim")
        columns = max(min((self.line_width - 2) // WIDE, len(slots)), 1)
        cells, top = (self.line_width - 2) // columns, len(self.lines)
        for i, slot in enumerate(slots):
            self._node(top + i // columns, 2 + i % columns * cells, slot, cells - 1)

    def _pitch(self, nodes: int, room: int) -> int:
        return max(min(room // max(nodes, 1), WIDE), NARROW)

    def _few(self, slots: list[int], most: int, near: set[int]) -> list[int]:
        """At most `most` of the nodes, in their order; the selected one and those on the route are kept."""
        first = sorted(slots, key=lambda slot: slot not in near)[: max(most - 1, 1)]
        return slots if len(slots) <= most else [slot for slot in slots if slot in first]

    def _level(self, level: list[int], above: dict[int, int], lit: set[Edge], near: set[int]) -> dict[int, int]:
        """Draw the switches of a level, and the cables that lead to them from above; returns the middle of each."""
        room, shown = self.line_width, level
        more = "+{}" if room < WIDE * 4 else "{} more switches"
        if len(level) > room // NARROW:
            room -= len(more) + 2
            shown = self._few(level, room // NARROW + 1, near)
        pitch = self._pitch(len(shown), room)
        left = max(room - pitch * len(shown), 0) // 2
        middle = {slot: left + i * pitch + pitch // 2 for i, slot in enumerate(shown)}
        drawn = [edge for edge in self.levels.cables if set(edge) <= middle.keys() | above.keys() and set(edge) & middle.keys()]
        if len({_upper(edge, above) for edge in drawn}) > LANES:
            drawn = [edge for edge in drawn if edge in lit]
        self._cables(sorted(drawn, key=lit.__contains__), above, middle, lit)
        line = len(self.lines)
        if len(shown) < len(level):
            self._put(line, room, more.format(len(level) - len(shown)), "dim")
        for slot, place in middle.items():
            self._node(line, place, slot, pitch - 1, center=True)
        return middle

    def _cables(self, edges: list[Edge], above: dict[int, int], below: dict[int, int], lit: set[Edge]) -> None:
        """A line for each upper switch, from which its cables lead down. Where cables of two switches cross, the vertical one is whole."""
        places = above | below
        uppers = sorted({_upper(edge, above) for edge in edges}, key=places.__getitem__)
        cells: dict[tuple[int, int], tuple[int, int, str]] = {}

        def draw(line: int, x: int, arms: int) -> None:
            owner, there, old = cells.get((line, x), (upper, 0, ink))
            if owner == upper:
                cells[line, x] = upper, there | arms, "accent" if "accent" in (old, ink) else ink
            elif arms & (UP | DOWN):
                cells[line, x] = upper, arms, ink

        for edge in edges:
            upper, ink = _upper(edge, above), "accent" if edge in lit else "dim"
            lane = uppers.index(upper)
            start, stop = places[upper], places[sum(edge) - upper] + lane - len(uppers) // 2
            to = RIGHT if start < stop else LEFT if start > stop else DOWN
            for line in range(lane) if upper in above else range(lane + 1, len(uppers)):
                draw(line, start, UP | DOWN)
            for x in range(min(start, stop) + 1, max(start, stop)):
                draw(lane, x, LEFT | RIGHT)
            draw(lane, start, to | (UP if upper in above else DOWN))
            draw(lane, stop, DOWN | (0 if to == DOWN else LEFT + RIGHT - to))
            for line in range(lane + 1, len(uppers)):
                draw(line, stop, UP | DOWN)
        top = len(self.lines)
        for (line, x), (_, arms, ink) in cells.items():
            self._put(top + line, x, SIGNS.get(arms, "│"), ink)

    def _hosts(self, switch: int, top: int, x: int, cells: int, near: set[int]) -> None:
        """The hosts below a switch."""
        every = self.levels.hosts.get(switch, [])
        for line, host in enumerate(hosts := self._few(every, max(HOSTS, self.page_size - top), near)):
            self._put(top + line, x, "└" if host == every[-1] else "├", "accent" if host in near and switch in near else "dim")
            self._node(top + line, x + 1, host, cells - 1)
        if len(hosts) < len(every):
            self._put(top + len(hosts), x, f"└+{len(every) - len(hosts)}", "dim")

    def _node(self, line: int, x: int, slot: int, cells: int, *, center: bool = False) -> None:
        """Draw a node; a long name loses its beginning, as names differ at their ends."""
        name = self.named(slot)
        name = name if width_of(name) <= cells else "…" + name[1 - cells :]
        x = max(x - width_of(name) // 2, 0) if center else x
        self.places[slot] = line, x
        self._put(line, x, name, "bits" if slot == self.selected else "accent" if slot in self.route else "")

    def _put(self, line: int, x: int, text: str, ink: str) -> None:
        while len(self.lines) <= line:
            self.lines.append({})
        self.lines[line][x] = text, ink


def _upper(edge: Edge, above: dict[int, int]) -> int:
    """The end of a cable that it is drawn from: the one on the level above, or else the first."""
    return next((slot for slot in edge if slot in above), edge[0])
