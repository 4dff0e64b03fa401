"""Plugins from a configuration that was found, not given, run only if the user trusts its folder, and never in CI."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ibdissect.cli import run
from tests.cli.followed import LAB, followed, here
from tests.commands import run as commanded
from tests.conftest import REPO


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a project's root, as an archive may contain; its captures are one folder below."""
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.delenv("CI", raising=False)
    folder = tmp_path / "sent"
    (folder / "captures").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / "ibdissect.toml").write_text('plugins = ["mine.py"]\nignore = ["TXN"]\n')
    (folder / "mine.py").write_text("")
    monkeypatch.chdir(folder / "captures")
    return folder


def loaded(*words: str) -> list[str]:
    """The plugins that a command in the working directory loads: it ends at once, as they declare nothing."""
    return re.findall(r"error: plugin (\S+?): declares nothing", here("show", LAB, "--count", *words)[2])


def refusals() -> str:
    """Why it loads none."""
    return "\n".join(followed()["#"])


def trusted() -> list[str]:
    """The folders that the user trusts."""
    return here("trust")[1].splitlines()


def test_what_was_found_runs_no_code_until_it_is_trusted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = followed()
    assert "plugins" not in found and "TXN" not in found["select"], "only code needs trust"
    assert f"its folder is not trusted (ibdissect trust {project})" in refusals()
    assert run(["trust", ".."]) == 0
    assert "mine.py" in capsys.readouterr().err
    assert loaded() == [str(project / "mine.py")]
    assert trusted() == [str(project)]
    assert run(["trust", "--forget", str(project)]) == 0
    assert loaded() == [] and trusted() == []


def test_trust_is_for_one_folder_and_its_real_path(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["trust", str(project)]) == 0
    (tmp_path / "link").symlink_to(project)
    monkeypatch.chdir(tmp_path / "link")
    assert loaded()
    for copy in (project / "captures", project / "captures" / "inner", tmp_path):
        copy.mkdir(exist_ok=True)
        (copy / "ibdissect.toml").write_text('plugins = ["other.py"]\n')
        monkeypatch.chdir(copy)
        assert not loaded(), copy


