"""Coverage-guided fuzzing, which searches inputs that reach new code.

    python benchmarks/guided.py TARGET [--seconds N] [--failing DIR] CORPUS [-- LIBFUZZER OPTION...]

Needs atheris (the extra `fuzz`). Targets are the functions of tests/fuzz/targets.py. An empty CORPUS is filled with packets from the
repository's captures and declarations; inputs that reach new code are added. Half of the mutations are libFuzzer's on bytes, the
other half change packets, datagrams or filters. Ends at the first fault, or with --keep-going saves one input per kind.
`-- -merge=1 OTHER` adds the inputs of OTHER that reach new code, `-- -runs=0` only replays.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import logging
import pkgutil
import random
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["ibdissect"]):  # it prints the name of every module
    import ibdissect

    # Modules that are imported on first use must be instrumented, too.
    for found in pkgutil.walk_packages(ibdissect.__path__, "ibdissect."):
        if not found.name.startswith(("ibdissect.__main__", "ibdissect.cli", "ibdissect.export", "ibdissect.pytest_plugin")):
            importlib.import_module(found.name)
    from tests.fuzz import container, items, mutate, targets
    from tests.fuzz.seeds import Seed
    from tests.fuzz.strategies import starts

LONGEST = 1 << 14
SHORT = 420
"""Most bytes of an initial packet, as Omni-Path MADs with thousands of fields are slow."""
RSS_MB = 2500
HUNG = 20
"""Seconds after which libFuzzer reports a hang; about ten times the limit for code without instrumentation."""
FILTERS = (
    "infiniband", "lrh.dlid == 4", "infiniband.bth.p_key == 0xffff && !(lrh.vl == 15)", "mad.attributeid in {0x11, 0x15..0x20}",
    'infiniband.nodedescription.nodestring matches "(a+)+$"', "smpdirected.initialpath contains 00:01", "_ws.malformed or frame.len < 60",
    "infiniband.grh.sgid[0:2] == fe:80", "grh.sgid == fe80::1", 'frame.time > "2008-05-14 19:48:08"', "ip.addr == 10.0.0.0/8",
    'lower(nodestring) ~ "^x"', "count(infiniband.pkeytable.pkey) > 2", "bth.opcode & 0x60 == 0x60", 'ibdissect.code == "PKY001"',
    "udp.port == 4791 xor ip.ttl > 3", "any_eq", "frame[0:4] contains 00", "infiniband.response_time > 0.1", "eth.src == 00:11:22:33:44:55",
)  # fmt: skip
WORDS = (
    "==", "!=", "<", ">=", "&&", "||", "!", "and", "or", "xor", "not", "(", ")", "[", "]", "{", "}", "..", ",", ":", "-", "contains",
    "matches", "~", "in", "len", "count", "upper", "lower", "string", "min", "abs", "@", "#", "$", "*", "+", "/", "%", "&", '"', "\\", "'",
    "0x", "0b1", "1e9", "-1", "18446744073709551616", "fe80::1", "::", "00:01", "10.0.0.1/8", "true", "false", "frame", "frame.time",
    "frame.number", "mad", "lrh", "bth.psn", "grh.sgid", "eth.src", "nodestring", "portinfo", "r'", '"a|b*"', "any", "all", "\0", "é",
)  # fmt: skip


def first(target: str) -> Iterator[bytes]:
    """The initial inputs of a target."""
    rnd = random.Random(1)
    every = tuple(seed for seed in starts() if len(seed.data) < SHORT)
    if target == "filter":
        yield from (text.encode() for text in FILTERS)
        return
    if target == "reader":
        for _ in range(60):
            chosen = [rnd.choice(every) for _ in range(rnd.choice((0, 1, 2, 4)))]
            yield container.broken(rnd, [(seed.link, seed.data, len(seed.data)) for seed in chosen])
        return
    if target in ("rmpp", "cm"):
        yield from _datagrams(target, every)
        return
    yield b""
    for seed in every[:: 1 if target in ("locate", "scapy", "summary") else 4]:
        yield items.joined([items.item((seed.link, seed.data, len(seed.data)))])
    for _ in range(20):
        chosen = [rnd.choice(every) for _ in range(4)]
        yield items.joined(items.item((seed.link, seed.data, len(seed.data))) for seed in chosen)


def _datagrams(target: str, every: tuple[Seed, ...]) -> Iterator[bytes]:
    """Datagrams of a target's classes, alone and in pairs."""
    before = (0, b"")
    for seed in every:
        at = dict(seed.heads).get("mad")
        if at is None or at + 24 > len(seed.data):
            continue
        body, attribute = seed.data[at : at + 256], int.from_bytes(seed.data[at + 16 : at + 18], "big")
        if target == "cm" and body[1] == 7 and attribute in items.CM_ATTRIBUTES:
            one = (items.CM_ATTRIBUTES.index(attribute), body[24:])
        elif target == "rmpp" and body[1] != 7:
            kinds = [kind for kind, _ in items.RMPP_KINDS]
            one = (kinds.index(body[1]) if body[1] in kinds else 0, body)
        else:
            continue
        yield items.joined([one])
        yield items.joined([before, (one[0] | items.BACK, one[1])])
        before = one


