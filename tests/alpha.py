"""A made-up fabric in three states, as `fabric` tells of it, beside the outputs of its tools, which are read without code of ibdissect."""

from __future__ import annotations

import json
import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from ibdissect.cli.fabric import command
from ibdissect.pipeline.reading import open_reading
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.describe import describe

ALPHA = Path(__file__).parents[2] / "shared/knowledge/alpha"
STATES, SOURCES = ("before", "after", "lmc1"), ("sweep", "files")
Place = tuple[int, int]
"""The LID of a node's end port, and the number of a port of the node."""


def swept(path: str) -> Any:
    """What a capture shows of its subnet."""
    follower = FabricFollower()
    with open_reading(path) as reading:
        for table in reading.tables(keys=False):
            for _ in follower.feed(table):
                pass
    return follower.subnet


class Known:
    """What `fabric` says of one state, learnt from its sweep or from files: its own, or another one."""

    def __init__(self, state: str, source: str, files: Path | None = None) -> None:
        self.folder, self.diags = ALPHA / state, ALPHA / state / "diags"
        self.source = source
        if source != "sweep":
            words = ["--subnet", str(files or self.folder), "--format", "json", "--show-keys", "-q"]
            self.told = json.loads(CliRunner().invoke(command, words).stdout)
        else:
            self.subnet = swept(str(self.folder / "sweep.pcap"))
            self.told = describe(self.subnet, lambda kind, value: None)

    @cached_property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["guid"]: node for node in self.told["nodes"]}

    @cached_property
    def ports(self) -> dict[Place, dict[str, Any]]:
        found = {}
        for node in self.told["nodes"]:
            own = next((port["lid"] for port in node["ports"] if port["number"] == 0), 0)
            for port in node["ports"]:
                found[own or port.get("lid", 0), port["number"]] = port | {"kind": node["kind"], "node": node["guid"]}
        return found

    @cached_property
    def place(self) -> dict[int, tuple[str, int]]:
        """The node and port of each LID."""
        return {entry["lid"]: (entry["node"], entry["port"]) for entry in self.told["lids"]}

    @cached_property
    def links(self) -> set[frozenset[tuple[str, int]]]:
        return {frozenset((end["node"], end["port"]) for end in link["ends"]) for link in self.told["links"]}

    def records(self, what: str) -> list[dict[str, str]]:
        """The records of an output of saquery, each as its lines of the form name....value."""
        text = (self.diags / f"saquery-{what}.txt").read_text()
        every = re.split(r"^\w[\w ]* dump:$", text, flags=re.MULTILINE)[1:]
        return [values_of(one) for one in every]

    def queried(self, what: str) -> dict[Place, str]:
        """The outputs of smpquery by LID and port; without a port 0."""
        found = {}
        for path in (self.diags / f"smpquery-{what}").iterdir():
            lid, _, port = path.stem.removeprefix("lid").partition("-port")
            found[int(lid), int(port or 0)] = path.read_text()
        return found

    def forwarding(self, guid: str) -> dict[int, int]:
        """The port of each LID."""
        found = {}
        for entry in self.nodes[guid]["forwarding"]["linear"]:
            for part in entry["lids"].split(","):
                low, _, high = part.partition("-")
                found |= dict.fromkeys(range(int(low), int(high or low) + 1), entry["port"])
        return found


def values_of(text: str) -> dict[str, str]:
    """The lines name....value; of several with one name the first."""
    return dict(reversed(re.findall(r"^\s*(\w[\w ]*?):?\.{1,}(.*)$", text, re.MULTILINE)))


@cache
def learnt(state: str, source: str) -> Known:
    return Known(state, source)
