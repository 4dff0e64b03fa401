"""A plugin's words about its structures stand in the Info column and the tree, with names of its management class, and only its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ibdissect.errors import PluginError
from ibdissect.plugins import load
from tests import commands
from tests.craft import erf_pcap, gmp, ud
from tests.talk import PLUGIN, capture


def show(path: Path | str, *words: str) -> str:
    done = commands.run("show", "--plugin", PLUGIN, str(path), *words, text=True)
    assert done.returncode == 0, done
    return str(done.stdout)


def test_the_info_column(tmp_path: Path) -> None:
    lines = show(capture(tmp_path / "a.pcapng", ("1:read", 5, 0), ("2:reply", 5, 1))).splitlines()
    assert [line.partition("ACME")[2].split(maxsplit=1)[1] for line in lines] == [
        "read tag 5 (UD SEND Only QP 0x000ace PSN 1 from QP 0x000ace len 8)",
        "reply tag 5 (UD SEND Only QP 0x000ace PSN 1 from QP 0x000ace len 8)",
    ]


@pytest.mark.parametrize(("tag", "celsius", "notes"), [(1, 70, ""), (1, 71, "too hot"), (0, 71, "too hot; tag 0 is reserved")])
def test_notes(tag: int, celsius: int, notes: str, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcapng", ("1:read", tag, 0), celsius=celsius)
    tree = show(path, "--format", "tree").splitlines()
    assert [line.split(":", 1)[1].strip() for line in tree if "Note:" in line] == [notes] * bool(notes)
    (layer,) = (one for one in json.loads(show(path, "--format", "jsonl"))["layers"] if one["layer"] == "Talk")
    assert [one["text"] for one in layer["fields"] if one["label"] == "Note"] == [notes] * bool(notes)
    assert show(path, "-Y", 'acme.talk.note contains "hot"', "-e", "frame.number").split() == ["1"] * (celsius > 70)


@pytest.mark.parametrize(("oui", "ours"), [("00ace2", True), ("00ace3", False)])
def test_names_of_a_management_class(oui: str, ours: bool, tmp_path: Path) -> None:
    body = bytes.fromhex("00" + oui)
    (tmp_path / "a.pcap").write_bytes(erf_pcap([gmp(0x32, 0x81, 0x0200, body, at=36, header={"status": 0x0500})]))
    line, tree = show(tmp_path / "a.pcap"), show(tmp_path / "a.pcap", "--format", "tree")
    assert ('"text": "Fans (0x0200)"' in show(tmp_path / "a.pcap", "--format", "jsonl")) == ours
    assert ("AcmeReply(Fans) status: a fan is broken" in line) == ours
    assert ("VendGetResp(attribute 0x0200) status: class-specific status 5" in line) == (not ours)
    for text in ("Reply (0x81)", "Fans (0x0200)", "0x0500 (a fan is broken)"):
        assert (text in tree) == ours
    for text in ("GetResp (0x81)", "0x0500 (class-specific status 5)"):
        assert (text in tree) == (not ours)


WRONG = {
    ('summary("{op} tag {tag}")', 'summary("{op} tag {tog}")'): "Talk: its summary names 'tog', which is none of its fields",
    ("answer(asks=op == 1, when=op == 2, by=tag)", "answer(asks=op == 1, by=tag)"): "Talk: answer() of one structure needs both",
    ("when=op == 2, by=tag)", "when=op == 2, by=BTH.psn)"): "Talk: answer(by=...): <Field BTH.psn> is no field of Talk",
    ('note(celsius > 70, "too hot")', 'note(BTH.psn > 70, "hot")'): "Talk.note 'hot': <Field BTH.psn> is no field of this structure",
}


@pytest.mark.parametrize("change", WRONG)
def test_mistakes(change: tuple[str, str], tmp_path: Path) -> None:
    text = Path(PLUGIN).read_text(encoding="utf-8").partition("class TagAgain")[0]
    assert change[0] in text
    (tmp_path / "wrong.py").write_text("from ibdissect.wire.headers import BTH\n" + text.replace(*change), encoding="utf-8")
    with pytest.raises(PluginError) as caught:
        load([str(tmp_path / "wrong.py")])
    assert WRONG[change] in str(caught.value)


WITH_KEYS = """
from ibdissect.words import *

class Inner(Struct):
    prefix, key, section, size = "zed", "inner", "Z 1", 4
    key_ = secret(32, "Zed_Key", "Inner Key", at="0")

class Outer(Struct):
    prefix, key, section, size = "zed", "outer", "Z 2", 10
    carried_by = DestQP(0xACE)
    kind = uint(8, "Kind", at="0")
    named = uint(32, "Named", at="1", secret="Zed_Key", values={0xCAFEBABE: "the one of the factory"})
    inner = nested(Inner, "Inner", at="5")
    length = uint(8, "Length", at="9")
    name = text(length, "Name")
    body = choice(kind, {1: Inner}, "Body")
    more = optional(kind == 2, secret(32, "Zed_Key", "More"))
    info = summary("named {named}, inner {inner}, name {name}, body {body}{more}.")
"""


def test_it_tells_no_key(tmp_path: Path) -> None:
    """Neither the name of a key's value, nor that of a structure, nor bytes in which a key lies."""
    (tmp_path / "zed.py").write_text(WITH_KEYS)
    key = b"\xca\xfe\xba\xbe"
    cases = (
        (key, "ab, body (hidden).", "ab, body cafebabe."), (key + key[:3], "(hidden), body (hidden).", "ab, body cafebabe."),
        (key[:3], "(hidden), body .", "ab, body ."),
    )  # fmt: skip
    frames = [ud(b"\1" + key * 2 + b"\2ab" + body, dest_qp=0xACE, q_key=7) for body, _, _ in cases]
    (tmp_path / "a.pcap").write_bytes(erf_pcap(frames))
    words = ("show", "--plugin", str(tmp_path / "zed.py"), str(tmp_path / "a.pcap"))
    masked, clear = (commands.run(*words, *more, text=True).stdout.splitlines() for more in ((), ("--show-keys",)))
    for (_, hidden, keys), shown, known in zip(cases, masked, clear, strict=True):
        assert f"named Zed_Key#1, inner Inner, name {hidden}" in shown, shown
        assert f"named the one of the factory (3405691582), inner Inner, name {keys}" in known, known
