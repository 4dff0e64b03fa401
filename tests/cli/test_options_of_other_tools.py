"""Words of tshark, ruff, eslint and semgrep are answered by ours, which exist."""

from __future__ import annotations

import re

import pytest

from ibdissect.cli import COMMANDS, run
from ibdissect.cli.options_of_other_tools import OF_LINTERS, OF_TSHARK
from ibdissect.report import FORMATS
from tests.conftest import REPO


@pytest.mark.slow
def test_words_of_linters(capsys: pytest.CaptureFixture[str]) -> None:
    for word, text in OF_LINTERS.items():
        assert run(["lint", str(REPO / "captures/pkey-lab.pcap"), word]) == 2
        said = capsys.readouterr().err
        assert f"Here: {text}." in said and "Did you mean" not in said and "Possible" not in said, word


@pytest.mark.slow
def test_words_of_tshark(capsys: pytest.CaptureFixture[str]) -> None:
    for word, text in OF_TSHARK.items():
        assert run(["show", str(REPO / "captures/pkey-lab.pcap"), word]) == 2
        assert f"Here: {text}." in capsys.readouterr().err, word


def test_a_letter_means_what_its_program_means(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in ((["lint", "-c"], "Here: `--config`."), (["show", "-c"], "Here: `show --frames 1-N`."), (["lint", "--nothing"], "")):
        assert run(words) == 2
        text = capsys.readouterr().err
        assert said in text and ("Here: " in text) == bool(said), words


def test_what_is_named_exists(capsys: pytest.CaptureFixture[str]) -> None:
    help_texts = {}
    for name in COMMANDS:
        run([name, "--help"])
        help_texts[name] = capsys.readouterr().out
    for text in (*OF_TSHARK.values(), *OF_LINTERS.values()):
        for quoted in re.findall("`([^`]+)`", text):
            words = quoted.removeprefix("ibdissect ").split()
            command = words[0] if words[0] in COMMANDS else ""
            for option in (word for word in words if word.startswith("-") and len(word) > 1):
                assert any(option in help_texts[name] for name in ([command] if command else COMMANDS)), (text, option)
    assert {form for form in re.findall(r"--output-file (\w+)=", " ".join(OF_LINTERS.values()))} <= FORMATS.keys()
