"""The configuration reaches the check: path ignores, severities, rule options, site policy, rules, plugins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import commands
from tests.craft import erf_pcap, gmp, rc, smp

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[2]
BAD = erf_pcap([smp(1, 0x10, modifier=1)])
PLUGIN = """
from pathlib import Path
from ibdissect.lint.rule import Rule
from ibdissect.wire.mad import MAD
Path(__file__).with_suffix(".ran").touch()

class Mine(Rule):
    \"\"\"Any SMP.\"\"\"
    code, name = "MINE001", "any-smp"
    on, when, message, at = MAD, MAD.mgmt_class > 0, "an SMP", MAD.mgmt_class
"""
RULE = """
[[rule]]
code = "OURS001"
name = "own-rule"
when = "infiniband.bth.p_key == 0x8001"
message = "P_Key 1"
"""


def lint(cwd: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "GITHUB_ACTIONS"} | {"PYTHONPATH": str(REPO)} | env
    return commands.run("lint", *words, cwd=cwd, env=environment, text=True)


def findings(cwd: Path, *words: str) -> list[tuple[str, str, str]]:
    """(capture, code, severity) of everything found."""
    done = lint(cwd, "--format", "json", *words)
    assert done.returncode in (0, 1), done.stderr
    return [(f["capture"], f["code"], f["severity"]) for f in json.loads(done.stdout)["findings"]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with captures below its root."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "captures/old").mkdir(parents=True)
    (tmp_path / "captures/a.pcap").write_bytes(BAD)
    (tmp_path / "captures/old/b.pcap").write_bytes(BAD)
    return tmp_path


def test_paths_are_ignored_from_wherever_and_in_every_process(project: Path) -> None:
    (project / "ibdissect.toml").write_text('select = "AM"\n[per-path-ignores]\n"captures/old/**" = "AM001"\n')
    assert findings(project, "captures") == [("captures/a.pcap", "AM001", "error")]
    assert findings(project, "captures", "--jobs", "2") == [("captures/a.pcap", "AM001", "error")]
    assert findings(project / "captures", ".") == [("./a.pcap", "AM001", "error")]


def test_severities_by_code_prefix_and_name(project: Path) -> None:
    (project / "ibdissect.toml").write_text('select = ["AM"]\n[severity]\nAM = "warning"\nAM001 = "info"\n')
    assert {severity for _, _, severity in findings(project, "captures/a.pcap")} == {"info"}
    (project / "ibdissect.toml").write_text('select = ["AM"]\n[severity]\nAM = "warning"\n')
    assert {severity for _, _, severity in findings(project, "captures/a.pcap")} == {"warning"}


@pytest.mark.parametrize(
    "given", ['AM = "warning"\nAM001 = "info"', 'AM001 = "info"\nAM = "warning"', '"{name}" = "info"', 'AM001 = "info"']
)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_configured_severity_is_not_lost(project: Path, given: str, jobs: str) -> None:
    """In whatever order it is written, in each process, in the findings, the totals and the exit status."""
    from ibdissect.rules import load

    name = next(rule.name for rule in load() if rule.code == "AM001")
    (project / "ibdissect.toml").write_text('select = ["AM"]\n[severity]\n' + given.format(name=name) + "\n")
    done = lint(project, "--format", "json", "--jobs", jobs, "captures/a.pcap", "captures/old/b.pcap")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and {f["severity"] for f in report["findings"]} == {"info"}
    assert " error AM001" not in lint(project, "--jobs", jobs, "captures").stdout
    (project / "ibdissect.toml").write_text('select = ["AM"]\n[severity]\nAM001 = "error"\n')
    assert lint(project, "--jobs", jobs, "captures").returncode == 1


def test_rule_options_move_the_threshold(project: Path) -> None:
    frames = [gmp(4, 0x01, 0x12), gmp(4, 0x81, 0x12, slid=2, dlid=1), gmp(4, 0x01, 0x12, header={"transaction_id": 9}), rc(0x04, bytes(16))]
    (project / "captures/a.pcap").write_bytes(erf_pcap(frames, step_ns=1_200_000_000))
    words = ("captures/a.pcap", "--select", "TXN001")
    assert [code for _, code, _ in findings(project, *words)] == ["TXN001"]
    (project / "ibdissect.toml").write_text("[options.TXN001]\npatience = 5\n")
    assert findings(project, *words) == []


def test_site_policy_and_own_rules(project: Path) -> None:
    (project / "captures/a.pcap").write_bytes(erf_pcap([rc(0x04, bytes(16), bth={"p_key": 0x8001, "destqp": 0x48})]))
    (project / "captures/old/b.pcap").write_bytes(erf_pcap([rc(0x04, bytes(16), bth={"p_key": 0x8002, "destqp": 0x48})]))
    (project / "ibdissect.toml").write_text(RULE + "[site]\nno-partitions = [2]\n")
    alone = findings(project, "captures")
    assert ("captures/a.pcap", "OURS001", "warning") in alone
    assert findings(project, "captures", "--jobs", "2") == alone
    text = lint(project, "captures", "--format", "full").stdout
    assert "captures/old/b.pcap:1: " in text and "the site's policy does not allow that partition" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('selekt = ["PKY"]', "selekt: there is no such key; did you mean select?"),
        ('ignore = ["PKX001"]', "ignore: no rule has the code or name PKX001; did you mean PK"),
        ('[severity]\nPKY0001 = "info"', "severity: no rule has the code or name PKY0001; did you mean PKY001?"),
        ('[per-path-ignores]\n"x" = ["NOPE"]', 'per-path-ignores."x": no rule has the code or name NOPE'),
        ("[options.TXN001]\npatients = 1", "options.TXN001.patients: there is no such option; did you mean patience?"),
        ("[site]\npartition = [1]", "site.partition: there is no such key; did you mean partitions?"),
        ('[[rule]]\ncode = "OURS001"', "is missing"),
        (
            RULE.replace("OURS001", "PKY001"),
            f"rule 1, code: rule PKY001 is already LimitedToLimited ({REPO}/ibdissect/rules/PKY/limited_to_limited.py)",
        ),
        ('rule = "x"', "rule: must be an array of tables"),
        ("per-path-ignores = 3", "per-path-ignores: must be a table"),
        ('[options]\nTXN001 = "x"', "options.TXN001: must be a table"),
        ("site = 1", "site: must be a table"),
        ("baseline = 1", "baseline: must be the name of a file"),
    ],
)
def test_mistakes_stop_the_run_and_are_named(project: Path, text: str, said: str) -> None:
    (project / "ibdissect.toml").write_text(text)
    done = lint(project, "captures/a.pcap")
    assert done.returncode == 2 and done.stdout == ""
    assert "ibdissect.toml: " in done.stderr and said in done.stderr and "Traceback" not in done.stderr


def test_the_table_of_pyproject_is_the_same(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.ibdissect]\nselect = ["PKY"]\n[tool.ibdissect.severity]\nPKY001 = "info"\n')
    assert findings(project, "captures/a.pcap") == []
    (project / "pyproject.toml").write_text("[tool]\nibdissect = 1\n")
    assert lint(project, "captures/a.pcap").returncode == 2


def test_plugins_run_only_from_a_trusted_folder_or_a_file_that_was_named(project: Path) -> None:
    (project / "ibdissect.toml").write_text('plugins = ["mine.py"]\n')
    (project / "mine.py").write_text(PLUGIN)
    ran, home = project / "mine.ran", str(project / "home")
    done = lint(project, "captures/a.pcap", "--format", "json", XDG_CONFIG_HOME=home, CI="")
    assert not ran.exists() and "MINE001" not in done.stdout and "is not trusted" in done.stderr
    assert "MINE001" in lint(project, "captures/a.pcap", "--config", "ibdissect.toml", XDG_CONFIG_HOME=home, CI="").stdout and ran.exists()
    environment = os.environ | {"PYTHONPATH": str(REPO), "XDG_CONFIG_HOME": home}
    subprocess.run([sys.executable, "-m", "ibdissect", "trust", "."], cwd=project, env=environment, timeout=120, check=True)
    assert "MINE001" in lint(project, "captures/a.pcap", XDG_CONFIG_HOME=home, CI="").stdout
    assert "this is CI" in lint(project, "captures/a.pcap", XDG_CONFIG_HOME=home, CI="true").stderr


def test_the_terminal_ui_refuses_it_too(project: Path) -> None:
    (project / "ibdissect.toml").write_text('ignore = ["PKX001"]\n')
    environment = os.environ | {"PYTHONPATH": str(REPO), "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}
    done = commands.run("tui", "captures/a.pcap", cwd=project, env=environment, text=True)
    assert done.returncode == 2 and "ignore: no rule has the code or name PKX001" in done.stderr and done.stdout == ""
