"""The files for GitHub, GitLab, pre-commit and pytest work. Their own commands are run, as those services run them.

With IBDISSECT_WHEEL (a wheel of this version; .ci/run sets it) the steps that install are run too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.craft import erf_pcap, smp

pytestmark = pytest.mark.slow

yaml = pytest.importorskip("yaml")
REPO = Path(__file__).resolve().parents[1]
WHEEL = os.environ.get("IBDISSECT_WHEEL")
BAD = erf_pcap([smp(1, 0x10, modifier=1)])
CLEAN = erf_pcap([smp(1, 0x10)])
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
"""The command with which GitHub runs `shell: bash`."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project with a bad and a clean capture."""
    root = tmp_path / "checkout"
    (root / "captures").mkdir(parents=True)
    (root / "captures/bad.pcap").write_bytes(BAD)
    (root / "captures/clean one.pcap").write_bytes(CLEAN)
    return root


def installed(folder: Path) -> None:
    """A substitute for the environment that an install step creates."""
    program = folder / "bin" / "ibdissect"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{REPO}" exec "{sys.executable}" -m ibdissect "$@"\n')
    program.chmod(0o755)


def load(path: str) -> Any:
    return yaml.safe_load((REPO / path).read_text(encoding="utf-8"))


def outside(**more: str) -> dict[str, str]:
    """The environment without the variables of our own CI, which gives pytest options."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "RUNNER_", "CI_", "PYTEST_"))} | more


class Action:
    """Runs the steps of action.yml."""

    def __init__(self, checkout: Path, temp: Path, **inputs: str) -> None:
        self.action, self.cwd, self.temp = load("action.yml"), checkout, temp
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert not given.keys() - self.action["inputs"].keys()
        self.inputs = {name: given.get(name, one.get("default", "")) for name, one in self.action["inputs"].items()}
        self.out = temp / "output"

    def step(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a step by its name."""
        step = next(one for one in self.action["runs"]["steps"] if one.get("name") == name)
        assert step["shell"] == "bash" and "${{" not in step["run"], "inputs reach a script through its environment only"
        environment = {key: self._value(text) for key, text in step.get("env", {}).items()}
        environment |= {"RUNNER_TEMP": str(self.temp), "GITHUB_OUTPUT": str(self.out), "GITHUB_ACTIONS": "true"}
        environment |= {"GITHUB_ACTION_PATH": str(REPO)}
        return subprocess.run(
            [*BASH, step["run"]], cwd=self.cwd, env=outside(**environment), capture_output=True, text=True, timeout=600, check=False
        )

    def _value(self, text: str) -> str:
        found = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text)
        assert found is not None, text
        return str(self.inputs[found[1]])


CHECK = "Check the captures"


