"""A vendor's plugin without any function shows all that its captures hold, and hides its keys where they are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

import ibdissect
from tests import commands

FOLDER = Path(__file__).parents[1] / "docs/examples/zed"
PLUGIN = str(FOLDER / "zed.py")
KEY = ("cafe", "babe", "3405691582")


def values(capture: str, name: str) -> list[str]:
    """Of each frame that has any: its number and the values."""
    done = commands.run("show", "--plugin", PLUGIN, str(FOLDER / capture), "-e", "frame.number", "-e", name)
    assert done.returncode == 0, done
    return ["=".join(line.split("\t")) for line in done.stdout.decode().splitlines() if not line.endswith("\t")]


VALUES = {
    ("zed.pcap", "zed.lane.lane"): ["1=1,2"], ("zed.pcap", "zed.lane.errors"): ["1=5,70"],
    ("zed.pcap", "zed.inventory.name"): ["1=spine-7/leaf-3"], ("zed.pcap", "zed.tlv.type"): ["1=1,2,9"],
    ("zed.pcap", "zed.optics.wavelength"): ["1=850"], ("zed.pcap", "zed.power.watts"): ["1=7"],
    ("badlen.pcap", "zed.inventory.serial"): ["1=0x0000dead"], ("badlen.pcap", "zed.tlv.type"): [], ("badlen.pcap", "zed.lane.errors"): [],
    ("stream.pcap", "zed.item.size"): ["6=300,250", "9=100,100", "11=10,10"],
    ("stream2.pcap", "zed.pdu.length"): ["6=552", "9=212", "11=20,20"],
    ("udp.pcap", "zed.item.text"): ["1=udp"], ("zed.pcap", "zed.lane.isup"): ["1=1,0"],
}  # fmt: skip


@pytest.mark.parametrize(("capture", "name"), VALUES)
def test_values(capture: str, name: str) -> None:
    assert values(capture, name) == VALUES[capture, name]


@pytest.mark.parametrize(("capture", "size"), [("stream.pcap", 300), ("stream2.pcap", 340)])
def test_a_filter_finds_what_the_tree_shows(capture: str, size: int) -> None:
    found = commands.run("show", "--plugin", PLUGIN, str(FOLDER / capture), "-Y", f"zed.item.size == {size}", "-e", "frame.number")
    assert found.stdout.decode().split() == ["6"]


@pytest.mark.parametrize("capture", ["zed.pcap", "cut2.pcap", "badlen.pcap", "rmpp.pcap"])
@pytest.mark.parametrize("form", ["tree", "json", "dump"])
def test_the_key_is_hidden(capture: str, form: str) -> None:
    done = commands.run("show", "--plugin", PLUGIN, str(FOLDER / capture), "--format", form)
    assert done.returncode == 0, done
    shown = done.stdout.decode().lower().replace(" ", "")
    assert not [half for half in KEY if half in shown]
    if form == "json" and capture != "rmpp.pcap":
        clear = commands.run("show", "--plugin", PLUGIN, str(FOLDER / capture), "--format", form, "--show-keys").stdout.decode()
        assert "cafe" in clear


def test_the_plugin_has_no_function() -> None:
    text = (FOLDER / "zed.py").read_text(encoding="utf-8")
    assert "def " not in text and "lambda" not in text and "Parsed" not in text
    assert len(text.splitlines()) <= 80, "the plugin with functions has 161 lines"


def test_a_tree_gives_values_by_filter_name() -> None:
    with ibdissect.open(str(FOLDER / "zed.pcap"), plugins=[PLUGIN]) as capture:
        tree = capture.dissect(1)
    assert (tree["bth.psn"], tree["infiniband.bth.psn"]) == (0, 0)
    assert (tree["zed.lane.errors"], tree["zed.inventory.name"], tree["zed.optics.key"]) == (5, "spine-7/leaf-3", "Optics_Key#1")
    assert "zed.power.watts" in tree and "zed.item.size" not in tree
    with pytest.raises(KeyError):
        tree["zed.item.size"]
    with ibdissect.open(str(FOLDER / "stream.pcap"), plugins=[PLUGIN]) as capture:
        assert capture.dissect(6)["zed.item.size"] == 300  # of the message that the frame completes
