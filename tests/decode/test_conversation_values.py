"""Each PDU is read by what its own conversation has shown before it, whatever the window, and by nothing where nobody knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect.errors import SpecError
from ibdissect.wire.tail import length_of
from ibdissect.words import Stream, Struct, TcpPort, kept, raw, uint
from tests import commands
from tests.craft import build, ethernet_pcap, roce2

PLUGIN = str(Path(__file__).parents[2] / "docs/examples/versions.py")
OLD = bytes.fromhex("0007")
NEW = bytes.fromhex("00000009cafebabe")
ROWS = b"\0\x11\0\x22"


def hello(version: int, more: int = 0) -> bytes:
    return bytes([1, 0, version, more])


def ask(op: int, tag: int) -> bytes:
    return bytes([op, tag, 2]) + b"ab"


def reply(tag: int, value: bytes, rest: bytes = b"") -> bytes:
    return bytes([4, tag, 0]) + value + rest


def frame(host: int, data: bytes, *, port: int = 9000) -> bytes:
    """From host 1 to host 2 or back; `port`: of host 1."""
    ports = (port, 7800) if host == 1 else (7800, port)
    udp = build("UDP", source_port=ports[0], destination_port=ports[1], length=8 + len(data)) + data
    ip = build(
        "IPv4", version=4, header_length=5, total_length=20 + len(udp), ttl=64, protocol=17, source=bytes([10, 0, 0, host]),
        destination=bytes([10, 0, 0, 3 - host]),
    )  # fmt: skip
    return build("Ethernet", source=b"\2\0\0\0\0\1", destination=b"\2\0\0\0\0\2", type=0x0800) + ip + udp


def capture(path: Path, *frames: bytes) -> str:
    path.write_bytes(ethernet_pcap(frames))
    return str(path)


def shown(path: str, *names: str) -> dict[int, list[str]]:
    """The values of each frame that has any."""
    with ibdissect.open(path, plugins=[PLUGIN], show_keys=False) as one:
        trees = {number: one.dissect(number) for number in range(1, len(one) + 1)}
        found = {number: [str(tree[name]) for name in names if name in tree] for number, tree in trees.items()}
    return {number: values for number, values in found.items() if values}


def columns(path: str, *names: str) -> list[list[str]]:
    done = commands.run("show", "--plugin", PLUGIN, path, *(part for name in ("frame.number", *names) for part in ("-e", name)))
    assert done.returncode == 0, done
    return [line.split("\t") for line in done.stdout.decode().splitlines() if line.strip("\t").count("\t")]


TALK = (
    frame(1, hello(1)), frame(2, hello(2)), frame(1, ask(2, 5)), frame(2, reply(5, OLD)), frame(2, ask(2, 5)), frame(1, reply(5, NEW)),
)  # fmt: skip
"""Each side reads what the other's hello allows."""


