"""A plugin's function that does not end is stopped, and all else goes on."""

from __future__ import annotations

import subprocess
import sys
from time import sleep

import pytest

from ibdissect import plugin_timeout
from ibdissect.failures import guarded
from ibdissect.plugin_timeout import TookTooLong, patient
from tests.conftest import REPO


def endless() -> None:
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


@pytest.mark.slow
def test_a_function_that_does_not_end_is_stopped_and_not_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_timeout, "PATIENCE_S", 1)
    with pytest.raises(TookTooLong, match="did not end within 1 s"), patient(endless):
        endless()
    with pytest.raises(TookTooLong, match="not called again"), patient(endless):
        raise AssertionError("was called")
    assert not plugin_timeout._CALLS


@pytest.mark.slow
def test_slow_functions_and_ours_are_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> list[int]:
        sleep(2.5)
        return [1]

    monkeypatch.setattr(plugin_timeout, "PATIENCE_S", 8)
    assert guarded(slow, limit=1) == ([1], True)
    slow.__module__ = "ibdissect.wire.x"
    monkeypatch.setattr(plugin_timeout, "PATIENCE_S", 1)
    assert guarded(slow, limit=1) == ([1], True)


STOPPED = """
import sys
from ibdissect import plugin_timeout

def endless():
    while True:
        pass

try:
    with plugin_timeout.patient(endless, 1):
        endless()
except plugin_timeout.TookTooLong:
    sys.setprofile(lambda *_: None)
    (lambda: 0)()
    sys.setprofile(None)
    print("goes on")
"""


@pytest.mark.slow
def test_a_debugger_goes_on_after_a_function_was_stopped() -> None:
    """An exception that was taken back left CPython 3.11 in an endless loop as soon as a profile or trace function was set."""
    done = subprocess.run([sys.executable, "-c", STOPPED], cwd=REPO, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "goes on\n", done.stderr
