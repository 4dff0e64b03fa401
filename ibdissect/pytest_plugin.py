"""Captures as tests: `pytest --ibdissect captures/` collects them; call `assert_clean(path)` in your own tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ibdissect.wire.text import counted, printable

SHOWN = 5
"""Findings per rule that a failure shows; it also gives their total number."""


WHOSE = pytest.StashKey[str]()
"""The configuration that decides about the captures, with its keys; empty if there is none."""

LINKS = pytest.StashKey[dict[tuple[int, int], Path]]()
"""The first link to each folder, by device and inode."""


class NotClean(AssertionError):
    """A capture has findings, or cannot be read."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ibdissect", "InfiniBand and RoCE captures")
    group.addoption("--ibdissect", action="store_true", help="collect captures (*.pcap, *.pcapng, *.erf ...) as tests")
    group.addoption("--ibdissect-select", action="append", default=[], metavar="CODES", help="only these rules: codes, prefixes, names")
    group.addoption("--ibdissect-ignore", action="append", default=[], metavar="CODES", help="not these rules")
    group.addoption("--ibdissect-fail-on", choices=("error", "warning", "info"), help="fail at this severity or worse (error)")
    group.addoption("--ibdissect-baseline", metavar="FILE", help="findings that are known and do not fail")
    group.addoption("--ibdissect-allow-empty", action="store_true", help="let a capture pass in which nothing could be checked")
    group.addoption(
        "--ibdissect-plugin", action="append", default=[], metavar="NAME", help="a plugin, as of `ibdissect --plugin`"
    )
    group.addoption("--ibdissect-config", metavar="FILE", help="configuration file (ibdissect.toml, pyproject.toml)")


def pytest_configure(config: pytest.Config) -> None:
    """Learn which configuration the captures are checked by; one that is wrong ends the run before its first test."""
    if not config.getoption("--ibdissect"):
        return
    from ibdissect.cli.config import read_config
    from ibdissect.errors import IbdissectError
    from ibdissect.report import Followed

    try:
        settings = read_config(config.getoption("--ibdissect-config"))
    except IbdissectError as error:
        raise pytest.UsageError(f"ibdissect: {printable(str(error))}") from None
    options = {"select": "select", "fail_on": "fail-on", "baseline": "baseline"}
    keys = settings.followed(*(name for name, option in options.items() if config.getoption(f"--ibdissect-{option}")))
    config.stash[WHOSE] = Followed(settings.shown, keys).text if keys else ""


def pytest_report_header(config: pytest.Config) -> str | None:
    """Which configuration the captures are checked by: a green run says whose rules it followed."""
    whose = config.stash.get(WHOSE, "")
    return f"ibdissect: {whose}" if whose else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The same at the end with -q, which leaves out the header."""
    if config.get_verbosity() < 0 and (whose := config.stash.get(WHOSE, "")):
        terminalreporter.write_line(f"ibdissect: {whose}")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not parent.config.getoption("--ibdissect") or file_path.suffix == ".py":  # Python tests are pytest's
        return None
    from ibdissect.capture.path_arguments import is_capture

    # Like `ibdissect lint`, accept any file given explicitly, whatever its name.
    if not parent.session.isinitpath(file_path) and not is_capture(str(file_path)):
        return None
    return _capture(parent, file_path)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Enter each folder that links lead to once: two links that lead back would be followed for ever."""
    if not config.getoption("--ibdissect") or not collection_path.is_symlink() or not collection_path.is_dir():
        return None
    status, links = collection_path.stat(), config.stash.setdefault(LINKS, {})
    return links.setdefault((status.st_dev, status.st_ino), collection_path) != collection_path or None


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A folder of the kernel is a capture that cannot be read: there is no end to what it leads to."""
    if not parent.config.getoption("--ibdissect"):
        return None
    from ibdissect.capture.folders import why_not_searched

    return _capture(parent, path) if why_not_searched(str(path)) else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Add what pytest passes over in a folder: links to nothing, pipes, sockets and devices with the name of a capture, which fail."""
    report = yield
    if collector.config.getoption("--ibdissect") and isinstance(collector, pytest.Directory) and report.passed:
        from ibdissect.capture.path_arguments import is_capture

        for path in sorted(collector.path.iterdir()):
            if os.path.isfile(path) or os.path.isdir(path) or not is_capture(str(path)):
                continue
            if not collector.ihook.pytest_ignore_collect(collection_path=path, config=collector.config):
                report.result.append(_capture(collector, path))
    return report


