"""Threads share one heap, freed memory serves the next window, and the collector stays off where it was switched off."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ibdissect import heap
from ibdissect.cli import run

pytestmark = pytest.mark.skipif(not (sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt")), reason="needs glibc's mallopt")
COUNTED = """
import ctypes, os, resource, threading
from ibdissect import heap

heap.set_up()
threading.Thread(target=bytearray, args=(100_000,)).start()
lib = ctypes.CDLL(None)
lib.fopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(lib.fopen(b"/dev/stdout", b"w"))
lib.malloc_info(0, out)
lib.fclose(out)

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(8 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print("faults", max(faults() for _ in range(5)))
"""


def test_threads_and_windows_use_the_same_memory() -> None:
    """The environment is that of Dask's workers."""
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    found = subprocess.run([sys.executable, "-c", COUNTED], env=environment, capture_output=True, text=True, check=True).stdout
    assert found.count("<heap nr=") == 1
    assert int(found.rpartition("faults")[2]) < 100, "8 MiB of fresh memory are 2048 pages"


def test_a_c_library_without_mallopt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    heap.set_up()


def test_lint_leaves_the_collector_off_for_a_caller_that_switched_it_off(repo: Path) -> None:
    gc.disable()
    try:
        run(["lint", "-q", str(repo / "captures/pkey-lab.pcap")])
        assert not gc.isenabled()
    finally:
        gc.enable()
