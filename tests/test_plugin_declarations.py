"""Every mistake in a plugin's declarations is said when it is loaded, in one line that names the file, the class and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.errors import PluginError
from ibdissect.plugins import load
from tests import commands
from tests.craft import erf_pcap, gmp

IMPORTS = """\
from ibdissect.rules import *
from ibdissect.lint.rule import ERROR, Moment, Rule, fault, on_chunk, on_end, on_event
from ibdissect.wire.column import column
from ibdissect.wire.kept import kept
from ibdissect.wire.places import *
from ibdissect.wire.spec import *
from ibdissect.wire.tail import optional, repeat
"""
STRUCT = """\
class X(Struct):
    "An example."
    prefix, key, section, size = "bb", "x", "B", {size}
    carried_by = {place}
    {fields}
"""
RULE = """\
class R(Rule):
    "A fault. Why. What to do."
    code, name, severity, message, example = "BBB001", {name!r}, {severity}, {message!r}, "e"
    {body}
"""
HANDLER = "@on_chunk\n    def f(self, table, context):\n        "


def struct(fields: str = 'a = uint(16, "A")', place: str = "VendorOui(0xACE2, 0x32, 0x0100)", size: int = 2) -> str:
    return STRUCT.format(fields=fields, place=place, size=size)


def rule(body: str = "pass", name: str = "b-b", severity: str = "ERROR", message: str = "m") -> str:
    return RULE.format(body=body, name=name, severity=severity, message=message)


DECLARATIONS = {
    "empty label": (struct('a = uint(16, " ")'), "X.a: its label is empty"),
    "prefix": (struct().replace('"bb"', '"B B"'), "X.prefix: 'B B' is no part of a filter name"),
    "no bits": (struct('a = uint(0, "A")\n    b = uint(16, "B")'), "X.a: has 0 bits"),
    "negative bits": (struct('a = uint(-8, "A")\n    b = uint(24, "B")'), "X.a: has -8 bits"),
    "65 bits": (struct('a = uint(65, "A")\n    b = uint(7, "B")', size=9), "X.a: an integer has 1 to 64 bits, not 65; raw(8, ...)"),
    "rest not last": (struct('a = rest("A")\n    b = uint(16, "B")'), "X.a: holds the rest of the structure, so nothing can"),
    **{
        f"field {name}": (struct(f'{name} = uint(16, "A")'), f"X.{name}: every structure uses this name itself")
        for name in ("key", "title", "fields", "section", "buffer")
    },
    "values as a list": (struct('a = enum(16, ["a"], "A")'), "X.a: its values must be a table {number: name}, not ['a']"),
    "value as text": (struct('a = enum(16, {"1": "b"}, "A")'), "X.a: '1': 'b' is no name of a value of 16 bits"),
    "value too large": (struct('a = enum(16, {65536: "b"}, "A")'), "X.a: 65536: 'b' is no name of a value of 16 bits"),
    "one name twice": (struct('a = uint(16, "A")\n    b = uint(16, "A")', size=4), "X.b: has the filter name of a, bb.x.a"),
    "one key twice": (
        struct() + struct(place="VendorOui(0xACE2, 0x33)").replace("X(", "Y("),
        "Y.a: has the filter name of X.a, bb.x.a: give Y another key",
    ),
    "our key": (struct().replace('"bb", "x"', '"infiniband", "lrh"'), "X.key: infiniband.lrh is the name of LRH"),
    "one place twice": (
        struct() + struct().replace("X(", "Y(").replace('"x"', '"y"'),
        "Y.carried_by: VendorOui(oui=44258, mgmt_class=50, attr_id=256, methods=None) is that of X",
    ),
    "no place": (struct().replace("carried_by =", "caried_by ="), "X.caried_by: a structure has no such attribute, did you mean carried"),
    "place left out": (struct(place="()"), "X.carried_by: is missing, so the structure is found nowhere"),
    "no place but text": (struct(place='("UdpPort",)'), "X.carried_by: 'UdpPort' is not a place"),
    "UDP port 0": (struct(place="UdpPort(0)"), "UdpPort: port 0 is out of range: 1 to 65535"),
    "UDP port 65536": (struct(place="UdpPort(65536)"), "UdpPort: port 65536 is out of range"),
    "RoCE's port": (struct(place="UdpPort(4791)"), "UdpPort(4791) is RoCE v2's own port"),
    "OUI": (struct(place="VendorOui(1 << 24, 0x32)"), "VendorOui: oui 16777216 is out of range: 24 bits"),
    "class below": (struct(place="VendorOui(1, 0x2F)"), "only classes 0x30 to 0x4f have an OUI, not 0x2f"),
    "class above": (struct(place="VendorOui(1, 0x50)"), "only classes 0x30 to 0x4f have an OUI, not 0x50"),
    "queue pair": (struct(place="DestQP(1 << 24)"), "DestQP: qp 16777216 is out of range: 24 bits"),
    "Ethertype": (struct(place="Ethertype(0x5FF)"), "Ethertype: ethertype 1535 is out of range"),
    "condition": (
        struct() + struct(place="Inside(X.a, ((X.a, 1),))").replace("X(", "Y(").replace('"x"', '"y"'),
        "Y.carried_by: Inside: when (<Field X.a>, 1) must be (field, (value, value, ...))",
    ),
    "condition on a key": (
        struct('a = secret(16, "K", "A")') + struct(place="Inside(X.a, ((X.a, (1,)),))").replace("X(", "Y(").replace('"x"', '"y"'),
        "Y.carried_by: Inside: when: a is a key: what lies where would tell it",
    ),
    "place behind a key": (
        struct('a = secret(16, "K", "A")') + struct(place="Inside(X.a, skip=(X.a, 1, 0))").replace("X(", "Y(").replace('"x"', '"y"'),
        "Y.carried_by: Inside: a is a key: what lies where would tell it",
    ),
    **{
        f"a key decides: {part}": (struct(f'a = secret(16, "K", "A")\n    p = part(a, 3, 0, "P")\n    b = {part}'), "X.b: depends on ")
        for part in ('text(a, "B")', 'repeat(uint(8, "B"), count=p)', 'optional(a != 0, uint(8, "B"))', 'optional(p < 3, uint(8, "B"))')
    },
    "a key decides later": (
        struct('a = secret(16, "K", "A")\n    b = text(kept(a), "B")'),
        "kept: 'A' is a key: what lies where would tell it",
    ),
    "a key decides when": (
        struct('a = secret(16, "K", "A")\n    c = uint(8, "C")\n    b = text(kept(c, where=(c == 1) & (a > 2)), "B")', size=3),
        "kept: 'A' is a key: what lies where would tell it",
    ),
    "65537 bytes": (struct("a = raw(65537, 'A')", "UdpPort(5)", 65537), "X: has 65537 bytes, a structure has at most 65536"),
    "too large for a MAD": (struct("a = raw(233, 'A')", size=233), "X.size: 233 bytes do not fit into a MAD, whose data has at most 232"),
    "column": (struct() + 'c = column(X, "a", X.a + 1, "C")', "X: column 'a' has the filter name of field a"),
    "nothing": ("x = 1", "declares nothing: neither a structure"),
    "severity": (rule(HANDLER + "yield", severity='"error"'), "rule BBB001: severity 'error' is none of ERROR, WARNING, INFO"),
    "name": (rule(HANDLER + "yield", name="B b"), "rule BBB001: name 'B b' must be small letters"),
    "known name": (rule(HANDLER + "yield", name="limited-to-limited"), "rule BBB001: limited-to-limited is the name of PKY001"),
    "known code": (rule(HANDLER + "yield").replace("BBB001", "PKY001"), "rule PKY001 is already LimitedToLimited"),
    "no code": (rule(HANDLER + "yield").replace("BBB001", "B1"), "R: 'B1' is not a rule code"),
    "no handler": (rule(), "rule BBB001: has neither a condition (`when`) nor a handler"),
    "no docs": (rule(HANDLER + "yield").replace("A fault. Why. What to do.", " "), "rule BBB001: its docstring must say what the fault is"),
    "event as text": (rule('@on_event("Replied")\n    def f(self, event, context): yield'), "rule BBB001: f handles 'Replied'"),
    "arguments": (rule("@on_chunk\n    def f(self): yield"), "rule BBB001: f must take (self, table, context)"),
    "arguments at the end": (rule("@on_end\n    def f(self, table, context): yield"), "rule BBB001: f must take (self, context)"),
    "message": (rule(HANDLER + "yield", message="{"), "rule BBB001: its message is not a format string"),
    "keyword": (struct('a = uint(16, "A", att="0")'), "TypeError: Unexpected keyword argument 'att' (line 12)"),
    "another plugin": ("import zed_is_nowhere", "No module named 'zed_is_nowhere'; if that is another plugin, name it with --plugin"),
}


@pytest.mark.parametrize("mistake", DECLARATIONS)
def test_mistakes_are_said_at_load(mistake: str, tmp_path: Path) -> None:
    text, said = DECLARATIONS[mistake]
    path = tmp_path / "wrong.py"
    path.write_text(IMPORTS + text)
    with pytest.raises(PluginError) as caught:
        load([str(path)])
    assert said in str(caught.value) and str(caught.value).startswith(f"plugin {path}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        struct(), struct(place="(UdpPort(1), UdpPort(65535))"), struct(place="VendorOui(0xFFFFFF, 0x4F, 0xFFFF)"),
        struct('a = uint(64, "A")\n    b = enum(8, {255: "b"}, "B")\n    c = rest("C")', size=9),
        struct() + struct(place="Inside(X.a, ((X.a, range(3)),))").replace("X(", "Y(").replace('"x"', '"y"'),
        struct("a = raw(65536, 'A')", "UdpPort(5)", 65536),
        struct("a = raw(232, 'A')", size=232), rule(HANDLER + "yield"), struct() + 'c = column(X, "b", X.a + 1, "C")',
    ],
)  # fmt: skip
def test_what_is_right_is_taken(text: str, tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(IMPORTS + text)
    loaded = load([str(tmp_path / "right.py")])
    assert loaded.rules or any(struct.__name__ == "X" for struct in loaded.catalog.structs)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(erf_pcap([gmp(0x32, 0x81, 0x0100, bytes.fromhex("0000ace200030000"), at=36)]))
    return path


PARSED = struct('n = uint(16, "N")\n    body = rest("Body")') + (
    'def find(data):\n    {}\nclass Y(Struct):\n    "y"\n    prefix, key, size = "bb", "y", 1\n'
    '    carried_by = Parsed(X.body, find)\n    b = uint(8, "B")\n'
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("pass", "TypeError: it returned nothing; write `yield`, or return a list"),
        ("return ['a']", "TypeError: it gave str, not a start"),
        ("return [(0, None)]", "TypeError: it gave tuple, not a start"), ("yield -1", "ValueError: it gave -1; bytes are counted from 0"),
        ("return [0, 0]", "ValueError: it gave bytes 0 to 0 and 0 to 0, which overlap"),
        ("return range(4097)", "ValueError: it gave more than 4096 results"), ("raise OSError('x')", "OSError: x"),
    ],
)  # fmt: skip
def test_functions_that_fail_end_every_command_with_2(body: str, said: str, capture: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "fails.py"
    plugin.write_text(IMPORTS + PARSED.format(body))
    shown = ("show", "--format", "tree"), ("show", "-Y", "bb.y.b == 1"), ("export", "-e", "bb.y.b", "-o", str(tmp_path / "a.csv"))
    for words in (*shown, ("stats",), ("diagnose",), ("fabric",), ("lint",)):
        done = commands.run(*words, "--plugin", str(plugin), str(capture), text=True)
        assert done.returncode == 2 and f"plugin function find ({plugin}:" in done.stderr.partition("\n")[0], words
        assert said in done.stderr and "Traceback" not in done.stderr and "at the end" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    ["X.a.show = lambda value: 1 // 0", 'c = column(X, "c", lambda x: x.nope, "C")', 'c = column(X, "c", lambda x: "s", "C")'],
)
def test_functions_that_nothing_asks_for_fail_too(more: str, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(IMPORTS + struct() + more + "\n")
    done = commands.run("stats", "--plugin", str(tmp_path / "fails.py"), str(capture), text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: plugin function <lambda> (") and done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("captures", [1, 2])
def test_functions_that_fail_in_other_processes_end_the_command_with_2(captures: int, capture: Path, tmp_path: Path) -> None:
    plugin, target = tmp_path / "fails.py", tmp_path / ("a.csv" if captures == 1 else "dataset")
    plugin.write_text(IMPORTS + PARSED.format("raise OSError('x')"))
    more = () if captures == 1 else ("--partition-by", "capture")
    words = ("-e", "bb.y.b", "-o", str(target), "--jobs", "2", "--plugin", str(plugin), *more)
    done = commands.run("export", *[str(capture)] * captures, *words, text=True)
    assert done.returncode == 2, done
    assert done.stderr.count(f"error: plugin function find ({plugin}:") == 1 and "Traceback" not in done.stderr


@pytest.mark.slow
def test_as_many_results_as_there_may_be(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "most.py").write_text(IMPORTS + PARSED.format("return range(4096)"))
    assert commands.run("show", "--format", "tree", "--plugin", str(tmp_path / "most.py"), str(capture)).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("yield fault(Moment(2, 0), {})", "ValueError: f reports frame 2, which was not read"), ("pass", "TypeError: f returned nothing"),
        ("yield fault(Moment(-1, 0), {})", "ValueError: f reports frame -1"), ("yield 'x'", "TypeError: f gave str, which is no hit"),
        ("yield fault(Moment(1, 0), {'bar': 1})", "KeyError: 'the message names foo, but the hit gives bar'"),
    ],
)  # fmt: skip
def test_handlers_that_fail_are_named(body: str, said: str, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(IMPORTS + rule(HANDLER + body, message="{foo}"))
    done = commands.run("lint", "--plugin", str(tmp_path / "fails.py"), "--select", "BBB", str(capture), text=True)
    assert done.returncode == 2 and "rule BBB001 failed in frame 1: " in done.stderr and said in done.stderr


@pytest.mark.slow
def test_plugins_import_each_other_and_toml_uses_them_whatever_the_order(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "first_of_two.py").write_text(IMPORTS + "print('hello')\n" + struct())
    body = "on, when, at = first_of_two.X, first_of_two.X.a == 3, first_of_two.X.a"
    (tmp_path / "second_of_two.py").write_text(IMPORTS + "import first_of_two\n" + rule(body, message="a is {a}"))
    (tmp_path / "own.toml").write_text('[[rule]]\ncode = "BBB002"\nname = "three"\nwhen = "bb.x.a == 3"\nmessage = "{bb.x.a}"\n')
    names = ("own.toml", "second_of_two.py", "first_of_two.py")
    for order in (names, names[::-1]):
        words = [word for name in order for word in ("--plugin", str(tmp_path / name))]
        done = commands.run("lint", *words, "--select", "BBB", "--format", "json", str(capture), text=True)
        assert '"BBB001": 1' in done.stdout and '"BBB002": 1' in done.stdout and done.returncode == 1
        assert done.stdout.startswith("{") and done.stderr == "hello\n"


def test_sets_and_lists_are_places_too_and_nothing_lies_in_itself(tmp_path: Path) -> None:
    place = "CmService(7, messages={0x10, 0x13}), VendorOui(0xACE2, 0x32, 0x0100, methods=[0x81])"
    path = tmp_path / "a.py"
    path.write_text(IMPORTS + struct(place=place))
    assert len(load([str(path)]).catalog.of_vendors)
    inner = (
        "from ibdissect.wire.tail import case, choice, repeat\n"
        + STRUCT.format(size=1, place="()", fields='a = uint(8, "A")\n    b = choice(a, {}, "B")')
        + 'class Y(Struct):\n    "y"\n    prefix, key = "bb", "y"\n    carried_by = case(X.b, 1)\n    c = repeat(nested(X, "C"))\n'
    )
    path = tmp_path / "b.py"
    path.write_text(IMPORTS + inner)
    with pytest.raises(PluginError, match="X: may lie in itself, through Y; declare another structure for the inner one"):
        load([str(path)])
