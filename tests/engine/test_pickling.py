"""State that a pass holds is not pickled: Python says so, and does not crash."""

from __future__ import annotations

import subprocess
import sys

from tests.commands import REPO

SCRIPT = """
import pickle, ibdissect
with ibdissect.open("captures/pkey-lab-full.pcap") as opened:
    ends = opened.ends()
    try:
        print(len(pickle.loads(pickle.dumps(ends)).names) >= 0)  # an interpreted engine is all Python
    except TypeError as error:
        print("cannot pickle" in str(error))
"""


def test_ends_of_packets_are_no_crash() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], cwd=REPO, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr
