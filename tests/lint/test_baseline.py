"""Baselines recognise known findings whatever their frame number, and report new and fixed ones."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.craft import erf_pcap, rc, smp

NOTHING = rc(0x04, bytes(8))


def wrong(modifier: int, number: int = 0) -> bytes:
    """A request whose modifier AM001 reports: another one with another modifier."""
    return smp(1, 0x10, modifier=modifier, header={"transaction_id": 1000 * modifier + number})


def written(folder: Path, name: str, *modifiers: int, before: int = 0) -> None:
    """A capture with one finding for each modifier, behind other frames."""
    frames = [wrong(modifier, number) for number, modifier in enumerate(modifiers)]
    (folder / name).write_bytes(erf_pcap([NOTHING] * before + frames))


def keep(folder: Path, *words: str) -> list[dict[str, Any]]:
    """The baseline of captures, as a list of its lines."""
    done = commands.run("lint", "--select", "AM", *words, "--write-baseline", "base.json", cwd=folder, text=True)
    assert done.returncode == 0, done.stderr
    return list(json.loads((folder / "base.json").read_text()))


def compare(folder: Path, *words: str, base: str = "base.json") -> dict[str, Any]:
    """The JSON of a check against the baseline."""
    done = commands.run("lint", "--select", "AM", *words, "--baseline", base, "--format", "json", cwd=folder, text=True)
    return dict(json.loads(done.stdout))


def counts(told: dict[str, Any]) -> tuple[int, int, int, int]:
    """Known, new, fixed and unchecked findings."""
    one = told["baseline"]
    return one["known"], one["new"], sum(entry["count"] for entry in one["fixed"]), one["unchecked"]


def entries(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in lines if "fingerprint" in one]


def test_frame_numbers_do_not_count_but_the_message_does(tmp_path: Path) -> None:
    written(tmp_path, "a.pcap", 1, 2)
    keep(tmp_path, "a.pcap")
    written(tmp_path, "a.pcap", 1, 3, before=7)
    told = compare(tmp_path, "a.pcap")
    assert [one["frame"] for one in told["findings"]] == [9] and told["by_rule"] == {"AM001": 1} and told["counts"]["error"] == 1
    assert counts(told) == (1, 1, 1, 0) and "2" in told["baseline"]["fixed"][0]["message"]


def test_more_of_the_same_is_new_and_less_is_fixed(tmp_path: Path) -> None:
    """Different nodes send the same."""
    same = [smp(1, 0x10, modifier=1, slid=lid) for lid in range(10, 18)]
    (tmp_path / "a.pcap").write_bytes(erf_pcap(same[:3]))
    assert [one["count"] for one in entries(keep(tmp_path, "a.pcap"))] == [3]
    (tmp_path / "a.pcap").write_bytes(erf_pcap(same[:5]))
    told = compare(tmp_path, "a.pcap")
    assert [one["frame"] for one in told["findings"]] == [4, 5] and told["by_rule"] == {"AM001": 2} and counts(told) == (3, 2, 0, 0)
    (tmp_path / "a.pcap").write_bytes(erf_pcap(same[:1]))
    assert counts(compare(tmp_path, "a.pcap")) == (1, 0, 2, 0)


@pytest.mark.slow
def test_findings_that_are_only_counted_count_too(tmp_path: Path) -> None:
    """Of more than 10,000 of a rule, the others have one entry."""
    written(tmp_path, "a.pcap", *range(1, 10_002))
    lines = entries(keep(tmp_path, "a.pcap"))
    assert len(lines) == 10_001 and [one["count"] for one in lines if one["fingerprint"] == "beyond"] == [1]
    written(tmp_path, "a.pcap", *range(1, 10_004))
    told = compare(tmp_path, "a.pcap")
    assert (told["findings"], told["by_rule"]) == ([], {"AM001": 2}) and counts(told) == (10_001, 2, 0, 0)


def test_only_what_was_checked_is_fixed_and_the_rest_is_listed_in_order(tmp_path: Path) -> None:
    for name in ("b.pcap", "a.pcap"):
        written(tmp_path, name, 1, 2)
    keep(tmp_path, "a.pcap", "b.pcap")
    written(tmp_path, "a.pcap", 1)
    assert counts(compare(tmp_path, "a.pcap")) == (1, 0, 1, 2)
    assert counts(compare(tmp_path, "a.pcap", "--frames", "1")) == (1, 0, 0, 3), "a part of the capture fixes nothing"
    head, *lines, end = (tmp_path / "base.json").read_text().splitlines()
    (tmp_path / "base.json").write_text("\n".join([head, *reversed(lines), end]))
    (tmp_path / "c.pcap").write_bytes(erf_pcap([NOTHING]))
    told = compare(tmp_path, "c.pcap")["baseline"]
    assert [one["capture"] for one in told["not_checked"]] == ["a.pcap", "a.pcap", "b.pcap", "b.pcap"]
    for broken in (b"no capture", erf_pcap([])):
        (tmp_path / "a.pcap").write_bytes(broken)
        assert counts(compare(tmp_path, "a.pcap", "b.pcap")) == (2, 0, 0, 2)


def test_captures_are_named_from_the_baseline(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub", "x.pcap", 1)
    for words, cwd in ((["sub/x.pcap"], tmp_path), ([str(tmp_path / "sub/x.pcap")], tmp_path)):
        assert [one["capture"] for one in entries(keep(cwd, *words))] == ["sub/x.pcap"]
    assert counts(compare(tmp_path / "sub", "x.pcap", base="../base.json")) == (1, 0, 0, 0)
    written(tmp_path, "y.pcap", 1)
    assert [one["capture"] for one in entries(keep(tmp_path / "sub", "../y.pcap"))] == ["../y.pcap"]


def test_no_key_gets_in(tmp_path: Path, repo: Path) -> None:
    words = ("lint", str(repo / "captures/mkey-enforced.pcap.gz"), "--select", "MKY", "--show-keys", "--write-baseline", "base.json")
    assert commands.run(*words, cwd=tmp_path, text=True).returncode == 0
    text = (tmp_path / "base.json").read_text()
    assert "M_Key#" in text and "1122334455667788" not in text and str(0x1122334455667788) not in text


def test_the_text_is_json_in_one_order_and_merges_line_by_line(tmp_path: Path) -> None:
    written(tmp_path, "ä.pcap", *range(1, 9))
    lines = keep(tmp_path, "ä.pcap")
    text = (tmp_path / "base.json").read_text()
    assert text.isascii() and len(entries(lines)) == 8 and lines == sorted(lines, key=lambda one: "fingerprint" in one or "sha256" in one)
    split = text.splitlines()
    inner = [*split[1:-1], *split[3:5]]
    random.Random(1).shuffle(inner)  # what a union merge of two sides makes: lines of both, in any order, some twice
    (tmp_path / "base.json").write_text("\n".join([split[0], *inner, split[-1]]))
    assert counts(compare(tmp_path, "ä.pcap")) == (8, 0, 0, 0)
    for more in ((1, 3), (3, 1)):  # one side knew more of them
        entry = split[-2].replace('"count": 1', '"count": {}')
        assert entry != split[-2]
        changed = [entry.replace("{}", str(count)) for count in more]
        (tmp_path / "base.json").write_text("\n".join([*split[:-2], *changed, split[-1]]))
        assert counts(compare(tmp_path, "ä.pcap")) == (8, 0, 2, 0)


ENTRY = '{"capture": "a", "code": "AAA001", "count": 1, "fingerprint": "00", "message": "m"}'
HEAD = '[{"schema": 1, "tool": "ibdissect baseline"}'


def test_damage_is_named(tmp_path: Path) -> None:
    """With where it is, and what to do."""
    written(tmp_path, "a.pcap", 1)
    wrong = []
    for text, said, hint in (
        ("", "not valid JSON", "--write-baseline"), ("{}", "is not a baseline", ""), ("[]", "file: is not a baseline", "--write-baseline"),
        ("[" * 100_000, "file: is a damaged baseline: not valid JSON", "--write-baseline"), ("null", "is not a baseline", ""),
        ('[{"schema": 3, "tool": "ibdissect baseline"}]', "newer", ""), (HEAD, "line 1: is a damaged baseline", ""),
        ("[\n3", "line 2", "--write-baseline"), (f"{HEAD}\n,{ENTRY}\n,3]", "entry 3", ""),
        (f"{HEAD},{ENTRY.replace('1,', '0,')}]", "entry 2", ""), (f"{HEAD},{ENTRY.replace('1,', 'true,')}]", "entry 2", ""),
        (f'{HEAD},{{"capture": "a", "sha256": 3}}]', "entry 2", "--write-baseline"),
        (f"{HEAD}\n<<<<<<< HEAD\n,{ENTRY}]", "conflict", ""), (f"{HEAD}\n>>>>>>> theirs]", "line 2", "resolve the conflict"),
        (f"{HEAD},{ENTRY.replace('message', 'massage')}]", "a finding has", ""),
    ):  # fmt: skip
        (tmp_path / "base.json").write_text(text)
        done = commands.run("lint", "a.pcap", "--baseline", "base.json", cwd=tmp_path, text=True)
        if done.returncode != 2 or "base.json: " not in done.stderr or said not in done.stderr or hint not in done.stderr:
            wrong.append((text[:60], done.stderr))
    assert wrong == []


def test_the_fingerprint_is_the_one_of_files_that_exist(tmp_path: Path) -> None:
    written(tmp_path, "a.pcap", 1)
    assert [one["fingerprint"] for one in entries(keep(tmp_path, "a.pcap"))] == ["a815eed25d7de5afd7696bac14134e5f"]
    for name in ("\udcff.pcap", "\udcfe.pcap"):
        written(tmp_path, name, 1)
    marks = [one["fingerprint"] for one in entries(keep(tmp_path, "a.pcap", "\udcff.pcap", "\udcfe.pcap"))]
    assert len({*marks}) == 3, "names need not be UTF-8"


def test_copies_are_compared_with_the_entries_of_their_own_name(tmp_path: Path) -> None:
    """Two captures are what one was: each may show all of its findings again."""
    written(tmp_path, "old.pcap", 1)
    keep(tmp_path, "old.pcap")
    data = (tmp_path / "old.pcap").read_bytes()
    (tmp_path / "old.pcap").unlink()
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(data)
    told = compare(tmp_path, "a.pcap", "b.pcap")
    assert told["findings"] == [] and told["baseline"]["new"] == 0 and told["baseline"]["fixed"] == []
