"""The command line: version, help, unknown words, and the modules that it imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import commands
from tests.craft import erf_pcap, smp

pytestmark = pytest.mark.slow


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return commands.run(*words, text=True)


def loaded(code: str) -> set[str]:
    """Top-level packages that a piece of Python loads."""
    script = f"import sys; {code}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    return set(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True).stdout.split())


def test_version() -> None:
    from ibdissect import __version__

    for word in ("--version", "-V"):
        result = run(word)
        assert result.returncode == 0
        assert result.stdout in {f"ibdissect {__version__} ({how} engine)\n" for how in ("compiled", "interpreted")}


def test_help_lists_what_exists() -> None:
    text = run("--help").stdout
    assert "show " in text and "lint " in text and "fields " in text
    for line in text.partition("Commands:\n")[2].splitlines():
        assert run(line.split()[0], "--help").returncode == 0


def test_without_a_word_help_is_an_error() -> None:
    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (2, "", run("--help").stdout)


def test_options_of_tshark_are_answered_by_ours() -> None:
    done = run("show", "a.pcap", "-V")
    assert done.returncode == 2
    assert done.stderr.endswith("Error: No such option '-V'. Here: `show --format tree`.\n"), done.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [("shw", "did you mean `show`"), ("ru", "did you mean `rules`"), ("zzzzqq", "no such command"), ("", "no such command")],
)
def test_an_unknown_word(word: str, said: str) -> None:
    result = run(word)
    assert result.returncode == 2
    assert said in result.stderr


def test_a_file_in_place_of_a_command_opens_the_screen(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(erf_pcap([smp(1, 0x10)]))
    result = run(str(path))
    assert result.returncode == 2  # standard output is no terminal here
    assert "ibdissect show" in result.stderr


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"numpy", "click", "rich", "scapy", "textual", "lark", "dpkt"}
    assert not loaded("import ibdissect; ibdissect.__version__") & heavy
    assert not loaded("import ibdissect.cli, click") & (heavy - {"click"})
    asked = loaded("import ibdissect; ibdissect.open; import ibdissect.cli.show, ibdissect.cli.show_formats")
    assert not asked & {"scapy", "textual", "rich", "dpkt"}


def test_help_loads_neither_scapy_nor_textual() -> None:
    words = [["--help"], ["show", "--help"], ["fields", "--help"], ["lint", "--help"]]
    assert not loaded(f"from ibdissect.cli import run; [run(one) for one in {words!r}]") & {"scapy", "textual"}


def test_fields_lists_names() -> None:
    lines = run("fields", "bth.").stdout.splitlines()
    assert any(line.startswith("infiniband.bth.p_key ") for line in lines)
    assert run("fields", "no.such.name").returncode == 2
    assert '"name": "infiniband.bth.psn"' in run("fields", "bth.psn", "--format", "json").stdout


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    path, gone = tmp_path / "a.pcap", tmp_path / "gone"
    path.write_bytes(erf_pcap([smp(1, 0x10)]))
    gone.mkdir()
    before = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})"
    script = f"{before}\nfrom ibdissect.cli import run; run(['show', {str(path)!r}, '--count'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize("words", [["lint"], ["stats"], ["fabric"], ["show", "--format", "tree"]])
def test_colour_as_option_and_configuration_say(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(erf_pcap([smp(1, 0x10, modifier=1), smp(0x81, 0x10)]))
    (tmp_path / "ibdissect.toml").write_text('color = "always"')

    def coloured(*more: str, **env: str) -> bool:
        environment = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "NO_COLOR")} | env
        return b"\x1b[" in commands.run(*words, str(path), *more, cwd=tmp_path, env=environment).stdout

    assert coloured() and not coloured("--color", "never")
    (tmp_path / "ibdissect.toml").unlink()
    assert coloured("--color", "always") and not coloured()
    assert coloured(FORCE_COLOR="1") and not coloured("--color", "never", FORCE_COLOR="1")
    assert not coloured(FORCE_COLOR="1", NO_COLOR="1")
