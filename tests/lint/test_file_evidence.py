"""A finding names the lines of subnet files that it rests on, and is an info when they need not be true."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ibdissect.lint.finding import Finding, Severity
from ibdissect.subnet.files import SubnetFile
from tests.cases import every
from tests.craft import erf_pcap, rc
from tests.rules.findings import rules
from tests.rules.test_rules import lint
from tests.subnet.files.made_files import parsed
from tests.subnet.files.samples import SAMPLES
from tests.subnet.test_refuted_facts import ACK, SEND, table

COLLECTED_NS, STALE_NS = 86_400 * 10**9, 7 * 86_400 * 10**9
NOW = 2 * STALE_NS
"""When the packets are sent."""


def known(lid: int, time_ns: int, path: str = "", **more: Any) -> SubnetFile:
    """The P_Key table of a port, read at some time."""
    file = table(lid, "0x1234", time_ns)
    file.known = replace(file.known, path=path or file.known.path, **more)
    return file


def found(*files: SubnetFile, frames: tuple[bytes, ...] = (SEND,)) -> Finding:
    """Two limited members talk, according to the files."""
    (one,) = lint(erf_pcap(frames, start_ns=NOW, step_ns=0), known=files, rules=[rules()["PKY001"]])
    return one


def said(one: Finding) -> dict[str, str]:
    """What each file proves, without what it shows."""
    return {each.file: each.why.partition("; ")[2] for each in one.related if each.file}


def test_a_finding_names_its_lines() -> None:
    one = found(known(5, NOW, "five"))
    assert one.severity is Severity.ERROR and said(one) == {"five": ""}
    assert [(each.frame, each.place) for each in one.related if each.file] == [
        (0, f"five:{each.line}") for each in one.related if each.line
    ]


@every(
    ("time_ns", "more", "stale"),
    [
        (NOW - STALE_NS, {}, False), (NOW - STALE_NS - 1, {}, True), (NOW - STALE_NS - 1, {"exact": True}, True),
        (NOW + STALE_NS, {"exact": True}, False), (NOW + STALE_NS + 1, {"exact": True}, True), (NOW + STALE_NS + 1, {}, False),
        (1, {}, True), (0, {"exact": True}, False), (0, {}, False), (NOW - STALE_NS - 1, {"lasting": True}, False),
    ],
)  # fmt: skip
def test_how_old_a_file_may_be(time_ns: int, more: dict[str, Any], stale: bool) -> None:
    """A week, before or after; a time of 0 is unknown, and the file system's may be that of a copy; some files hold until somebody changes
    them."""
    one = found(known(5, time_ns, "file", **more))
    assert one.severity is (Severity.INFO if stale else Severity.ERROR)
    date = {1: "1970-01-01", NOW - STALE_NS - 1: "1970-01-07", NOW + STALE_NS + 1: "1970-01-22"}.get(time_ns)
    assert said(one) == {"file": f"as of {date}, may be stale" if stale else ""}


def test_what_the_files_do_not_say_for_certain() -> None:
    """A list of LIDs may have been cut."""
    file = parsed("guid2lid", SAMPLES["guid2lid"])[0]
    file.known = replace(file.known, time_ns=NOW)
    sent = rc(4, bytes(8), slid=3, dlid=9)
    (one,) = lint(erf_pcap([sent], start_ns=NOW), known=[file], rules=[rules()["LNK020"]])
    assert one.severity is Severity.INFO and said(one) == {"guid2lid": "in doubt, as the files do not say enough"}


@every(("before_ns", "stale"), [(3600 * 10**9, False), (3600 * 10**9 + 1, True)])
def test_hosts_may_have_come_within_an_hour(before_ns: int, stale: bool) -> None:
    file = parsed("ibnetdiscover", SAMPLES["ibnetdiscover"])[0]
    file.known = replace(file.known, time_ns=NOW - before_ns)
    (one,) = lint(erf_pcap([rc(4, bytes(8), slid=3, dlid=99)], start_ns=NOW), known=[file], rules=[rules()["LNK020"]])
    assert one.severity is (Severity.INFO if stale else Severity.WARNING)


@every(("later_ns", "doubted"), [(-1, True), (0, True), (COLLECTED_NS, True), (COLLECTED_NS + 1, False)])
def test_files_of_one_day_are_doubted_together(later_ns: int, doubted: bool) -> None:
    """A file whose line the traffic refutes takes all along that are not more than a day newer; the others are still believed."""
    refutes = rc(ACK, slid=7, dlid=3, bth={"p_key": 0x9234})
    one = found(known(7, NOW, "refuted"), known(5, NOW + later_ns, "file"), frames=(SEND, refutes))
    assert one.severity is (Severity.INFO if doubted else Severity.ERROR)
    assert said(one) == {"file": "in doubt, as traffic refutes a file of that time" if doubted else ""}


@every(("days", "lids", "doubted"), [(3, (7,), False), (3, (7, 8), True), (3, (8,), True), (7, (7, 8), False)])
def test_the_newest_refuted_file_counts(days: int, lids: tuple[int, ...], doubted: bool) -> None:
    times = {7: NOW, 8: NOW + 5 * COLLECTED_NS, 5: NOW + days * COLLECTED_NS}
    refutes = [rc(ACK, slid=lid, dlid=3, bth={"p_key": 0x9234}) for lid in lids]
    one = found(*(known(lid, time_ns, str(lid)) for lid, time_ns in times.items()), frames=(SEND, *refutes))
    assert one.severity is (Severity.INFO if doubted else Severity.ERROR)
