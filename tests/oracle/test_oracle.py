"""Our decode says what tshark's says, field by field, on real captures. Proven mistakes of tshark are in tshark_mistakes.txt."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import ibdissect
from tests import tunnels
from tests.commands import run
from tests.robustness.manipulations import ETHERNET, Pcap, Record, read

pytestmark = pytest.mark.slow

SAMPLES = (
    "real/infiniband.pcap", "opensm/01-sweep-net1.pcap", "opensm/10-partitions.pcap", "opensm/12-two-sms.pcap", "opensm/14-saquery.pcap",
    "opensm/20b-qos-optimized-slvl.pcap", "opensm/26-informinfo-reports.pcap", "opensm/33-mkey-enforced-prot2.pcap", "rxe/cm_mra.pcap",
    "rxe/cm_rping_v4.pcap", "rxe/cm_ucmatose_tos_v6.pcap", "rxe/fmt_any_sll2.pcap", "rxe/nak_send_inv_bad.pcap", "rxe/rc_ops_mixed.pcap",
    "rxe/vlan_rping.pcap", "rxe/ul_iser.pcap",
)  # fmt: skip
"""Shared captures: 21,000 frames, all with --thorough."""
KIND = ("frame.interface_id", "bth.opcode", "mad.mgmtclass", "mad.method", "mad.attributeid")
EACH = 3
"""Otherwise so many frames of each kind and sample are compared."""
MISTAKES = Path(__file__).with_name("tshark_mistakes.txt")


def some_of_each_kind(capture: Path, target: Path) -> Path:
    kinds = defaultdict[int, tuple[object, ...]](tuple)
    with ibdissect.open(capture) as opened:
        for column in map(opened.table().__getitem__, KIND):
            for frame, value in zip(column.frame.tolist(), column.value.tolist(), strict=True):
                kinds[frame] += (value,)
    seen = Counter[tuple[object, ...]]()
    chosen = []
    for frame, kind in kinds.items():
        seen[kind] += 1
        if seen[kind] <= EACH:
            chosen.append(str(frame))
    assert run("export", str(capture), "--frames", ",".join(chosen), "--output", str(target)).returncode == 0
    return target


def in_tunnels(shared: Path) -> Pcap:
    """The first frames of some captures in every tunnel."""
    records: list[Record] = []
    for name in ("cm_rping_v4", "rc_read_v6", "vlan_rping"):
        pcap = read(shared / f"captures/rxe/{name}.pcap")
        some = pcap.with_records(list(pcap.records[:30]))
        records += (record for kind in (*tunnels.FRAMES, *tunnels.PACKETS) for record in tunnels.capture(some, kind).records)
    return Pcap(ETHERNET, tuple(records))


@pytest.mark.skipif(shutil.which("mergecap") is None, reason="needs tshark")
def test_agrees_with_tshark(shared: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """All samples in one capture, as each start of tshark takes half a second; some also in tunnels."""
    (tmp_path / "tunnels.pcap").write_bytes(in_tunnels(shared).packed())
    joined = tmp_path / "all.pcapng"
    subprocess.run(["mergecap", "-a", "-w", joined, *(shared / "captures" / name for name in SAMPLES)], check=True)
    if not pytestconfig.getoption("--thorough"):
        joined = some_of_each_kind(joined, tmp_path / "some.pcapng")
    words = [sys.executable, str(shared / "tools/oracle.py"), str(joined), str(tmp_path / "tunnels.pcap")]
    words += ["--ibdissect", f"{sys.executable} -m ibdissect", "--ignore", str(MISTAKES)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    compared = re.search(r"fields compared (\d+)", done.stdout)
    assert compared is not None and int(compared[1]) > 30_000


def test_every_mistake_is_explained() -> None:
    """Every paragraph of the list starts with the proof of its lines, and no line stands twice."""
    text = MISTAKES.read_text()
    for paragraph in text.strip().split("\n\n"):
        assert paragraph.startswith("# "), paragraph.splitlines()[0]
    names = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(names) == len(set(names)) > 0