def _capture(parent: pytest.Collector, path: Path) -> pytest.Collector:
    """A capture's node. What pytest prints of it, and writes for a CI system, is the id, in which nothing can control a terminal."""
    root = parent.config.rootpath
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    node: pytest.Collector = CaptureFile.from_parent(parent, path=path, name=printable(path.name), nodeid=printable(name))
    return node


class CaptureFile(pytest.File):
    """A capture, as a file with one test."""

    def collect(self) -> Iterator[pytest.Item]:
        yield CaptureItem.from_parent(self, name="lint")


class CaptureItem(pytest.Item):
    """Passes if the capture has no findings at or above the severity."""

    def runtest(self) -> None:
        names = ("select", "ignore", "fail_on", "baseline", "config", "allow_empty")
        given = {name: self.config.getoption(f"--ibdissect-{name.replace('_', '-')}") for name in names}
        from ibdissect.capture.file_names import Irregular
        from ibdissect.capture.folders import why_not_searched

        below = self.path.is_relative_to(Path.cwd())
        plugins = self.config.getoption("--ibdissect-plugin")
        path = str(self.path.relative_to(Path.cwd()) if below else self.path)
        if whose := self.config.stash[WHOSE]:
            self.user_properties.append(("ibdissect", whose))
        reason = why_not_searched(path) if self.path.is_dir() else ""
        assert_clean(path if self.path.is_file() else Irregular(path, reason), plugins=plugins, **given)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The findings, without a traceback."""
        from ibdissect.errors import IbdissectError

        if isinstance(excinfo.value, (NotClean, IbdissectError)):
            return "\n".join(map(printable, str(excinfo.value).split("\n")))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return Path(printable(str(self.path))), None, printable(f"ibdissect lint {self.path.name}")


def assert_clean(
    path: str | os.PathLike[str],
    *,
    ignore: Iterable[str] | str = (),
    select: Iterable[str] | str = (),
    fail_on: str | None = None,
    baseline: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    plugins: Iterable[str] = (),
    allow_empty: bool = False,
) -> None:
    """Fail the test if a capture has findings at or above `fail_on` (default: from the configuration, or error), or if nothing in it could
    be checked, unless `allow_empty`.

    `ignore` and `select` take codes, prefixes and names. The configuration is the given file, or the nearest one above the
    working directory. Raises NotClean (an AssertionError) with the findings, or IbdissectError if an option is wrong.
    """
    __tracebackhide__ = True
    from ibdissect.cli.baselines import KnownFindings
    from ibdissect.cli.common_options import CommonOptions
    from ibdissect.cli.effective_options import check_options
    from ibdissect.cli.lint import RANKS
    from ibdissect.errors import ConfigError
    from ibdissect.pipeline.check import check
    from ibdissect.report import Run
    from ibdissect.report.concise_and_full import full_capture

    common = CommonOptions(config=os.fspath(config) if config is not None else None, plugins=tuple(plugins))
    options = check_options(common, selected=select, ignored=ignore, max_findings=SHOWN)
    least = fail_on or common.settings.fail_on or "error"
    if least not in RANKS:
        raise ConfigError("assert_clean", "fail_on", f"{least!r} is none of {', '.join(RANKS)}")
    known = os.fspath(baseline) if baseline is not None else common.settings.baseline
    named = common.named_files("baseline", by_user=baseline is not None)
    compared = KnownFindings(known, None, options, [os.fspath(path)], named) if known is not None else None
    report = check(os.fspath(path), options)
    report.judge_emptiness(allowed=allow_empty or bool(common.settings.allow_empty))
    if compared is not None:
        compared.apply(report)
    if report.error is not None:
        found = full_capture(report, Run())
        what = {"unreadable": "not readable", "empty": "not checked"}.get(report.status, "not checked to the end")
        raise NotClean(f"{what}: {printable(report.error)}\n{found}".rstrip())
    bad = [finding for finding in report.findings if finding.severity.rank >= RANKS[least]]
    if not bad:
        return
    report.findings = bad
    report.by_rule = {code: count for code, count in report.by_rule.items() if any(finding.code == code for finding in bad)}
    count = sum(report.by_rule.values())
    codes = ", ".join(report.by_rule)
    head = f"{printable(os.fspath(path))}: {counted(count, 'finding')} at or above {least} ({codes})"
    raise NotClean(f"{head}\n{full_capture(report, Run())}Explain a rule: ibdissect rules {bad[0].code}")


@pytest.fixture(name="assert_clean", scope="session")
def _assert_clean() -> Callable[..., None]:
    """The function `assert_clean(path, ignore=...)` as a fixture."""
    return assert_clean
