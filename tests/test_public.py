"""Each failure that people reported in public is named as its report asks. Needs ../shared/public."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import commands
from tests.conftest import SHARED

FOLDER = SHARED / "public"
SAID: dict[str, tuple[str, int, str, str]] = {
    "atomic-unaligned": ("lint", 1, "error RC023", "atomic operands are at multiples of 8"),
    "cm-req-unanswered": ("lint", 0, "warning CNX002", "sent its REQ six times in 21 s"),
    "cnp-qp0": ("lint", 1, "error ROC009", "the queue pair must not be 0"),
    "duplicate-guid": ("lint", 1, "error SEM035", "two devices have it"),
    "icrc-swapped": ("lint", 1, "error CNX017", "writes the ICRC with its bytes reversed, in all 5 whole packets"),
    "mtu-blackhole": ("lint", 1, "error CNX005", "carries 4,096 bytes, the largest that 10.0.0.2 acknowledged"),
    "mtu-mismatch-nak": ("lint", 1, "error CNX014", "a packet of 4,096 bytes, more than the path MTU of 1,024"),
    "never-acknowledged": ("lint", 1, "error CNX004", "sent PSN 100 at least eight times in 3.76 s (the", "was never acknowledged"),
    "nvme-reject": ("lint", 0, "info CNX001", "NVMe status 6, no resources"),
    "pad-unaligned": ("lint", 1, "error BTH005", "255 bytes, which is no multiple of 4"),
    "pfc-pause": ("stats", 0, "Pause frames", "65535            1           3"),
    "psn-reused": ("lint", 1, "error CNX015", "(frame 3 has another message than frame 1 had)"),
    "raw-ip-101": ("show", 0, "SEND Only QP 0x000211", ""),
    "read-over-2gib": ("lint", 1, "error RC024", "a message has at most 2^31"),
    "read-response-short": ("lint", 1, "error CNX016", "a READ of 1,000 bytes with 500 bytes"),
    "rej-remote-gid": ("lint", 1, "error CNX001", "reason 12, primary remote port GID rejected"),
    "reordered": ("stats", 0, "missing  late", "        2     2           0"),
    "rnr-beyond-limit": ("lint", 1, "error CNX009", "went on beyond its RNR retry count of 3"),
    "rnr-retry-zero": ("lint", 1, "error CNX009", "the RNR retry count of 10.0.0.1 is 0"),
    "routed-mirror": ("lint", 0, "info CAP012", "router"),
    "snaplen64": ("stats", 0, "healthy  healthy            1                    0         5           1280", ""),
    "srv6-encap": ("show", 0, "RC      394  SEND Only QP 0x000211 PSN 5 len 256", ""),
    "zero-source-mac": ("lint", 0, "warning ROC017", "00:00:00:00:00:00 is that of no interface"),
}
"""For each capture the command, its exit status, and what it says."""


def test_all_are_in_the_table() -> None:
    if FOLDER.is_dir():
        assert {path.stem for path in FOLDER.glob("*.pcap")} == {*SAID}


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.pcap")), ids=lambda path: path.stem)
def test_it_is_named(path: Path) -> None:
    command, status, *said = SAID[path.stem]
    done = commands.run(command, *(("--infos",) if command == "lint" else ()), str(path), text=True)
    assert done.returncode == status and all(part in done.stdout for part in said), done.stdout
    if command == "lint":
        found = [line for line in done.stdout.splitlines() if line[:2] in ("✖ ", "⚠ ")]
        assert len(found) <= 1, "one fault is said once"
