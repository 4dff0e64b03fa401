"""All that a release needs is there: the release script's checks, manual pages, places of the project."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ibdissect.cli import COMMANDS
from tests.cases import every
from tests.fuzz.targets import TARGETS

REPO = Path(__file__).resolve().parents[1]
NEED_EXTRAS = ("cloudpickle", "distributed", "dask", "fsspec")
"""Packages of the extras `remote` and `cluster`, which developers need not install."""


def release(folder: Path, *words: str) -> str:
    """What the release script says when it refuses."""
    done = subprocess.run([folder / ".ci/release", *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_release_is_refused_before_anything_is_tagged(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    for name in (".ci/release", "pyproject.toml"):
        shutil.copy(REPO / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 - 2026-11-30\n")

    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    assert "has changes" in release(tmp_path, "1.2.0")
    git("add", "-A")
    git("commit", "-qm", "x")
    assert "usage" in release(tmp_path)
    assert "not a version" in release(tmp_path, "1.2")
    assert "no heading '## 1.3.0 - " in release(tmp_path, "1.3.0")
    assert "write where the project lives" in release(tmp_path, "1.2.0")
    git("tag", "v1.2.0")
    assert "is there already" in release(tmp_path, "1.2.0")
    assert git("tag") == "v1.2.0\n"


def test_a_test_that_hangs_fails(pytestconfig: pytest.Config) -> None:
    pytest.importorskip("pytest_timeout")
    assert 0 < float(pytestconfig.getini("timeout")) <= 300
    extras = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(line.startswith("pytest-timeout") for line in extras["dev"])
    assert "\npytest-timeout==" in (REPO / ".ci/requirements.txt").read_text()


def test_every_command_has_a_manual_page() -> None:
    pytest.importorskip("click_man")
    pages = runpy.run_path(str(REPO / "docs/man_pages.py"))["man_pages"]()
    assert pages.keys() == {"ibdissect.1", *(f"ibdissect-{name}.1" for name in COMMANDS)}
    assert r"\-\-write\-baseline" in pages["ibdissect-lint.1"] and "PATH..." in pages["ibdissect-lint.1"]
    assert r"ibdissect\-follow \- Print the payload of messages" in pages["ibdissect-follow.1"].splitlines()
    assert not any("..." in page.split(".SH")[1] for page in pages.values()), "sentences are not cut"
    assert all(f"ibdissect-{name}(1)" in pages["ibdissect.1"] for name in COMMANDS)


def test_the_project_has_an_address() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"Source", "Documentation", "Changelog", "Issues"} <= project["urls"].keys()
    assert "version" in project["dynamic"]


def test_what_ci_installs_is_pinned_by_hash() -> None:
    """Every direct dependency, so that a new one is not forgotten."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (REPO / ".ci/requirements.txt").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([a-z0-9.-]+)==.* \\\n +--hash=sha256:", text, re.MULTILINE))
    extras = project["optional-dependencies"]
    wanted = {re.split(r"[\[<>=; ]", one)[0].lower() for one in (*project["dependencies"], *extras["dev"], *extras["docs"])}
    assert {re.sub("[._]", "-", name) for name in wanted} - {"ibdissect"} <= {name.replace(".", "-") for name in pinned}


INSTALLS = re.compile(r"""^.*\bpip(?:" | )(?!freeze|show|-audit)(?:-q )?(?:install|wheel|--|").*$|^.*\buv pip install.*$""", re.MULTILINE)
NOT_PINNED = {
    '"$pip" install -q "$@"': "outside GitHub, where the index has other files",
    'uv pip install --python "$RUNNER_TEMP/venv" --resolution "$RESOLUTION" -e \'.[dev]\'': "whether the bounds work is what it asks",
    'pip "$VERSION"': "what the user of the action names",
}
"""Installations without hashes, and why."""


@every("name", [".ci/run", ".ci/release", ".github/workflows/ci.yml", ".github/workflows/nightly.yml", "action.yml"])
def test_every_installation_is_pinned(name: str) -> None:
    """By hash, or of our own checkout or wheel with nothing to fetch."""
    found = INSTALLS.findall((REPO / name).read_text(encoding="utf-8"))
    lines = [line.strip() for line in found if not re.match(r"\s*(#|description:)", line)]
    assert lines
    for line in lines:
        pinned = "--require-hashes" in line or "--no-deps" in line or "--no-build-isolation" in line
        assert pinned or any(known in line for known in NOT_PINNED) or line.startswith("pip() {"), line
    for listed in set(re.findall(r"\.ci/\w+\.txt", (REPO / name).read_text(encoding="utf-8"))):
        text = (REPO / listed).read_text(encoding="utf-8")
        assert re.search(r"^[a-z0-9.-]+==", text, re.MULTILINE) and not re.search(r"^[^#\s][^\\]*$", text, re.MULTILINE), listed


