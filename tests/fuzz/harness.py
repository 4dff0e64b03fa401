"""The program of a fuzzing service: the target that it is named after, fuzz_reader, fuzz_walk ... (.clusterfuzzlite/build.sh)."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ibdissect"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    atheris.Setup(sys.argv, TARGETS[Path(sys.argv[0]).name.partition(".")[0].removeprefix("fuzz_")])
    atheris.Fuzz()
