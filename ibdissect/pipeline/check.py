"""The check of a capture, from opening it to finished findings. Used by `lint`, the Python interface and the terminal UI."""

from __future__ import annotations

from msgspec.structs import replace

from ibdissect.capture.compressed import Unpacking
from ibdissect.capture.file_names import CaptureSet
from ibdissect.capture.opening import Source
from ibdissect.errors import CaptureError, IbdissectError
from ibdissect.failures import Failures, collected
from ibdissect.lint.finding import CaptureReport

from .check_options import CheckOptions, Stop
from .make_linter import listed_ports
from .passes import CheckRun, carry_out
from .reading import Progress, Reading, division_of, open_reading

__all__ = ["CheckOptions", "Stop", "check", "check_reading"]


def check(source: Source, options: CheckOptions, *, progress: Progress | None = None, stop: Stop | None = None) -> CaptureReport:
    """Check one capture. Never raises because of its contents: an unreadable capture gives a report with an error."""
    try:
        Unpacking.most = options.max_unpacked or Unpacking.usual
        reading = open_reading(source, catalog=options.catalog, show_keys=options.show_keys)
    except CaptureError as error:
        if stop is not None and stop():
            return CaptureReport(path=error.path, status="interrupted")
        return CaptureReport(path=str(source) if isinstance(source, CaptureSet) else error.path, status="unreadable", error=str(error))
    with reading:
        return check_reading(reading, options, progress=progress, stop=stop)


def check_reading(reading: Reading, options: CheckOptions, *, progress: Progress | None = None, stop: Stop | None = None) -> CaptureReport:
    """Check an open capture from its beginning; it stays open."""
    try:
        with collected(Failures(show_keys=options.show_keys)) as failures:
            if options.selection is not None and (only := options.selection.filter) is not None and only.nodes:
                from .capture_nodes import ends_in

                only.know(ends_in(reading, options.subnet))
            if options.division.numbers:
                options = replace(options, division=division_of(reading, options.division, listed_ports(options)))
            return carry_out(CheckRun(reading, options, failures, progress, stop or (lambda: False)))
    except IbdissectError as error:
        return CaptureReport(path=reading.path, status="unreadable", error=str(error))
