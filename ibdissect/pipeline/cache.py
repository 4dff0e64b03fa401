"""The cache of reports: what an earlier check found in a capture with the same bytes, under the same rules and options."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct as Record

from ibdissect.capture.file_names import CaptureSet, Unit, files_of
from ibdissect.capture.file_owners import followed, private
from ibdissect.capture.remote import is_url
from ibdissect.errors import ConfigError
from ibdissect.lint.finding import CaptureReport
from ibdissect.version import VERSION

from .check import CheckOptions, Stop, check
from .reading import Progress

KEPT = ("ok", "truncated", "damaged")
"""Statuses of reports that are remembered: the check was completed."""
LEFT_OUT = ("rules", "causes", "catalog", "selection", "threads", "timing", "show_keys")
"""Options that do not change a report, or that are part of the key in another form."""
HASH = 64
"""Length of a SHA-256 in hex."""
MOST_BYTES = 1 << 28
"""Largest entry that is read or written: its text and what it is decoded to fit into the memory of a check."""


class Cache(Record, frozen=True):
    """Reports in a folder, one file each. Any number of processes may use it at a time."""

    folder: str
    key: bytes
    """Digest of version, rules, plugins and options."""
    refused: str = ""
    """Why the folder is not used: others may have written what is in it."""

    @staticmethod
    def of(folder: str, options: CheckOptions, *chosen: str | None) -> Cache:
        """The cache for checks with some options; `chosen` are the texts of -Y and --frames. ConfigError."""
        if options.show_keys or options.timing:
            option = "--show-keys" if options.show_keys else "--timing"
            reason = "keys are not stored" if options.show_keys else "times are those of this run"
            raise ConfigError("--cache", folder, f"cannot be used with {option}: {reason}")
        try:
            folder = followed(folder)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            refused = private(folder, folder=True)
        except OSError as error:
            raise ConfigError("--cache", folder, f"cannot be written: {error.strerror}") from error
        digest = hashlib.sha256(f"{VERSION}\n{[rule.code for rule in options.rules]}\n{chosen}\n".encode())
        for part in _sources(options.plugins):
            digest.update(part)
        digest.update(_stable({name: getattr(options, name) for name in options.__struct_fields__ if name not in LEFT_OUT}).encode())
        return Cache(folder, digest.digest(), refused)

    def check(self, unit: Unit, options: CheckOptions, *, progress: Progress | None = None, stop: Stop | None = None) -> CaptureReport:
        """The report on a capture or set, as `check` gives it: from the folder, or made and remembered."""
        before = _state(unit) if not self.refused else None
        place = self._place(unit, options) if before is not None else None
        if place is not None and (known := _read(place, options)) is not None:
            known.path = str(unit)
            for finding in known.findings:
                finding.capture = known.path
            return known
        report = check(unit, options, progress=progress, stop=stop)
        if place is not None and report.status in KEPT and report.error is None and _state(unit) == before:
            _write(place, report)
        return report

    def _place(self, unit: Unit, options: CheckOptions) -> Path | None:
        """The file for a capture's report; None if the capture cannot be read."""
        codes = [[rule.code for rule in some] for some in (options.rules_for(str(unit)), options.causes)]
        digest = hashlib.sha256(self.key + repr(codes).encode())
        try:
            for path in files_of(unit):
                if isinstance(unit, CaptureSet):
                    digest.update(b"%d:" % len(os.fsencode(path)) + os.fsencode(path))
                with open(path, "rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            return None
        name = digest.hexdigest()
        return Path(self.folder, name[:2], f"{name[2:]}.json")


def _state(unit: Unit) -> list[tuple[int, int]] | None:
    """Sizes and times of the files; None if one is not a regular file of this machine."""
    files = files_of(unit)
    if "-" in files or any(is_url(path) or not os.path.isfile(path) for path in files):
        return None
    return [(status.st_size, status.st_mtime_ns) for status in map(os.stat, files)]


def _read(place: Path, options: CheckOptions) -> CaptureReport | None:
    """A remembered report; None if there is none, or if the file is damaged or not ours: no check says something of rules that did not run,
    or has text that could control a terminal.
    """
    try:
        if private(place.parent, folder=True):
            return None
        with open(place, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            ours = not private(file.fileno(), folder=False) and os.fstat(file.fileno()).st_size <= MOST_BYTES
            data = file.read(MOST_BYTES) if ours else b""
        if data[:HASH] != _seal(place, data[HASH:]):
            return None
        report = msgspec.json.decode(data[HASH:], type=CaptureReport)
        names = {rule.code: rule.name for rule in options.rules}
        known = all(names.get(finding.code) == finding.name for finding in report.findings) and names.keys() >= report.by_rule.keys()
        if report.status not in KEPT or not known or not _visible(msgspec.to_builtins(report)):
            return None
        os.utime(place)  # so that old entries can be told from those in use
    except (OSError, RecursionError, msgspec.MsgspecError):
        return None
    return report


def _visible(value: Any) -> bool:
    """Whether all text in it is visible."""
    if isinstance(value, dict):
        return all(_visible(key) and _visible(one) for key, one in value.items())
    return all(map(_visible, value)) if isinstance(value, list | tuple) else not isinstance(value, str) or value.isprintable()


def _write(place: Path, report: CaptureReport) -> None:
    """Remember a report; a full disk is no reason to fail."""
    findings = [replace(finding, template="", arguments={}) for finding in report.findings]
    with suppress(OSError, TypeError, ValueError, msgspec.MsgspecError):
        data = msgspec.json.encode(msgspec.structs.replace(report, findings=findings))
        place.parent.mkdir(mode=0o700, exist_ok=True)
        if HASH + len(data) > MOST_BYTES or private(place.parent, folder=True):
            return
        descriptor, unfinished = tempfile.mkstemp(suffix=".part", dir=place.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_seal(place, data) + data)
            os.replace(unfinished, place)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)


def _seal(place: Path, data: bytes) -> bytes:
    """Checksum of an entry and its name, which detects damaged and renamed files."""
    return hashlib.sha256(f"{place.parent.name}{place.name}\n".encode() + data).hexdigest().encode()


def _sources(plugins: Iterable[str]) -> Iterator[bytes]:
    """The program itself, as sizes and times of its files, and the text of plugins: of a file, or all of a package."""
    own = sorted(Path(__file__).parents[1].rglob("*.py"))
    yield repr([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in own]).encode()
    for name in plugins:
        found = None if os.path.exists(name) else importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            files = sorted(path for folder in found.submodule_search_locations for path in Path(folder).rglob("*.py"))
        else:
            files = [Path(name if found is None else found.origin or name)]
        for path in files:
            yield name.encode() + path.read_bytes()


def _stable(value: Any) -> str:
    """A value as text that is the same in every process. ConfigError for what has no such form."""
    if isinstance(value, Enum):
        value = (type(value).__name__, value.value)
    elif isinstance(value, Record):
        value = (type(value).__name__, *(getattr(value, name) for name in value.__struct_fields__))
    elif isinstance(value, dict | set | frozenset):
        value = sorted(value.items() if isinstance(value, dict) else value, key=repr)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_stable, value))}]"
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    raise ConfigError("--cache", type(value).__name__, "is an option that cannot be compared with that of another run")
