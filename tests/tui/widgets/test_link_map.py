"""Nodes and cables are drawn where they belong, with the selected node and the route among what has room."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from ibdissect.subnet.forwarding_path import forwarding_path
from ibdissect.subnet.switch_levels import levels
from ibdissect.subnet.switch_tables import Forwarding
from ibdissect.tui.widgets.link_map import LinkMap
from tests.pictures.looks import CA, SWITCH, fat_tree


class MapApp(App[None]):
    def __init__(self, spines: int, leaves: int, hosts: int) -> None:
        super().__init__()
        self.subnet = fat_tree(spines, leaves, hosts)
        found, self.clicked = levels(self.subnet, 2000), list[int]()
        self.slots = {node.name.decode().partition(" ")[0]: slot for slot, node in found.nodes.items()}
        named = {slot: name for name, slot in self.slots.items()}
        self.map = LinkMap(found, named.__getitem__, self.clicked.append)

    def compose(self) -> ComposeResult:
        yield self.map

    def drawn(self) -> list[str]:
        return ["".join(part.text for part in self.map.parts(i, 200)) for i in range(self.map.count())]

    def bright(self) -> str:
        return "".join(text for line in self.map.lines for _, (text, ink) in sorted(line.items()) if ink == "accent")


async def test_switches_stand_on_levels_with_hosts_below() -> None:
    app = MapApp(2, 3, 2)
    async with app.run_test(size=(80, 20)) as pilot:
        drawn = app.drawn()
        assert drawn[0].split() == ["spine0", "spine1"] and drawn[3].split() == ["leaf0", "leaf1", "leaf2"]
        assert [line.split() for line in drawn[4:]] == [["├host0-0", "├host1-0", "├host2-0"], ["└host0-1", "└host1-1", "└host2-1"]]
        below = [x for x, sign in enumerate(drawn[2]) if sign in "│┌┐├┤┬"]
        assert len(below) == 6, "each leaf has a cable to each spine"
        app.map.show(app.slots["leaf1"], [])
        assert app.bright().count("leaf1") == 0 and set(app.bright()) & set("─│┬┴"), "the cables of the selected node"
        line, x = app.map.places[app.slots["host2-1"]]
        await pilot.click(LinkMap, offset=(x + 2, line))
        assert app.clicked == [app.slots["host2-1"]]


async def test_nodes_without_cables_stand_in_a_group_of_their_own() -> None:
    app = MapApp(1, 2, 1)
    for number in range(5):
        node, _ = app.subnet.node(0x9000 + number, 1)
        node.kind, node.name = SWITCH if number < 2 else CA, b"lone%d" % number
    app.map.levels = levels(app.subnet, 2000)
    names = {slot: node.name.decode().partition(" ")[0] for slot, node in app.map.levels.nodes.items()}
    app.map.named = names.__getitem__
    async with app.run_test(size=(80, 24)):
        drawn = app.drawn()
        group = drawn.index("  No cable to a switch is known of 5 nodes")
        assert not any("lone" in line for line in drawn[:group]) and drawn[group - 1] == ""
        assert [line.split() for line in drawn[group + 1 :]] == [["lone0", "lone1", "lone2"], ["lone3", "lone4"]]


async def test_a_click_hits_a_name_of_wide_characters() -> None:
    app = MapApp(1, 1, 1)
    slot = app.slots["leaf0"]
    app.map.named = lambda one: "葉葉葉" if one == slot else "x"
    async with app.run_test(size=(80, 20)) as pilot:
        app.map.show(-1, [])
        line, x = app.map.places[slot]
        for offset in (0, 5):
            await pilot.click(LinkMap, offset=(x + offset, line))
        assert app.clicked == [slot, slot]
        await pilot.click(LinkMap, offset=(x + 6, line))
        assert app.clicked == [slot, slot]


@pytest.mark.parametrize("width", [46, 110, 140])
async def test_a_route_is_drawn_among_many(width: int) -> None:
    app = MapApp(12, 40, 30)
    async with app.run_test(size=(width, 30)):
        nodes = {node.name.decode().partition(" ")[0]: node for node in app.subnet.nodes.values()}
        start, goal = nodes["host3-7"].ports[1], nodes["host38-29"].ports[1]
        for node, number in (("leaf3", 5), ("spine4", 39), ("leaf38", 12 + 30)):
            tables = nodes[node].forwarding = Forwarding()
            entries = bytearray(64)
            entries[goal.lid % 64] = number
            tables.linear.learn(goal.lid // 64, bytes(entries), 9)
        route = [start.node.slot, *(port.peer.node.slot for port, _ in forwarding_path(start, goal) if port.peer is not None)]
        assert [app.map.named(slot) for slot in route] == ["host3-7", "leaf3", "spine4", "leaf38", "host38-29"]
        app.map.show(goal.node.slot, route)
        text = "\n".join(app.drawn())
        assert all(name in text for name in ("leaf3 ", "spine4", "leaf38", "more switches" if width > 80 else "+"))
        cables = [line for line in app.drawn() if set(line) & set("┌┐┬┴")]
        assert cables and not any("more" in line for line in cables), "the number of the others stands beside the switches"
        assert all(name[-5:] in text for name in ("host3-7", "host38-29")) and max(map(len, app.drawn())) <= width
        nodes["spine4"].forwarding = None
        assert len(list(forwarding_path(start, goal))) == 2, "it ends where nothing is known"