@pytest.mark.parametrize("what", ["folder", "configuration", "plugin"])
@pytest.mark.parametrize("how", ["everybody writes", "another owner"])
def test_what_others_may_have_written_since_is_not_trusted(what: str, how: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trust", str(project)]) == 0 and loaded()
    path = {"folder": project, "configuration": project / "ibdissect.toml", "plugin": project / "mine.py"}[what]
    mode = path.stat().st_mode
    path.chmod(mode | 0o020)
    assert loaded(), "a team may have a group"
    if how == "everybody writes":
        path.chmod(mode | 0o002)
    elif os.geteuid() == 0:
        os.chown(path, 12_345, -1)
    else:
        pytest.skip("only root can make another user's files")
    assert not loaded() and "plugins are not loaded, " in refusals()
    if what == "folder" and how == "another owner":
        capsys.readouterr()
        assert run(["trust", str(project)]) == 0 and loaded(), "the user may trust a folder of somebody else"
        assert run(["trust"]) == 0 and capsys.readouterr().out == f"{project}\n" * 2
        os.chown(path, 12_346, -1)
        assert not loaded()
        assert run(["trust", "--forget", str(project)]) == 0 and not trusted()


@pytest.mark.parametrize(
    ("value", "loads"), [("true", False), ("1", False), ("woodpecker", False), ("", True), ("0", True), ("false", True)]
)
def test_ci_loads_only_what_config_names(value: str, loads: bool, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["trust", str(project)]) == 0
    monkeypatch.setenv("CI", value)
    assert bool(loaded()) == loads
    assert loaded("--config", str(project / "ibdissect.toml")), "named: always"


def test_a_folder_without_a_configuration_cannot_be_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trust", str(tmp_path)]) == 2
    assert "holds no configuration" in capsys.readouterr().err and not trusted()


@pytest.mark.parametrize("name", ["--plugin=code.pcap", "--config=code.pcap", "-qxo"])
def test_a_file_name_that_a_glob_makes_an_option_is_refused(name: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ibdissect lint *` in a folder that an archive made."""
    here = project / "captures"
    (here / "code.pcap").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    (here / name).touch()
    assert run(["lint", *sorted(path.name for path in here.iterdir())]) == 2
    assert f"{name} is an option and a file here; write `./{name}`" in capsys.readouterr().err
    assert run(["lint", "--", name]) == 2
    assert "an option and a file" not in capsys.readouterr().err and not (here / "ran").exists()


@pytest.mark.parametrize("text", ['baseline = "known.json"', *(f'[site]\nsubnet = ["{name}"]' for name in ("known.json", "/proc", "/**"))])
@pytest.mark.parametrize("command", ["lint", "show"])
def test_what_was_found_opens_only_files_of_its_folder(text: str, command: str, tmp_path: Path) -> None:
    """A FIFO would hang every command, /proc and / would be read without end."""
    os.mkfifo(tmp_path / "known.json")
    (tmp_path / "ibdissect.toml").write_text(text)
    done = commanded(command, str(REPO / "captures/pkey-lab.pcap"), cwd=tmp_path, text=True)
    if command == "show" and "baseline" in text:
        assert done.returncode == 0
    else:
        key = "baseline" if "baseline" in text else "site.subnet"
        assert done.returncode == 2 and f"ibdissect.toml: {key}: " in done.stderr and "names regular files below its folder" in done.stderr


def test_a_file_that_is_found_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /proc/kmsg is, to which an archive may hold a link: a regular file that delivers nothing."""
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        monkeypatch.setattr(os.path, "isfile", os.path.exists)
        for name in ("ibdissect.toml", "pyproject.toml"):
            (tmp_path / name).symlink_to("pipe")
            monkeypatch.chdir(tmp_path)
            assert run(["show", str(REPO / "captures/pkey-lab.pcap"), "--count"]) == 0
            (tmp_path / name).unlink()
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("--fail-on", "error"), ["ignore", "severity"]),
        pytest.param((), ["ignore", "severity", "fail-on"], marks=pytest.mark.slow),
        pytest.param(("--select", "CAP"), ["ignore", "severity", "fail-on"], marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_every_output_says_whose_rules_were_followed(words: tuple[str, ...], keys: list[str], tmp_path: Path) -> None:
    (tmp_path / "ibdissect.toml").write_text('ignore = ["PKY"]\nfail-on = "never"\ncolor = "never"\n[severity]\nTXN = "info"\n')
    lab, forms = str(REPO / "captures/pkey-lab.pcap"), ("json", "sarif", "github", "markdown", "html", "junit")
    files = [word for form in forms for word in ("--output-file", f"{form}={form}")]
    printed = {"text": commanded("lint", lab, *files, *words, cwd=tmp_path, text=True).stdout}
    printed |= {form: (tmp_path / form).read_text(encoding="utf-8") for form in forms}
    said = f"configuration ibdissect.toml: {', '.join(keys)}"
    assert f"By {said}.\n" in printed["text"] and f"{said}\n" in printed["github"] and said in printed["html"]
    assert said in printed["markdown"].replace("\\", "")
    assert json.loads(printed["json"])["configuration"] == {"path": "ibdissect.toml", "keys": keys}
    (invocation,) = json.loads(printed["sarif"])["runs"][0]["invocations"]
    assert invocation["properties"]["configuration"] == {"path": "ibdissect.toml", "keys": keys}
    suite = ET.fromstring(printed["junit"])[0]
    assert [*map(dict, (one.attrib for one in suite[0]))] == [
        {"name": "configuration.path", "value": "ibdissect.toml"}, {"name": "configuration.keys", "value": ", ".join(keys)},
    ]  # fmt: skip
    told = commanded("lint", lab, "--format", "jsonl", *words, cwd=tmp_path, text=True).stderr
    assert told.splitlines().count(f"By {said}.") == 1, "nowhere else to say it"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("--fail-on", "error"), ["ignore", "severity"]), ((), ["ignore", "severity", "fail-on"]),
        (("--select", "CAP"), ["ignore", "severity", "fail-on"]),
    ],
)  # fmt: skip
def test_where_no_output_says_it_standard_error_does(words: tuple[str, ...], keys: list[str], tmp_path: Path) -> None:
    (tmp_path / "ibdissect.toml").write_text('ignore = ["PKY"]\nfail-on = "never"\ncolor = "never"\n[severity]\nTXN = "info"\n')
    lab, said = str(REPO / "captures/pkey-lab.pcap"), f"configuration ibdissect.toml: {', '.join(keys)}"
    for options in (("--format", "jsonl"), ("--format", "gitlab"), ("-q",)):  # nowhere else to say it
        assert commanded("lint", lab, *options, *words, cwd=tmp_path, text=True).stderr.splitlines().count(f"By {said}.") == 1
    for options in (("--format", "json"), ("-q", "--output-file", "junit=x.xml"), ("-q", "--config", "ibdissect.toml")):
        assert "configuration" not in commanded("lint", lab, *options, *words, cwd=tmp_path, text=True).stderr
    (tmp_path / "ibdissect.toml").write_text('color = "never"\n')
    printed = commanded("lint", lab, "--format", "json", cwd=tmp_path, text=True).stdout
    assert "configuration" not in json.loads(printed)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("sql", "{}", "select count(*) from findings"), marks=pytest.mark.slow),
        pytest.param(("export", "{}", "--findings", "-o", "x.jsonl"), marks=pytest.mark.slow),
        ("annotate", "{}", "-o", "x.pcapng"), ("diff", "{}", "{}"),
    ],
)  # fmt: skip
def test_every_command_with_findings_says_whose_rules_were_followed(words: tuple[str, ...], tmp_path: Path) -> None:
    filled = [word.format(REPO / "captures/rxe-nak-bad-rkey.pcap") for word in words]
    assert "configuration" not in commanded(*filled, cwd=tmp_path, text=True).stderr
    (tmp_path / "ibdissect.toml").write_text('select = ["SMP001"]\nfail-on = "never"\n')
    assert commanded(*filled, cwd=tmp_path, text=True).stderr.splitlines().count("By configuration ibdissect.toml: select.") == 1