def test_the_action_annotates_and_fails(checkout: Path, tmp_path: Path) -> None:
    installed(tmp_path / "ibdissect")
    action = Action(checkout, tmp_path, report="out.sarif")
    done = action.step(CHECK)
    assert done.returncode == 1, done.stderr
    assert "::error file=captures/bad.pcap,title=AM001" in done.stdout
    assert action.out.read_text() == "status=1\n"
    assert json.loads((checkout / "out.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "AM001"


def test_the_action_takes_paths_and_arguments_line_by_line(checkout: Path, tmp_path: Path) -> None:
    installed(tmp_path / "ibdissect")
    clean = Action(checkout, tmp_path, paths="captures/clean one.pcap\n\n")
    assert (clean.step(CHECK).returncode, clean.out.read_text()) == (0, "status=0\n")
    quiet = Action(checkout, tmp_path, paths="captures/*.pcap\n", arguments="--ignore\nAM001\n--fail-on=info\n--select=AM\n")
    assert quiet.step(CHECK).returncode == 0
    hostile = Action(checkout, tmp_path, paths='captures"; touch pwned; echo "')
    assert hostile.step(CHECK).returncode == 2 and not (checkout / "pwned").exists()
    assert "status=2" in hostile.out.read_text()


@pytest.mark.skipif(WHEEL is None, reason="needs IBDISSECT_WHEEL, as .ci/run sets it")
def test_the_action_installs(checkout: Path, tmp_path: Path) -> None:
    action = Action(checkout, tmp_path, version=str(WHEEL))
    done = action.step("Install ibdissect")
    assert done.returncode == 0, done.stderr
    assert action.step(CHECK).returncode == 1


def test_the_github_example_gives_inputs_that_exist(repo: Path) -> None:
    (job,) = load("docs/examples/github-ci.yml")["jobs"].values()
    steps = job["steps"]
    ours = next(step for step in steps if "ibdissect@" in step["uses"])
    assert ours["with"].keys() <= load("action.yml")["inputs"].keys()
    assert next(step for step in steps if "upload-sarif" in step["uses"])["with"]["sarif_file"] == ours["with"]["report"]


WORKFLOWS = [f".github/workflows/{name}.yml" for name in ("ci", "fuzz", "nightly")]


@pytest.mark.parametrize("path", ["action.yml", "docs/examples/github-ci.yml", *WORKFLOWS])
def test_actions_are_pinned_and_may_do_little(path: str) -> None:
    text = (REPO / path).read_text(encoding="utf-8")
    used = re.findall(r"uses: *(\S+)", text)
    assert used and all(re.search("@[0-9a-f]{40}$", one) for one in used)
    for job in load(path).get("jobs", {}).values():
        assert load(path)["permissions"] in ({}, {"contents": "read"})
        assert job.get("permissions", {}) in ({}, {"contents": "read", "security-events": "write"})


def test_nothing_is_installed_by_a_name_that_somebody_else_may_own() -> None:
    """The name stands in no index yet: what is installed is named by its place, except extras of what is installed already."""
    bare = re.compile(r"(?:pipx?|uv\w*) (?:install|run|tool install)[^`|]*[\s'\"]ibdissect(?:[=<>'\"\s]|$)")
    pages = [REPO / "README.md", REPO / "action.yml", *(REPO / "docs").rglob("*.md"), *(REPO / "docs/examples").glob("*ci*")]
    for page in pages:
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not bare.search(line), f"{page}: {line}"


def gitlab(checkout: Path, part: str) -> subprocess.CompletedProcess[str]:
    """Run a part of the GitLab job like its runner: line by line in one shell that stops at an error."""
    job = load("docs/examples/gitlab-ci.yml")["captures"]
    script = "set -eo pipefail\n" + "\n".join(job[part])
    environment = outside(IBDISSECT=WHEEL or "")
    return subprocess.run(["bash", "-c", script], cwd=checkout, env=environment, capture_output=True, text=True, timeout=600, check=False)


def test_the_gitlab_job_reports_and_fails(checkout: Path) -> None:
    if WHEEL is None:
        installed(checkout / ".ibdissect")
    else:
        assert gitlab(checkout, "before_script").returncode == 0
    done = gitlab(checkout, "script")
    assert done.returncode == 1 and "AM001" in done.stdout
    reports = load("docs/examples/gitlab-ci.yml")["captures"]["artifacts"]["reports"]
    suites = ElementTree.parse(checkout / reports["junit"]).getroot()
    assert suites.get("failures") == "1" and len(suites) == 2
    (issue,) = json.loads((checkout / reports["codequality"]).read_text())
    assert (issue["check_name"], issue["severity"], issue["location"]["path"]) == ("AM001", "major", "captures/bad.pcap")
    (checkout / "captures/bad.pcap").unlink()
    assert gitlab(checkout, "script").returncode == 0


def hook() -> dict[str, Any]:
    (found,) = load(".pre-commit-hooks.yaml")
    return dict(found)


def test_the_hook_takes_what_lint_takes_in_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no capture")
    named = commands.run("lint", str(tmp_path / "empty"), text=True).stderr.partition("captures are named ")[2]
    packed = commands.run("lint", str(tmp_path / "text"), text=True).stderr.partition("ERF, also ")[2]
    suffixes, packs = re.findall(r"\*(\.\w+)", named), ["", *re.findall(r"\.\w+", packed)]
    assert len(suffixes) >= 6 and len(packs) >= 6
    for name in (suffix + pack for suffix in suffixes for pack in packs):
        assert re.search(hook()["files"], f"deep/a{name}") and re.search(hook()["files"], f"A{name.upper()}")
    for name in ("a.pcap.txt", "pcap", "a.pcapx", "notes.md", "erf"):
        assert not re.search(hook()["files"], name)


def committed(files: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the hook like pre-commit: its entry with the arguments and the files."""
    program, *rest = hook()["entry"].split()
    assert program == "ibdissect"
    return subprocess.run(
        [sys.executable, "-m", "ibdissect", *rest, *words, *files], cwd=REPO, env=outside(), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


def test_the_hook_passes_over_our_captures_with_what_is_known() -> None:
    files = [str(path.relative_to(REPO)) for path in sorted((REPO / "captures").iterdir()) if re.search(hook()["files"], path.name)]
    assert len(files) > 4
    (config,) = load("docs/examples/pre-commit-ci.yaml")["repos"]
    (example,) = config["hooks"]
    assert example["id"] == hook()["id"]
    assert committed(files).returncode == 1
    done = committed(files, *example["args"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pytest_example_and_our_captures(tmp_path: Path) -> None:
    shutil.copytree(REPO / "captures", tmp_path / "captures")
    shutil.copy(REPO / "docs/examples/test_captures_ci.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-p", "ibdissect.pytest_plugin", "-p", "no:cacheprovider", "--color=no", "-v"]
    environment = outside(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONPATH=str(REPO))
    words = ["--ibdissect", "--ibdissect-baseline", "captures/known.json", "captures", "test_captures_ci.py"]
    done = subprocess.run([*command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "captures/pkey-lab.pcap::lint PASSED" in done.stdout and "test_nothing_is_wrong[rxe-rping.pcap] PASSED" in done.stdout
