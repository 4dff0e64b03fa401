"""`ibdissect diff`: its text, JSON and exit status."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import commands
from tests.conftest import REPO
from tests.craft import erf_pcap, rc
from tests.subnet.files.samples import SAMPLES


def diff(*arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.run("diff", *arguments, cwd=REPO, text=True)


@pytest.mark.slow
def test_text_json_and_status(tmp_path: Path) -> None:
    for name, lid in (("before", "0x0004"), ("after", "0x0007")):
        (tmp_path / name).write_text(SAMPLES["guid2lid"].replace("0x0004", lid))
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    same = diff(before, before)
    assert (same.returncode, same.stdout) == (0, f"No changes from {before} to {before}\n")
    text = diff(before, after)
    assert (text.returncode, text.stdout.splitlines()[0]) == (1, "~ LID  ? port 0 (0x0002c903000000b1) had 4, has 7")
    told = json.loads(diff(before, after, "--format", "json").stdout)
    assert told["lid_changed"] == [{"port_guid": "0x0002c903000000b1", "name": "", "port": 0, "before": 4, "after": 7}]
    assert told["counts"]["lid_changed"] == 1
    assert diff(before, after, "--fail-on", "never").returncode == 0
    assert diff(before, after, "--fail-on", "moved,pkeys_changed").returncode == 0
    assert diff(before, after, "--fail-on", "lid_changed").returncode == 1
    wrong = diff(before, after, "--fail-on", "lids")
    assert (wrong.returncode, "lids: is not a kind of change" in wrong.stderr) == (2, True)
    assert diff(before, str(tmp_path / "absent")).returncode == 2


def test_a_capture_without_subnet_management_changes_no_subnet(tmp_path: Path) -> None:
    known, traffic = tmp_path / "known", tmp_path / "traffic.pcap"
    known.write_text(SAMPLES["guid2lid"])
    traffic.write_bytes(erf_pcap([rc(0x04, bytes(8))]))
    refused = diff(str(known), str(traffic))
    assert (refused.returncode, "a capture needs subnet management" in refused.stderr) == (2, True)
    captures = diff("captures/pkey-lab.pcap", str(traffic))
    assert "the subnets are not compared" in captures.stderr
    assert {line.split()[1] for line in captures.stdout.splitlines()[:-1]} == {"traffic", "finding"}
    assert "cannot be used here" in diff(str(known), str(known), "--names").stderr


@pytest.mark.slow
def test_traffic_and_findings_of_frames_that_match(tmp_path: Path) -> None:
    """A partition that came is a change, unless a filter looks at another one."""
    words = ("diff", str(REPO / "captures/pkey-lab-full.pcap"), str(REPO / "captures/pkey-lab.pcap"), "--format", "json")
    every = json.loads(commands.run(*words).stdout)
    some = json.loads(commands.run(*words, "-Y", "bth.p_key == 0x0123").stdout)
    none = json.loads(commands.run(*words, "-Y", "bth.p_key == 0x4242").stdout)
    assert {one["code"] for one in some["findings_new"]} <= {one["code"] for one in every["findings_new"]}
    assert none["counts"]["findings_new"] == none["counts"]["traffic_new"] == 0 < every["counts"]["findings_new"]
