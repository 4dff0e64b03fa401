"""Every output is safe if a capture or its file name contains hostile text."""

from __future__ import annotations

import csv
import json
import os
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ibdissect import Capture
from ibdissect.wire.sm import NodeInfo
from tests import commands
from tests.craft import build, erf_pcap, smp
from tests.fuzz.container import pcapng

pytestmark = pytest.mark.slow

TEXTS: dict[str, bytes] = {
    "ansi": b"\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "eight-bit escapes": "\x9b31m\x85\x90".encode(),
    "rich markup": b"[bold red]x[/] [/nothing] [link=http://x]",
    "textual markup": b"[@click=app.quit]y[/]",
    "bidi": "\u202egpj.exe\u2066\u200f".encode(),
    "unseen": "a\u200b\u2060\ufeff\u00ad\U000e0041b".encode(),
    "html": b"<script>alert(1)</script>&amp;\"'",
    "formula": b"=1+1",
    "formula 2": b"@SUM(A1)",
    "formula 3": b"+1",
    "formula 4": b"-2+3",
    "tabbed formula": b"\t=1",
    "line ends": b"a\r\n::error::x\n]]>",
    "surrogate": "\ud800x".encode("utf-8", "surrogatepass"),
    "not UTF-8": b"\xff\xfe\x80",
    "no NUL": b"x" * 64,
    "templates": b"%s%d{0}$PATH`id`${jndi}",
    "no XML": "\ufffe\uffff\x0b\x01".encode(),
    "Graphviz": b'"];a[label="b\\',
    "SQL": b"'); DROP TABLE packets; --",
}
FILE_NAME = os.fsdecode(b"a\x1b[31m\xff\n<b>[red]\xe2\x80\xae='\".pcap")

ANSWERS = "infiniband.nodedescription and mad.method == 0x81"


def capture() -> bytes:
    """One node per text, as its NodeDescription; a wrong modifier in its SMP causes a finding."""
    frames = []
    for i, text in enumerate(TEXTS.values()):
        guid, path = 0x100 + i, [1, i + 1]
        info = build(NodeInfo, base_version=1, class_version=1, node_type=1, num_ports=1, node_guid=guid, port_guid=guid, local_port_num=1)
        frames += [smp(1, 0x11, path=path), smp(0x81, 0x11, info, path=path), smp(1, 0x10, path=path, modifier=i + 1)]
        frames.append(smp(0x81, 0x10, text[:64].ljust(64, b"\0"), path=path))
    return erf_pcap(frames)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("hostile")
    made = [os.path.join(folder, name) for name in ("plain.pcap", FILE_NAME)]
    for path in made:
        Path(path).write_bytes(capture())
    return made


def run(*words: str) -> bytes:
    """Standard output of a command that must succeed; standard error must be harmless, too."""
    done = commands.run(*words)
    assert done.returncode == 0, done.stderr
    harmless(done.stderr.decode())
    return done.stdout


def harmless(text: str, allowed: str = "\n") -> str:
    """Only printable characters and line ends."""
    assert {c for c in text if not c.isprintable()} <= set(allowed)
    return text


SHOWN = [("show", "--format", name) for name in ("summary", "tree", "dump", "dotted", "json", "jsonl", "scapy")]
SHOWN += [("show", "-e", "infiniband.nodedescription.nodestring", "-e", "_ws.col.info"), ("stats",), ("stats", "--format", "json")]
SHOWN += [("fabric",), ("fabric", "--format", "json"), ("fabric", "--dot")]
LINTED = [("lint", "--fail-on", "never", "--format", name) for name in ("text", "json", "jsonl", "sarif", "junit", "github")]


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_text(words: tuple[str, ...], paths: list[str]) -> None:
    done = commands.run(words[0], paths[0], *words[1:])
    assert done.returncode == 0, done.stderr
    text = harmless(done.stdout.decode(), "\n\t" if "-e" in words else "\n")
    if words[0] == "show" and "summary" not in words and "_ws.col.info" not in words:
        for said in ("[@click=app.quit]y[/]", "\\x1b[31mred", "::error::x"):
            assert said in text or json.dumps(said)[1:-1] in text or said.replace("\\x1b", "\\u001b") in text


@pytest.mark.parametrize("words", LINTED, ids=" ".join)
def test_findings_of_a_hostile_path(words: tuple[str, ...], paths: list[str]) -> None:
    text = harmless(run(words[0], paths[1], *words[1:]).decode())
    form = words[-1]
    if form == "json":
        report = json.loads(text)
        assert os.fsencode(report["captures"][0]["path"]) == os.fsencode(paths[1]) and report["findings"]
    elif form == "sarif":
        results = json.loads(text)["runs"][0]["results"]
        assert results and "%FF" in results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    elif form == "junit":
        assert int(ET.fromstring(text).attrib["tests"]) > 0
    elif form == "github":
        assert all(re.fullmatch(r"::(error|warning|notice) file=[^:,]*,title=[^:,]*::.*", line) for line in text.splitlines())


