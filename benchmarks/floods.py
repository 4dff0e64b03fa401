"""CPU time and memory a packet, if every one brings new identities. The proofs and twins of all rules, again and again.

    python benchmarks/floods.py --packets 100000 1000000 --what lid guid "lid guid qpn number key text address"

Each line is a process of its own: CPU time a packet, memory, the slowest chunk of two copies (9 MB, a window has 12) as a multiple of
the median, and calls of Python and C functions a packet in the last chunk, which do not depend on what else the machine does. Numbers that
stay the same from line to line do not grow with the capture. There are 16384 identities of each kind.
`--rules CODE...` runs these rules only, `--followers` none of them: only what keeps state for rules.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
WHAT = ("lid", "guid", "qpn", "number", "key", "text", "address", "lid guid qpn number key text address")


def one(packets: int, what: str, rules: list[str], *, followers: bool) -> None:
    """Print of one flood: CPU seconds a packet, KB of memory, the slowest chunk as a multiple of the median, packets, calls a packet."""
    from ibdissect import heap
    from ibdissect.decode.chunk_table import ChunkTable
    from ibdissect.lint.linter import Linter
    from ibdissect.rules import load
    from tests.crowds import crowd, proofs

    heap.set_up()
    chosen = [rule for rule in load() if not rules or rule.code in rules]
    linter = Linter(chosen, max_findings=10)
    if followers:
        kinds = [type(source) for source in linter.followers]
        linter = Linter([], max_findings=10)
        linter.followers = [linter.context.get(kind) for kind in kinds]
    copies = max(3, packets // len(proofs()))
    list(crowd(1, what=what))  # finding the places to change is no work of the linter
    spent, calls = list[float](), Counter[str]()
    for chunk in crowd(copies, at_once=2, what=what):
        last = chunk.first + len(chunk.offset) > copies * len(proofs())
        before = time.process_time()
        if last:
            sys.setprofile(lambda _frame, event, _argument: calls.update((event,)))
        linter.feed(ChunkTable(chunk))
        sys.setprofile(None)
        if not last:
            spent.append(time.process_time() - before)
    linter.finish()
    middle = sorted(spent)[len(spent) // 2]
    packets, counted = copies * len(proofs()), len(chunk.offset)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(sum(spent) / (packets - counted), memory, max(spent) / middle, packets, (calls["call"] + calls["c_call"]) / counted)


def main() -> None:
    """Run each flood in its own process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--what", nargs="+", default=list(WHAT), help="identities that differ from copy to copy")
    parser.add_argument("--rules", nargs="*", default=[])
    parser.add_argument("--followers", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.packets[0], given.what[0], given.rules, followers=given.followers)
        return
    print(f"{'identities':44} {'packets':>9} {'us/packet':>9} {'RSS MB':>7} {'slowest chunk':>13} {'calls/packet':>12}")
    for what in given.what:
        for packets in given.packets:
            words = [sys.executable, __file__, "--one", "--packets", str(packets), "--what", what, "--rules", *given.rules]
            words += ["--followers"] * given.followers
            said = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
            seconds, memory, slowest, count, calls = (float(word) for word in said)
            print(f"{what:44} {count:9.0f} {seconds * 1e6:9.1f} {memory / 1024:7.0f} {slowest:12.1f}x {calls:12.1f}", flush=True)


if __name__ == "__main__":
    main()
