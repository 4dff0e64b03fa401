"""The files of real tools say what the first sweep of their fabric shows, and prove what a data capture alone cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ibdissect.lint.finding import Finding, Severity
from ibdissect.python_interface import Capture
from ibdissect.subnet.file_lines import is_doubtful
from ibdissect.subnet.files import learn, read_files
from ibdissect.subnet.model import Subnet
from tests.conftest import SHARED
from tests.standard import ACTIVE, SWITCH

KNOWLEDGE = SHARED / "knowledge"
STATES = sorted(sweep.parent for sweep in KNOWLEDGE.glob("*/*/sweep.pcap"))
TRUTHS = sorted(KNOWLEDGE.glob("*/data-*.truth.json"))
pytestmark = pytest.mark.slow
P_KEY_CODES = {"PKY001", "PKY003", "PKY004"}


def subnet_of(*paths: Path) -> Subnet:
    subnet = Subnet()
    learn(subnet, read_files([str(path) for path in paths]).files)
    return subnet


def fields(subnet: Subnet) -> dict[Any, Any]:
    """What is known of the subnet, fact by fact."""
    found: dict[Any, Any] = {}
    for lid in subnet.lids:
        port = subnet.by_lid(lid)
        if port is not None and port.guid:
            found["owner", lid] = port.guid
        table = port.p_keys if port is not None else None
        if table is not None and table.blocks and not any(map(is_doubtful, table.keys(1)[2])):
            found["keys", lid] = {key for key in table.keys(1)[0] if key & 0x7FFF}
        elif table is not None and not table.blocks and table.intended is not None:
            found["keys", lid] = set(table.intended.keys)
    for mgid, group in subnet.groups.by_mgid.items():
        found["group", mgid] = (group.facts.now.mlid, group.facts.now.p_key) if group.facts.now is not None else None
    for node in subnet.nodes.values():
        found["kind", node.guid] = node.kind or None
        found["ports", node.guid] = node.num_ports or None
        found["size", node.guid] = node.partition_cap or None
        for port in node.ports.values():
            if port.info is not None and port.state == ACTIVE:
                found["mtu", node.guid, port.number] = port.info.neighbor_mtu
                found["lmc", node.guid, port.number] = port.info.lmc
            for entered in port.qos.numbers() if port.qos is not None else ():
                found["lanes", node.guid, port.number, entered] = port.qos.map(entered) if port.qos is not None else None
            if port.peer is not None and port.peer.node.guid:
                found["cable", node.guid, port.number] = port.peer.node.guid, port.peer.number
            if port.node.kind == SWITCH and port.number and port.p_keys is not None:
                found["enforced", node.guid, port.number] = {key for key in port.p_keys.keys(1)[0] if key & 0x7FFF}
        for lid, number in node.forwarding.linear.entries() if node.forwarding is not None else ():
            found["route", node.guid, lid] = number
    return {what: value for what, value in found.items() if value is not None}


def differences(said: dict[Any, Any], shown: dict[Any, Any]) -> dict[Any, Any]:
    return {what: (said[what], shown[what]) for what in said.keys() & shown.keys() if said[what] != shown[what]}


def single_files(state: Path) -> list[list[Path]]:
    """Each file alone; what needs a second one to say anything, together with it."""
    cache = state / "opensm/cache"
    files = [path for path in sorted(state.rglob("*")) if path.is_file() and path.suffix != ".pcap" and path.name != "ibsim.net"]
    alone = [[path] for path in files if "-pkeys.txt" not in path.name and path.parent.name != "sysfs"]
    hosts = [[path, path.with_name(path.name.replace("-pkeys", "-port"))] for path in files if path.name.endswith("-pkeys.txt")]
    opensm = [state / "opensm" / name for name in ("partitions.conf", "opensm.conf", "opensm.log")]
    return [*alone, *hosts, [*opensm, cache / "guid2lid", state / "diags/ibnetdiscover.txt"]]


@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.parent.name}-{state.name}")
def test_each_file_and_all_together_agree_with_the_sweep(state: Path, shared: Path) -> None:
    shown = fields(subnet_of(state / "sweep.pcap"))
    kinds: dict[str, int] = {}
    for paths in single_files(state):
        try:
            known = read_files([str(path) for path in paths])
        except Exception as error:
            assert "is empty" in str(error) or "is of an unknown kind" in str(error)
            continue
        subnet = Subnet()
        learn(subnet, known.files)
        said = fields(subnet)
        # /sys shows the first 32 entries of a table only, and a table that was asked for belongs to a LID without GUID
        short = {what for what in said if what[0] == "keys"} if any("-pkeys" in path.name for path in paths) else set()
        wrong = {what: both for what, both in differences(said, shown).items() if what not in short or not both[0] <= both[1]}
        assert not wrong, [path.name for path in paths]
        for file in known.files:
            kinds[file.kind] = kinds.get(file.kind, 0) + len(said.keys() & shown.keys())
    alone = {kind for kind, count in kinds.items() if not count}
    assert alone <= {"opensm.log", "opensm.conf", "sminfo", "sa.dump", "guid2mkey", "node-name-map"}
    assert not differences(fields(subnet_of(state)), shown)
    assert fields(subnet_of(state)).keys() >= shown.keys()


def answers(case: dict[str, Any], findings: list[Finding]) -> set[str]:
    """Codes found at the frames of a case."""
    return {finding.code for finding in findings if finding.frame in case["frames"]}


OTHER_STATES = [
    (truth, state.parent)
    for truth in TRUTHS
    for state in sorted(truth.parent.glob("*/sweep.pcap"))
    if state.parent.name != json.loads(truth.read_text())["knowledge"]
]


@pytest.mark.parametrize(
    ("truth", "state"),
    [pytest.param(*both, marks=[pytest.mark.thorough] * (i % 2)) for i, both in enumerate(OTHER_STATES)],
    ids=lambda path: path.name.removesuffix(".truth.json"),
)
def test_files_of_another_time_cause_no_error(truth: Path, state: Path, shared: Path) -> None:
    """Where acknowledgements show that files are wrong, what rests on them is no more than an info."""
    said = json.loads(truth.read_text())
    labelled = {frame for kind in ("cases", "undecided") for case in said[kind] for frame in case["frames"]}
    with Capture(str(truth.with_name(said["capture"])), subnet=[str(state)]) as opened:
        loud = {(f.code, f.frame) for f in opened.lint() if f.severity is not Severity.INFO and f.frame not in labelled}
    assert {code for code, _ in loud} <= {"DRF005"}


RECORDS = ("diags/saquery-N.txt", "diags/saquery-PIR.txt")


@pytest.mark.parametrize("names", [("sweep.pcap",), RECORDS, ("diags/ibnetdiscover.txt",)], ids=["sweep", "records", "ibnetdiscover"])
def test_each_of_these_alone_lists_all_lids(names: tuple[str, ...], shared: Path) -> None:
    truth = TRUTHS[0]
    said = json.loads(truth.read_text())
    state = truth.parent / said["knowledge"]
    listed = subnet_of(*(state / name for name in names)).listed
    assert listed and not is_doubtful(listed)
    assert not subnet_of(state / RECORDS[0]).listed and not subnet_of(state / RECORDS[1]).listed
    with Capture(str(truth.with_name(said["capture"])), subnet=[str(state / name) for name in names]) as opened:
        found = {(one.frame, one.severity) for one in opened.lint(select=["LNK020"])}
    due = {case["frames"][0] for case in said["cases"] if "LNK020" in case["codes"]}
    assert due and due <= {frame for frame, severity in found if severity is Severity.WARNING}


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.name.removesuffix(".truth.json"))
def test_files_prove_what_a_data_capture_cannot(truth: Path, shared: Path) -> None:
    said = json.loads(truth.read_text())
    capture = truth.with_name(said["capture"])
    with Capture(str(capture)) as opened:
        assert not {finding.code for finding in opened.lint()} & P_KEY_CODES
    with Capture(str(capture), subnet=[str(truth.parent / said["knowledge"])]) as opened:
        findings = opened.lint()
    for case in said["cases"]:
        codes = answers(case, findings)
        assert codes >= set(case["codes"]) or (case["match"] == "any" and codes & {*case["codes"], *case["accept"]}), case
    for case in said["near"]:
        loud = {f.code for f in findings if f.frame in case["frames"] and f.severity is not Severity.INFO}
        assert not loud & set(case["codes"]), case
    labelled = {frame for kind in ("cases", "undecided") for case in said[kind] for frame in case["frames"]}
    assert {f.frame for f in findings if f.severity is not Severity.INFO} <= labelled
    for finding in findings:
        if finding.code in P_KEY_CODES:
            assert any(related.file and related.line for related in finding.related), finding