def test_json_keeps_the_texts(paths: list[str]) -> None:
    said = set()
    for line in run("show", paths[1], "--format", "jsonl", "-Y", ANSWERS).splitlines():
        said |= {field["value"] for field in fields_of(json.loads(line)["layers"]) if field["name"].endswith("nodestring")}
    assert said == {text[:64].split(b"\0")[0].decode("utf-8", "replace") for text in TEXTS.values()}


def fields_of(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [field for layer in layers for field in layer.get("fields", ())]


def test_tables(paths: list[str], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    target = tmp_path / "x.csv"
    run("export", paths[1], "--output", str(target), "-e", "infiniband.nodedescription.nodestring", "-Y", ANSWERS)
    rows = list(csv.reader(target.read_text(encoding="utf-8").splitlines()))[1:]
    assert len(rows) == len(TEXTS)
    for (cell,) in rows:
        harmless(cell)
        assert cell.lstrip()[:1] not in "=+-@" or not cell
    run("export", paths[1], "--findings", "--output", str(target))
    harmless(target.read_text(encoding="utf-8"))


@commands.NEEDS_DUCKDB
def test_sql(paths: list[str]) -> None:
    name = "nodedescription_nodestring"
    query = f"select {name} from packets where {name} is not null"
    ask = ("sql", paths[1], query, "-Y", ANSWERS, "-e", "infiniband.nodedescription.nodestring")
    for form in ("text", "csv", "jsonl"):
        out = harmless(run(*ask, "--format", form).decode())
        assert "gpj.exe" in out
    cells = [row[0] for row in csv.reader(run(*ask, "--format", "csv").decode().splitlines())][1:]
    assert len(cells) == len(TEXTS) and not [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@")]


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, " ".join(f"{name}={value}" for name, value in attrs)))


def test_notebooks(paths: list[str]) -> None:
    """Cells of a notebook hold our tags only; names of the capture, the file and the filter are text in them."""
    tags = Tags()
    with Capture(paths[1]) as opened:
        names = opened.table().select("infiniband.nodedescription.nodestring")
        cells = [opened, names.filter(ANSWERS), names.filter('frame matches "<b>x"'), opened.frame(1), opened.findings()]
        for cell in (*cells, *(opened.dissect(frame + 1) for frame in range(4 * len(TEXTS)))):
            tags.feed(harmless(cell._repr_html_()))
            harmless(repr(cell))
    style = "style=text-align:left"
    assert tags.found == {
        ("table", ""), ("caption", ""), ("tr", ""), ("th", style), ("td", style), ("p", ""), ("pre", "style=font-family:monospace")
    }  # fmt: skip


def test_graph(paths: list[str]) -> None:
    """A node's name stays within its quotes: outside of them, brackets and quotes are balanced."""
    text = run("fabric", paths[0], "--dot").decode()
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert '"' not in outside and outside.count("[") == outside.count("]") and outside.count("{") == outside.count("}") == 1
    assert "script" not in outside and "label" in outside


def test_comments(tmp_path: Path, paths: list[str]) -> None:
    """Comments of a pcapng are shown or copied without control characters."""
    frame = smp(1, 0x10, modifier=5)
    comment = b"\x1b[31m\xff\n=1"
    options = len(comment).to_bytes(2, "little") + comment + bytes(-len(comment) % 4) + bytes(4)
    path = tmp_path / "c.pcapng"
    path.write_bytes(pcapng([(247, frame, len(frame))], options=b"\1\0" + options))
    for words in (("show", "--format", "tree"), ("show", "--format", "jsonl"), ("lint", "--fail-on", "never")):
        harmless(run(words[0], str(path), *words[1:]).decode())
    target = tmp_path / "a.pcapng"
    run("annotate", paths[1], "--output", str(target))
    run("annotate", str(path), "--output", str(target))
    assert b"AM0" in target.read_bytes()


@pytest.mark.parametrize("words", [("show", "missing"), ("lint", "missing"), ("show", "{}", "-Y", "x\x1b[31m == 1"), ("stats", "missing")])
def test_errors(words: tuple[str, ...], paths: list[str]) -> None:
    """A message that contains a name escapes it."""
    named = [FILE_NAME if word == "missing" else word.format(paths[0]) for word in words]
    done = commands.run(*named)
    assert done.returncode == 2 and not done.stdout
    said = harmless(done.stderr.decode())
    assert "\\x1b" in said and "Traceback" not in said