def turned(target: str) -> Callable[[bytes, int, int], bytes]:
    """The mutation function of a target."""

    def step(data: bytes, most: int, seed: int) -> bytes:
        rnd = random.Random(seed)
        if rnd.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        if target == "filter":
            at = rnd.randrange(len(data) + 1)
            return (data[:at] + rnd.choice((b" ", b"")) + rnd.choice(WORDS).encode() + data[at + rnd.choice((0, 0, 1, 4)) :])[:most]
        if target == "reader":
            changed = bytearray(data)
            rnd.choice(container.STEPS)(rnd, changed, rnd.choice("<>"))
            return bytes(changed[:most])
        if target in ("rmpp", "cm"):
            return _datagram_turned(data, rnd)[:most]
        return items.turned(data, starts(), rnd)[:most]

    return step


def _datagram_turned(data: bytes, rnd: random.Random) -> bytes:
    some = items.items(data) or [(0, bytes(256))]
    place = rnd.randrange(len(some))
    what, body = some[place]
    choice = rnd.randrange(5)
    if choice == 0:
        some[place] = rnd.randrange(256), body
    elif choice == 1:
        some.insert(place, some[place])
    elif choice == 2 and len(some) > 1:
        del some[place]
    else:
        # Offsets of method, transaction, attribute, RMPP header, and of lengths and numbers in CM messages.
        changed = bytearray(body.ljust(48, b"\0"))
        at = rnd.choice((3, 4, 5, 15, 17, 20, 24, 25, 26, 27, 31, 35, 44, 45, rnd.randrange(len(changed))))
        changed[at] = rnd.choice((*mutate.EDGES, 2, 3, 4, 7, changed[at] + 1 & 0xFF, rnd.randrange(256)))
        some[place] = what, bytes(changed)
    return items.joined(some)


class Keeper:
    """Runs a target; with `keep_going` saves one input per kind of fault instead of stopping."""

    def __init__(self, target: str, failing: Path | None, keep_going: bool) -> None:
        self.run, self.target, self.failing, self.keep_going = targets.TARGETS[target], target, failing, keep_going
        self.seen: set[str] = set()

    def __call__(self, data: bytes) -> None:
        try:
            self.run(data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} {str(error)[:24]} {place.filename.rpartition('/')[2]}:{place.lineno}"
            if kind not in self.seen:
                self.seen.add(kind)
                print(f"FAULT {self.target}: {kind}: {str(error)[:300]}", file=sys.stderr, flush=True)
                if self.failing is not None:
                    (self.failing / f"{self.target}-{hashlib.sha1(kind.encode()).hexdigest()[:8]}").write_bytes(data)
            if not self.keep_going:
                raise


def main() -> None:
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(targets.TARGETS))
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--failing", type=Path)
    parser.add_argument("--keep-going", action="store_true")
    told = parser.parse_args(words[:split])
    logging.getLogger("scapy").setLevel(logging.CRITICAL)
    for folder in filter(None, (told.corpus, told.failing)):
        folder.mkdir(parents=True, exist_ok=True)
    if not any(told.corpus.iterdir()):
        for data in first(told.target):
            (told.corpus / hashlib.sha1(data).hexdigest()).write_bytes(data[:LONGEST])
    began = time.time()
    starts()
    Keeper(told.target, None, False)(b"")  # load everything before the inputs are timed
    print(f"ready in {time.time() - began:.1f} s", file=sys.stderr, flush=True)
    more = words[split + 1 :]
    prefix = f"{told.failing}/" if told.failing is not None else f"{told.corpus}-"
    # To merge, libFuzzer starts this program again through a shell, with further options.
    again = shlex.join([sys.executable, __file__, told.target, str(told.corpus), "--"])
    atheris.Setup(
        [again, f"-max_total_time={told.seconds}", f"-rss_limit_mb={RSS_MB}", f"-timeout={HUNG}", f"-max_len={LONGEST}",
         f"-artifact_prefix={prefix}", *more[:1], str(told.corpus), *more[1:]],
        Keeper(told.target, told.failing, told.keep_going), custom_mutator=turned(told.target),
    )  # fmt: skip
    atheris.Fuzz()


if __name__ == "__main__":
    main()
