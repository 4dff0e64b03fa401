"""The severity that a finding gets where a site gave one to its rule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import commands
from tests.craft import erf_pcap, rc
from tests.rules.test_rules import CASES
from tests.subnet.made import answer, node, p_keys

SHOWN = [frame for lid in (5, 6) for frame in (answer(lid, 0x11, node(lid)), answer(lid, 0x16, p_keys(0xFFFF, 0x1234)))]
LIMITED = rc(0x04, bytes(8), slid=6, dlid=5, bth={"p_key": 0x1234})
STRANGE = rc(0x04, bytes(8), slid=6, dlid=5, bth={"p_key": 0x9999})


def severities(folder: Path, frames: Sequence[bytes], given: str, *, late_s: int = 0) -> dict[str, str]:
    """The severity of each rule's finding in a folder whose configuration gives some. `late_s`: seconds before the last frame."""
    times = [1_700_000_000_000_000_000 + i * 1_000_000 for i in range(len(frames))]
    times[-1] += late_s * 1_000_000_000
    (folder / "a.pcap").write_bytes(erf_pcap(frames, times=times))
    (folder / "ibdissect.toml").write_text(f"[severity]\n{given}\n")
    done = commands.run("lint", "a.pcap", "--select", "PKY001,PKY003", "--infos", "--format", "json", cwd=folder, text=True)
    return {one["code"]: one["severity"] for one in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize("given", ['PKY = "info"\nPKY001 = "warning"', 'PKY001 = "warning"\nPKY = "info"'])
def test_the_longer_prefix_wins(given: str, tmp_path: Path) -> None:
    assert severities(tmp_path, [*SHOWN, LIMITED, STRANGE], given) == {"PKY001": "warning", "PKY003": "info"}


@pytest.mark.parametrize(
    ("given", "certain", "doubtful"),
    [("", "error", "info"), ('PKY001 = "warning"', "warning", "info"), ('PKY001 = "info"', "info", "info")],
)
def test_a_finding_that_its_rule_lowered_stays_lower(given: str, certain: str, doubtful: str, tmp_path: Path) -> None:
    """A site that raises a rule does not raise what the rule doubts: here a table that was read long before."""
    assert severities(tmp_path, [*SHOWN, LIMITED], given) == {"PKY001": certain}
    assert severities(tmp_path, [*SHOWN, LIMITED], given, late_s=1801) == {"PKY001": doubtful}


def test_a_site_may_lower_a_finding_further_than_its_rule_does(tmp_path: Path) -> None:
    """QKY004 is an error, and a warning here."""
    (tmp_path / "a.pcap").write_bytes(CASES["QKY004"][4].bad)
    found = []
    for given in ("error", "warning", "info"):
        (tmp_path / "ibdissect.toml").write_text(f'[severity]\nQKY004 = "{given}"\n')
        done = commands.run("lint", "a.pcap", "--select", "QKY004", "--infos", "--format", "json", cwd=tmp_path, text=True)
        found.append([one["severity"] for one in json.loads(done.stdout)["findings"]])
    assert found == [["warning"], ["warning"], ["info"]]
