"""Plugins that were written for an earlier version give what they gave then, unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import commands

OLD = Path(__file__).parent / "old_plugins"
"""The plugins of the documentation before lists, choices and texts could be declared, byte for byte."""
CAPTURE = str(Path(__file__).parents[1] / "docs/examples/acme.pcap")
VALUES: dict[str, dict[str, list[str]]] = {
    "first_dissector": {
        "acme.stream.body": ["3=010361626302000309637574"],
        "acme.stream.tag": ["3=0x8001", "4=0x0007"],
        "acme.value.type": ["3=1,2"],
        "acme.value.length": ["3=3,0"],
        "acme.value.data": ["3=616263"],
        "acme.temperature.celsius": ["6=90"],
        "acme.temperature.left": ["6=-10"],
        "acme.temperature.state": ["6=1"],
    },
    "first_rule": {"acme.heat.celsius": ["6=90"]},
    "acme": {"infiniband.acme.limit": []},
}
"""What a field of a plugin says, by frame."""


@pytest.mark.parametrize("plugin", VALUES)
def test_fields_of_old_plugins(plugin: str) -> None:
    names = [word for name in VALUES[plugin] for word in ("-e", name)]
    done = commands.run("show", "--plugin", str(OLD / f"{plugin}.py"), CAPTURE, "-e", "frame.number", *names)
    assert (done.returncode, done.stderr) == (0, b"")
    found: dict[str, list[str]] = {name: [] for name in VALUES[plugin]}
    for number, *values in (line.split("\t") for line in done.stdout.decode().splitlines()):
        for name, value in zip(found, values, strict=False):
            found[name] += [f"{number}={value.rstrip(',')}"] * (value != "")
    assert found == VALUES[plugin]


def test_rules_of_old_plugins() -> None:
    done = commands.run("lint", "--plugin", str(OLD / "first_rule.py"), CAPTURE, "--select", "ACM", "--format", "github")
    assert done.returncode == 1
    told = done.stdout.decode()
    for code, frame, message in (("ACME011", 6, "sensor 3: 90 °C is above 80 °C"), ("ACME013", 2, "0 retries"), ("ACME014", 8, "0xace")):
        assert any(code in line and f"frame {frame}:" in line and line.endswith(message) for line in told.splitlines()), (code, told)