@pytest.mark.slow
def test_the_other_sides_hello_decides(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", *TALK)
    assert shown(path, "acme.old.value", "acme.new.value") == {4: ["7"], 6: ["9"]}
    assert columns(path, "acme.old.value", "acme.new.value") == [["4", "7", ""], ["6", "", "9"]]
    assert columns(path, "acme.new.key")[-1] == ["6", "Owner_Key#1"]


def test_the_request_decides(tmp_path: Path) -> None:
    lists, reads = frame(1, ask(3, 8)), frame(1, ask(2, 9))
    answers = frame(2, reply(9, OLD, ROWS)), frame(2, reply(8, OLD, ROWS))
    assert columns(capture(tmp_path / "a.pcap", TALK[0], lists, reads, *answers), "acme.pdu.row") == [["5", "17,34"]]


def test_another_conversation_has_shown_nothing(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", *TALK, frame(2, reply(5, OLD), port=9001), frame(1, reply(5, NEW), port=9001))
    assert [row[0] for row in columns(path, "acme.old.value", "acme.new.value")] == ["4", "6"]


def test_what_is_unknown_is_said_and_its_key_hidden(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", *TALK[2:])
    done = commands.run("show", "--plugin", PLUGIN, path, "--format", "tree")
    told = done.stdout.decode()
    assert done.returncode == 0 and "cafe" not in told.replace(" ", "")
    assert "acme.hello.version" in told, told
    with ibdissect.open(path, plugins=[PLUGIN]) as one:
        assert "cafe" not in "".join(str(node.text) for node in one.dissect(4).walk()).replace(" ", "").lower()


def test_what_comes_later_does_not_count(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", TALK[3], *TALK)
    assert [row[0] for row in columns(path, "acme.old.value")] == ["5"]


@pytest.mark.slow
def test_a_hello_that_changes_the_version(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", *TALK[:4], frame(1, hello(2)), frame(2, reply(5, NEW)))
    assert shown(path, "acme.old.value", "acme.new.value") == {4: ["7"], 6: ["9"]}


CHANGES = 32
"""Latest changes of one value that are known."""


@pytest.mark.parametrize(("changes", "known"), [(CHANGES, True), (CHANGES + 1, False)])
def test_changes_beyond_the_bound_make_what_was_before_unknown(tmp_path: Path, changes: int, known: bool) -> None:
    more = [frame(1, hello(1 + i % 2)) for i in range(1, changes)]
    path = capture(tmp_path / "a.pcap", TALK[0], TALK[2], TALK[3], *more)
    assert ([row[0] for row in columns(path, "acme.old.value")] == ["3"]) == known


@pytest.mark.slow
def test_windows_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = capture(tmp_path / "a.pcap", *TALK)
    whole = columns(path, "acme.old.value", "acme.new.value")
    with ibdissect.open(path, plugins=[PLUGIN]) as one:
        found = [
            (table.chunk.first, name) for table in one.tables(edges=range(2, 7))
            for name in ("Old", "New") for struct in one.catalog.structs if struct.__name__ == name
            for _ in range(len(table.occurrences(struct)))
        ]  # fmt: skip
    assert [row[0] for row in whole] == ["4", "6"] and found == [(4, "Old"), (6, "New")]


def test_a_text_of_an_agreed_size(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", frame(1, hello(1)), frame(2, hello(1, 3)), frame(2, reply(5, OLD, b"end")))
    assert columns(path, "acme.pdu.trailer") == []  # the reply has no request: nobody knows whether rows come first
    path = capture(tmp_path / "b.pcap", frame(1, hello(1)), frame(2, hello(1, 3)), TALK[2], frame(2, reply(5, OLD, b"end")))
    assert columns(path, "acme.pdu.trailer") == [["4", "end"]]


@pytest.mark.parametrize("option", [["tree"], ["json"], ["tree", "-Y", "acme.new.value == 9"], ["tree", "--frames", "6"]])
def test_every_output_reads_the_same(tmp_path: Path, option: list[str]) -> None:
    done = commands.run("show", "--plugin", PLUGIN, capture(tmp_path / "a.pcap", *TALK), "--format", *option)
    assert done.returncode == 0 and "Owner_Key#1" in done.stdout.decode() and "cafe" not in done.stdout.decode()


def test_a_rule_sees_what_the_conversation_decided(tmp_path: Path) -> None:
    (tmp_path / "rule.toml").write_text(
        '[[rule]]\ncode = "ACME090"\nname = "nine"\nseverity = "error"\nwhen = "acme.new.value == 9"\nmessage = "nine"\n'
    )
    path = capture(tmp_path / "a.pcap", *TALK, roce2())
    done = commands.run("lint", "--plugin", PLUGIN, "--plugin", str(tmp_path / "rule.toml"), "--select", "ACME090", path)
    assert done.returncode == 1 and "6" in done.stdout.decode()


def test_scrub_hides_the_key(tmp_path: Path) -> None:
    path, out = capture(tmp_path / "a.pcap", *TALK), tmp_path / "out.pcap"
    assert commands.run("scrub", "--plugin", PLUGIN, path, "-o", str(out)).returncode == 0
    assert b"\xca\xfe\xba\xbe" not in out.read_bytes()


def test_a_view_reads_by_its_conversation(tmp_path: Path) -> None:
    with ibdissect.open(capture(tmp_path / "a.pcap", *TALK), plugins=[PLUGIN]) as one:
        value: Any = next(struct for struct in one.catalog.structs if struct.__name__ == "Value")
        read = [table.view(value, i).value for table in one.tables() for i in range(len(table.occurrences(value)))]
        assert read == [OLD, NEW]
        assert value(b"\0" + OLD).value is None  # bytes without a conversation


def test_wrong_words_are_refused() -> None:
    class Told(Struct):
        prefix, key, section, size = "zz", "told", "ZZ 1", 4
        number = uint(16, "Number")
        blob = raw(2, "Blob")

    with pytest.raises(SpecError, match="no number"):
        kept(Told.blob)
    with pytest.raises(SpecError, match="neither"):
        kept(Told.number, way="back")
    with pytest.raises(SpecError, match="own fields"):
        length_of(Told, Stream(TcpPort(7), length=kept(Told.number)).length)
