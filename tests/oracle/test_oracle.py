"""Does our decode say what tshark's says, field by field, on real captures? Proven mistakes of tshark are in tshark_mistakes.txt."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLES = {
    "real/infiniband.pcap": 0, "opensm/01-sweep-net1.pcap": 0, "opensm/10-partitions.pcap": 500, "opensm/12-two-sms.pcap": 500,
    "opensm/14-saquery.pcap": 500, "opensm/20b-qos-optimized-slvl.pcap": 500, "opensm/26-informinfo-reports.pcap": 0,
    "opensm/33-mkey-enforced-prot2.pcap": 500, "rxe/cm_mra.pcap": 0, "rxe/cm_rping_v4.pcap": 0, "rxe/cm_ucmatose_tos_v6.pcap": 0,
    "rxe/fmt_any_sll2.pcap": 0, "rxe/nak_send_inv_bad.pcap": 0, "rxe/rc_ops_mixed.pcap": 0, "rxe/vlan_rping.pcap": 0, "rxe/ul_iser.pcap": 0,
}  # fmt: skip
"""Shared captures and how many frames of each (0: all); with --thorough all frames of each."""
MISTAKES = Path(__file__).with_name("tshark_mistakes.txt")


@pytest.mark.skipif(shutil.which("mergecap") is None, reason="needs tshark")
def test_agrees_with_tshark(shared: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """All samples in one capture, as each start of tshark takes half a second."""
    parts = []
    for number, (name, frames) in enumerate(sorted(SAMPLES.items())):
        parts.append(shared / "captures" / name)
        if frames and not pytestconfig.getoption("--thorough"):
            subprocess.run(["editcap", "-r", parts[-1], tmp_path / f"{number}.pcapng", f"1-{frames}"], check=True)
            parts[-1] = tmp_path / f"{number}.pcapng"
    joined = str(tmp_path / "all.pcapng")
    subprocess.run(["mergecap", "-a", "-w", joined, *parts], check=True)
    words = [sys.executable, str(shared / "tools/oracle.py"), joined, "--ibdissect", f"{sys.executable} -m ibdissect"]
    words += ["--ignore", str(MISTAKES)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    compared = re.search(r"fields compared (\d+)", done.stdout)
    assert compared is not None and int(compared[1]) > 300_000


def test_every_mistake_is_explained() -> None:
    """Every paragraph of the list starts with the proof of its lines, and no line stands twice."""
    text = MISTAKES.read_text()
    for paragraph in text.strip().split("\n\n"):
        assert paragraph.startswith("# "), paragraph.splitlines()[0]
    names = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(names) == len(set(names)) > 0
