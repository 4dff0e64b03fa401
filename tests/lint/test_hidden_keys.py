"""Keys in the hits of a plugin's handler, and how they are hidden. Compared with the key's bytes in what `lint` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.lint.finding import Secret
from ibdissect.lint.hidden_keys import hide
from ibdissect.lint.rule import DeferredHit
from ibdissect.wire.keys_read import KeysRead
from ibdissect.words import Hit
from tests import commands
from tests.craft import ethernet_pcap
from tests.transport.test_tcp_streams import KEY, PLUGIN, opening, pdu, segment

LEAST = 0xFFFF

NUMBER = int.from_bytes(KEY, "big")
RULE = """
from ibdissect.lint.rule import Rule, fault, on_chunk, on_end, on_struct


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

    @on_end
    def end(self, context):
        row = type("", (), {"frame": 2, "time_ns": 0})()
        yield fault(row, {}, message=f"last key {int(self.key):x}")
"""


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_keys_in_hits_of_handlers_are_masked(tmp_path: Path, form: str) -> None:
    (tmp_path / "x.py").write_text(PLUGIN + RULE)
    (tmp_path / "x.pcap").write_bytes(ethernet_pcap([*opening(), segment(pdu(10), 1000)]))
    words = ("lint", "--plugin", str(tmp_path / "x.py"), str(tmp_path / "x.pcap"), "--select", "TCX", "--format", form)
    done = commands.run(*words, text=True)
    assert done.returncode == 1 and "X_Key#1" in done.stdout and "last key (hidden)" in done.stdout, done
    said = (done.stdout + done.stderr).lower()
    assert "cafebabe" not in said and str(NUMBER) not in said
    shown = commands.run(*words, "--show-keys", text=True).stdout
    assert "cafebabe" in shown and str(NUMBER) in shown and "hidden" not in shown


@pytest.mark.parametrize(("value", "is_key"), [(LEAST, False), (LEAST + 1, True), (LEAST + 2, False), (True, False), (2.5, False)])
def test_numbers_that_are_equal_to_a_key(value: object, is_key: bool) -> None:
    keys = KeysRead()
    keys.note("X_Key", 32, (1, LEAST, LEAST + 1))
    hit = hide(Hit(frame=1, time_ns=0, arguments={"n": value}), keys)
    assert isinstance(hit, Hit) and (hit.arguments["n"] != value) == is_key


def test_a_hit_that_is_made_later_hides_its_keys_then() -> None:
    """What it says before, its proof, hides them at once."""
    keys = KeysRead()
    keys.note("X_Key", 32, (NUMBER,))
    made: list[int] = []

    def make() -> Hit:
        made.append(1)
        return Hit(frame=1, time_ns=0, arguments={"what": NUMBER}, message=f"key {NUMBER:#x}")

    deferred = hide(DeferredHit(frame=1, key=None, make=make, proof=[(1, f"showed {NUMBER:#x}")]), keys)
    assert isinstance(deferred, DeferredHit) and not made and [why for _, why in deferred.proof] == ["showed (hidden)"]
    hit = deferred.make()
    assert hit.arguments == {"what": Secret("X_Key", NUMBER, 32)} and hit.message == "key (hidden)" and made == [1]


@pytest.mark.parametrize("make", [bytes, list, tuple, set, frozenset, dict])
@pytest.mark.parametrize("shown", [False, True])
def test_keys_within_other_values(make: type, shown: bool) -> None:
    """What holds none stays as it is, whatever its type."""
    keys, number = KeysRead(), NUMBER + shown
    keys.note("X_Key", 32, (NUMBER,))
    value = number.to_bytes(4, "big") if make is bytes else {1: number} if make is dict else make([7, number])
    hit = hide(Hit(frame=1, time_ns=0, arguments={"n": value}, value=value), keys)
    assert isinstance(hit, Hit) and hit.value == hit.arguments["n"]
    if shown:
        assert hit.value is value
    else:
        assert isinstance(hit.value, str) and str(number) not in hit.value and f"{number:x}" not in hit.value
