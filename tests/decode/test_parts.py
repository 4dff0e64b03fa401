"""Fields behind parts of variable size, in answers, remarks, rules and texts, are those of the same occurrence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import commands
from tests.craft import interfaces_pcapng, ud

PARTS = str(Path(__file__).parent / "parts.py")
ASK, ASK9 = bytes([1, 7, 2, 0, 0, 5]), bytes([1, 7, 9, 6, 0, 5])
GOOD, BAD = bytes([2, 2, 0, 0, 0]), bytes([2, 3, 6, 4, 0, 0, 0, 1, 1])


def said(path: Path, *frames: tuple[int, bytes]) -> str:
    whole = [ud(data, dest_qp=0xBCE, src_qp=0xBCE, slid=host, dlid=3 - host) for host, data in frames]
    path.write_bytes(interfaces_pcapng([(0, one) for one in whole]))
    return str(path)


def shown(path: str, *words: str) -> list[str]:
    done = commands.run("show", "--plugin", PARTS, path, *words, text=True)
    assert done.returncode == 0, done
    lines: list[str] = done.stdout.splitlines()
    return lines


@pytest.mark.slow
def test_what_is_said_of_fields_behind_variable_parts_is_about_the_same_occurrence(tmp_path: Path) -> None:
    path = said(tmp_path / "a.pcapng", (1, b"\2" + ASK + ASK9), (2, b"\1" + GOOD), (2, b"\2" + BAD + GOOD[:1] + b"\7\0\0\0"))
    names = ("frame.number", "parts.pdu.note", "parts.reply.note", "ibdissect.request_frame")
    lines = [line.split("\t") for line in shown(path, "-Y", "parts", *(word for name in names for word in ("-e", name)))]
    assert [(frame, note, bool(other), asked) for frame, note, other, asked in lines] == [
        ("1", "", False, ""), ("2", "", False, "1"), ("3", "late,", True, ""),
    ]  # fmt: skip
    assert [line.rpartition("PARTS")[2].split("(")[0].split(maxsplit=1)[1].strip() for line in shown(path)] == [
        "2 PDUs; tag 2; asks 5; tag 9; asks 5", "1 PDUs; tag 2; says 0", "2 PDUs; tag 3; says 1; tag 7; says 0",
    ]  # fmt: skip


def test_conditions_and_messages_of_rules_name_them(tmp_path: Path) -> None:
    late = bytes([1, 7, 2, 6, 0, 5])
    path = said(tmp_path / "a.pcapng", (1, b"\2" + late + ASK9), (1, b"\2" + ASK + ASK9), (2, b"\3" + BAD + ASK + GOOD))
    done = commands.run("lint", "--plugin", PARTS, "--select", "PAR", "--format", "json", path, text=True)
    found = [(one["frame"], one["code"], one["message"].rpartition(": ")[2]) for one in json.loads(done.stdout)["findings"]]
    assert [(frame, text) for frame, code, text in found if code == "PAR001"] == [(1, "tag 2, twice 4, late 6")]
    assert [text for _, code, text in found if code == "PAR002"] == [
        "Ask in 1", "Ask in 1", "Ask in 2", "Ask in 2", "Reply in 3", "Ask in 3", "Reply in 3",
    ]  # fmt: skip


def test_a_message_of_a_filter_shows_computed_columns(tmp_path: Path) -> None:
    path = said(tmp_path / "a.pcapng", (1, b"\2" + ASK + ASK9))
    rules = tmp_path / "r.toml"
    rules.write_text('[[rule]]\ncode = "PAR003"\nname = "any-tag"\nwhen = "parts.pdu.doubled == 4"\nmessage = "{parts.pdu.doubled}"\n')
    done = commands.run("lint", "--plugin", PARTS, "--plugin", str(rules), "--select", "PAR003", "--format", "json", path, text=True)
    assert [one["message"].rpartition(": ")[2] for one in json.loads(done.stdout)["findings"]] == ["4"]
