"""Does `ibdissect fields` list each filter name and place once?"""

from __future__ import annotations

import pytest

from ibdissect.cli import run


def test_what_several_structures_have_in_one_place_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fields", "nvme.cmd"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nvme.cmd.nsid" in {line.split()[0] for line in lines} and len(set(lines)) == len(lines)
