"""Keys in the hits of a plugin's handler, and how they are hidden. Compared with the key's bytes in what `lint` prints."""

from __future__ import annotations

from pathlib import Path

from tests import commands
from tests.cases import few
from tests.craft import ethernet_pcap
from tests.transport.test_tcp_streams import KEY, PLUGIN, opening, pdu, segment

LEAST = 0xFFFF

NUMBER = int.from_bytes(KEY, "big")
RULE = """
from ibdissect.lint.rule import DeferredHit, Rule, fault, on_chunk, on_end, on_struct


class Told(Rule):
    "A key is told. Why. What to do."
    code, name, message, example, reference = "TCX001", "key-told", "{what}; {view.token}; {more}", "any", "X 1"

    @on_struct(Pdu)
    def look(self, view, seen):
        key = self.key = view.token
        assert key == 0xcafebabe and type(int(key)) is int and {key: 1}[0xcafebabe]
        for what in (key, int(key), [key], str(key), hex(key), f"{key:#x}!", f"{int(key)}", key.to_bytes(4, "big"), {1: int(key)}):
            yield fault(seen, {"what": what, "view": view, "more": 7}, proof=[(1, hex(key))])

    @on_chunk
    def window(self, table, context):
        values = table.shown.values(Pdu.token)
        row = type("", (), {"frame": 2, "time_ns": 0})()
        yield fault(row, {}, message=f"first key {values[0]}")

    @on_chunk
    def later(self, table, context):
        key = int(self.key)
        yield DeferredHit(frame=2, key="one", proof=[(1, f"showed {key:#x}")], make=lambda: fault(
            type("", (), {"frame": 2, "time_ns": 0})(), {"what": key}, message=f"made later: {{what}}, key {key:#x}", key="one"))

    @on_end
    def end(self, context):
        row = type("", (), {"frame": 2, "time_ns": 0})()
        yield fault(row, {}, message=f"last key {int(self.key):x}")


class Another(Rule):
    "A number that is no key is told. Why. What to do."
    code, name, message, example, reference = "TCX002", "number-told", "another number: {what}", "any", "X 1"

    @on_struct(Pdu)
    def look(self, view, seen):
        key, other = int(view.token), int(view.token) + 1
        no_keys = other, [7, other], (7, other), {other}, {1: other}, other.to_bytes(4, "big").hex(), frozenset([other])
        for what in ((7, key), {7, key}, frozenset([key]), *no_keys):
            yield fault(seen, {"what": what})
"""


def test_keys_in_hits_of_handlers_are_masked(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(PLUGIN + RULE)
    (tmp_path / "x.pcap").write_bytes(ethernet_pcap([*opening(), segment(pdu(10), 1000)]))
    forms = ("text", "concise", "json", "github")
    words = ("lint", "--plugin", str(tmp_path / "x.py"), str(tmp_path / "x.pcap"), "--select", "TCX")

    def told(*more: str) -> tuple[dict[str, str], str]:
        """What each form of output says, and standard error."""
        done = commands.run(*words, *(f"--output-file={form}={tmp_path / form}" for form in forms), *more, text=True)
        assert done.returncode == 1, done
        return {form: (tmp_path / form).read_text(encoding="utf-8") for form in forms}, done.stderr

    found, errors = told()
    assert "X_Key#1" in found["text"] and "cafebabe" not in found["text"].lower() and str(NUMBER) not in found["text"]
    for form in forms[1:]:
        assert "X_Key#1" in found[form] and "last key (hidden)" in found[form], form
        said = (found[form] + errors).lower()
        assert "cafebabe" not in said and str(NUMBER) not in said and "made later: x_key#1, key (hidden)" in said, form
        assert said.count("another number") >= 7 and said.count(str(NUMBER + 1)) >= 6 and f"{NUMBER + 1:x}" in said, "no key"
    found, _ = told("--show-keys")
    for form in forms[1:]:
        assert "cafebabe" in found[form] and str(NUMBER) in found[form] and "hidden" not in found[form], form


SMALL = """
class Small(Rule):
    "A number is told. Why. What to do."
    code, name, message, example, reference = "TCX003", "number-told", "{key} or {other}, {truth} {half}", "any", "X 1"

    @on_struct(Pdu)
    def look(self, view, seen):
        number = int(view.token)
        yield fault(seen, {"key": number, "other": number + 1, "truth": True, "half": 2.5})
"""


@few(("number", "is_key"), [(1, False), (LEAST, False), (LEAST + 1, True)], fast=(1, 2))
def test_numbers_that_are_equal_to_a_key(number: int, is_key: bool, tmp_path: Path) -> None:
    """Small ones may be anything, and are told."""
    (tmp_path / "x.py").write_text(PLUGIN + RULE[: RULE.index("class Told")] + SMALL)
    body = pdu(10).replace(KEY, number.to_bytes(4, "big"))
    (tmp_path / "x.pcap").write_bytes(ethernet_pcap([*opening(), segment(body, 1000)]))
    words = ("lint", "--plugin", str(tmp_path / "x.py"), str(tmp_path / "x.pcap"), "--select", "TCX003", "--format", "github")
    said = commands.run(*words, text=True).stdout
    assert said.rstrip().endswith(f"{'X_Key#1' if is_key else number} or {number + 1}, True 2.5"), said
