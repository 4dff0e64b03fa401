"""`ibdissect fields` lists each filter name and place once."""

from __future__ import annotations

import pytest

from ibdissect.cli import run


def test_what_several_structures_have_in_one_place_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fields", "nvme.cmd"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nvme.cmd.nsid" in {line.split()[0] for line in lines} and len(set(lines)) == len(lines)


def test_a_word_inside_names_and_labels(capsys: pytest.CaptureFixture[str]) -> None:
    """If no name starts with it; as `tshark -G fields | grep` finds them."""
    assert run(["fields", "psn"]) == 0 and "infiniband.bth.psn " in capsys.readouterr().out
    assert run(["fields", "packet sequence"]) == 0 and capsys.readouterr().out.split()[0] == "infiniband.bth.psn"
    assert run(["fields", "bth"]) == 0 and all(line.startswith("infiniband.bth") for line in capsys.readouterr().out.splitlines())
