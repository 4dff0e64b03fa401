"""The package installs with and without Cython and a compiler, and says what was built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from ibdissect import c_code
from ibdissect.cli import _failed
from ibdissect.report import FORMATS
from tests.commands import run
from tests.conftest import REPO


def test_the_version_says_what_was_compiled() -> None:
    said = run("--version", text=True).stdout
    built = any((REPO / "ibdissect/engine").glob("locate.*.so"))
    assert re.match(rf"ibdissect \d+\.\d+\.\d+\S* \({'compiled' if built else 'interpreted'} engine", said)
    assert ("slowly" in said) == (c_code.sums is None)


def test_modules_of_another_build_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """As after `git pull` in a checkout."""
    assert _failed(ImportError("cannot import name 'b16'", name="ibdissect.engine.common")) == 2
    assert capsys.readouterr().err.startswith("error: the compiled engine is not that of this source: install ibdissect again")


def without_cython(folder: Path) -> str:
    """A PYTHONPATH on which Cython cannot be imported."""
    (folder / "Cython").mkdir(parents=True)
    (folder / "Cython/__init__.py").write_text("raise ImportError\n")
    return str(folder)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("setuptools_scm") is None, reason="needs setuptools-scm")
@pytest.mark.parametrize("missing", ["compiler", "Cython"])
def test_a_wheel_is_built_without(missing: str, tmp_path: Path) -> None:
    """The engine then runs interpreted."""
    source, nothing, out = tmp_path / "source", tmp_path / "nothing", tmp_path / "out"
    source.mkdir()
    files = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in files:
        if name.startswith("ibdissect/") or name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPO / name).read_bytes())
    environment = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": "1.2.3", **({"CC": "/bin/false"} if missing == "compiler" else {})}
    if missing == "Cython":
        environment["PYTHONPATH"] = without_cython(nothing)
    words = [sys.executable, "setup.py", "-q", "bdist_wheel", "-d", str(out)]
    done = subprocess.run(words, cwd=source, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert not [name for name in opened.namelist() if name.startswith("ibdissect/engine/") and name.endswith(".so")]
        opened.extractall(tmp_path / "installed")
    said = subprocess.run(
        [sys.executable, "-m", "ibdissect", "--version"], cwd=tmp_path / "installed", capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert said.startswith("ibdissect 1.2.3 (interpreted engine")
    for form in FORMATS:
        words = [sys.executable, "-m", "ibdissect", "lint", "--format", form, str(REPO / "captures/pkey-lab.pcap")]
        done = subprocess.run(words, cwd=tmp_path / "installed", capture_output=True, timeout=120, check=False)
        assert done.returncode == 1 or b"needs jinja2" in done.stderr, (form, done.stderr)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("setuptools_scm") is None, reason="needs setuptools-scm")
def test_what_is_built_differs_in_the_version_only(tmp_path: Path) -> None:
    """A built package had a module without the functions that others import from it."""
    environment = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": "1.2.3", "PYTHONPATH": without_cython(tmp_path / "nothing")}
    words = [sys.executable, "setup.py", "-q", "egg_info", "-e", str(tmp_path), "build_py", "-d", str(tmp_path / "built")]
    before = tmp_path / "built/ibdissect/version.py"  # of an earlier build
    before.parent.mkdir(parents=True)
    before.write_text('VERSION = "1.2.2"\n')
    subprocess.run(words, cwd=REPO, env=environment, capture_output=True, timeout=120, check=True)
    built = {path.relative_to(tmp_path / "built"): path.read_text(encoding="utf-8") for path in (tmp_path / "built").rglob("*.py")}
    unlike = [path for path, text in built.items() if text != (REPO / path).read_text(encoding="utf-8")]
    assert len(built) > 100 and unlike == [Path("ibdissect/version.py")]
    source = (REPO / unlike[0]).read_text(encoding="utf-8")
    assert built[unlike[0]] == re.sub(r'(?m)^VERSION = ".*"$', 'VERSION = "1.2.3"', source) != source
