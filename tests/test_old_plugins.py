"""Plugins that were written for an earlier version give what they gave then, unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import commands

OLD = Path(__file__).parent / "old_plugins"
"""The plugins of the documentation before lists, choices and texts could be declared, byte for byte."""
CAPTURE = str(Path(__file__).parents[1] / "docs/examples/acme.pcap")
VALUES = {
    ("first_dissector", "acme.stream.body"): ["3=010361626302000309637574"],
    ("first_dissector", "acme.stream.tag"): ["3=0x8001", "4=0x0007"],
    ("first_dissector", "acme.value.type"): ["3=1,2"],
    ("first_dissector", "acme.value.length"): ["3=3,0"],
    ("first_dissector", "acme.value.data"): ["3=616263"],
    ("first_dissector", "acme.temperature.celsius"): ["6=90"],
    ("first_dissector", "acme.temperature.left"): ["6=-10"],
    ("first_dissector", "acme.temperature.state"): ["6=1"],
    ("first_rule", "acme.heat.celsius"): ["6=90"],
    ("acme", "infiniband.acme.limit"): [],
}


@pytest.mark.parametrize(("plugin", "name"), VALUES)
def test_fields_of_old_plugins(plugin: str, name: str) -> None:
    done = commands.run("show", "--plugin", str(OLD / f"{plugin}.py"), CAPTURE, "-e", "frame.number", "-e", name)
    assert (done.returncode, done.stderr) == (0, b"")
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [f"{row[0]}={row[1].rstrip(',')}" for row in rows if row[1:] and row[1]] == VALUES[plugin, name]


def test_rules_of_old_plugins() -> None:
    done = commands.run("lint", "--plugin", str(OLD / "first_rule.py"), CAPTURE, "--select", "ACM", "--format", "github")
    assert done.returncode == 1
    told = done.stdout.decode()
    for code, frame, message in (("ACME011", 6, "sensor 3: 90 °C is above 80 °C"), ("ACME013", 2, "0 retries"), ("ACME014", 8, "0xace")):
        assert any(code in line and f"frame {frame}:" in line and line.endswith(message) for line in told.splitlines()), (code, told)
