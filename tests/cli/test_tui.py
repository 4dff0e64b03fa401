"""The command of --live is started without a shell, and ended with the screen."""

from __future__ import annotations

import pytest

from ibdissect.cli.tui import ended, started
from ibdissect.errors import CaptureError
from tests.commands import run


def test_the_command_ends_with_the_screen() -> None:
    process = started("sleep '600'")
    assert process.poll() is None
    assert ended(process) == "" and process.poll() is not None


def test_its_words_reach_no_shell_and_failures_are_reported() -> None:
    process = started("echo '$HOME' ';' ls")
    assert process.stdout is not None and process.stdout.read() == b"$HOME ; ls\n"
    process.wait()
    assert ended(process) == ""
    failed = started("sh -c 'exit 3'")
    failed.wait()
    assert ended(failed) == " (exit status 3)"
    for command in ("no-such-program -w -", "", "tcpdump 'open"):
        with pytest.raises(CaptureError, match="cannot be started"):
            started(command)


def test_points_are_captures_as_they_are() -> None:
    for words in (["--set"], ["--follow"]):
        result = run("tui", "a.pcap", "b.pcap", "--points", *words, text=True)
        assert result.returncode == 2 and "--points" in result.stderr


def test_either_a_capture_or_a_command() -> None:
    for words in (["tui"], ["tui", "x.pcap", "--live", "cat x.pcap"]):
        result = run(*words, text=True)
        assert result.returncode == 2 and "--live" in result.stderr


@pytest.mark.parametrize(("words", "instead"), [
    (["a.pcap"], "ibdissect show a.pcap"), (["--live", "cat a.pcap"], "ibdissect show -"),
    (["--points", "a.pcap", "b.pcap"], "compare them with: ibdissect points a.pcap b.pcap"),
])  # fmt: skip
def test_without_a_terminal_it_names_a_command_that_does_without(words: list[str], instead: str) -> None:
    result = run("tui", *words, text=True)
    assert result.returncode == 2 and result.stderr.rstrip().endswith(instead)