def test_pre_commit_gets_only_files_that_were_checked_by_hash() -> None:
    """It installs the hook with a pip of its own, without the index."""
    text = (REPO / ".ci/run").read_text(encoding="utf-8")
    before, _, hooks = text.partition("export PIP_NO_INDEX=1 PIP_FIND_LINKS=$room/files")
    assert "try-repo" not in before and hooks.partition("unset PIP_NO_INDEX")[0].count("pre-commit try-repo") == 2
    downloads = re.findall(r"pip\" download .*", before)
    assert len(downloads) == 2 and all("--require-hashes" in line and '"$room/files"' in line for line in downloads)


def test_what_is_installed_and_what_builds_is_listed() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    for wanted, name in ((project["project"]["dependencies"], "installed"), (project["build-system"]["requires"], "build")):
        pinned = set(re.findall(r"^([a-z0-9.-]+)==", (REPO / f".ci/{name}.txt").read_text(encoding="utf-8"), re.MULTILINE))
        names = {re.sub("[._]", "-", re.split(r"[\[<>=; ]", one)[0].lower()) for one in wanted}
        assert names <= {one.replace(".", "-") for one in pinned}


@pytest.mark.slow
def test_the_site_is_built_without_what_developers_install() -> None:
    """`pip install '.[docs]' && mkdocs serve`: the page of a rule takes its example from the rule's proof, without pytest."""
    pytest.importorskip("mkdocs")
    code = (
        "import runpy, sys; sys.path.insert(0, '.'); sys.modules |= {'pytest': None, 'hypothesis': None}; "
        "site = runpy.run_path('docs/site.py'); rule = next(rule for rule in site['load']() if rule.code == 'PKY001'); "
        "print(site['example'](rule, site['proofs']()['PKY001']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=60, check=False)
    assert "limited" in done.stdout, done.stderr


def test_ci_runs_what_the_pages_say() -> None:
    """The lines are taken from the pages, so that what a newcomer types is what was tried."""
    lines = {page: subprocess.run([REPO / ".ci/documented", page], capture_output=True, text=True, check=True).stdout.splitlines()
             for page in ("README", "CONTRIBUTING")}  # fmt: skip
    assert len(lines["README"]) == 1 and lines["README"][0].startswith("pip install -e '.[dev]' && pytest")
    assert lines["CONTRIBUTING"] == ["python3 -m venv .venv && . .venv/bin/activate", "pip install -e '.[dev]'", "pytest"]
    script = (REPO / ".ci/run").read_text(encoding="utf-8")
    assert "$(.ci/documented README)" in script and "$(.ci/documented CONTRIBUTING)" in script
    workflow = (REPO / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert "-e '.[dev]'" in workflow and '-m pytest -m "not slow"' in workflow


def test_no_script_shadows_a_module_of_python() -> None:
    """Its folder comes first on the path: a `key_numbers.py` there broke NumPy in every other script."""
    scripts = {path.stem for path in (REPO / "benchmarks").glob("*.py")}
    assert len(scripts) > 10 and not scripts & sys.stdlib_module_names


def test_scripts_import_what_is_there() -> None:
    """Also inside their functions: nothing else runs them, and a name that had moved stopped one.

    What needs an extra is looked at where that is installed.
    """
    imported = set()
    for script in (REPO / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("ibdissect", "tests"):
                imported |= {(node.module, alias.name) for alias in node.names}
    assert len(imported) > 30
    for module, name in sorted(imported):
        try:
            where = importlib.import_module(module)
        except ModuleNotFoundError as error:
            assert str(error.name).split(".")[0] in NEED_EXTRAS
            continue
        assert hasattr(where, name) or importlib.import_module(f"{module}.{name}")


def test_the_targets_of_the_fuzzing_service_are_there() -> None:
    script = (REPO / ".clusterfuzzlite/build.sh").read_text(encoding="utf-8")
    named = re.search(r"for target in (.*); do", script)
    assert named is not None and set(named[1].split()) <= TARGETS.keys()
