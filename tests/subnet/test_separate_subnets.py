"""Addresses that tell two subnets in one capture apart, and the fate of packets that they do not tell."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from itertools import count, zip_longest
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.decode.capture_places import Scopes
from ibdissect.lint.site_policy import subnets_of
from ibdissect.pipeline.check import CheckOptions, check, check_reading
from ibdissect.pipeline.reading import Reading
from ibdissect.rules import load
from ibdissect.subnet import separate_subnets as division
from ibdissect.subnet.files import read_files
from ibdissect.subnet.files.kinds_of_files import SubnetFiles
from ibdissect.subnet.separate_subnets import SubnetMap, SubnetSeparator, divide
from tests.cases import every
from tests.craft import erf_pcap, native, rc, smp
from tests.decode.made import native_table, table_of, tables_of
from tests.subnet.made import ANSWER, node, p_keys, port_info

GUID, INTERFACE, LID, ORIGIN, PREFIX = "GUID", "interface", "LID", "origin", "GID prefix"

RECORD, HEADER, FLAGS = 16, 24, 9
LIMITED, FULL = 0x0123, 0x8123


def subnet(maker: int, origin: int, lids: Sequence[int], p_key: int, prefix: int = 0xFE80 << 48) -> list[bytes]:
    """What a manager of a subnet of adapters with one P_Key asks and hears."""
    found = []
    for place, lid in enumerate(lids):
        guid, path = maker << 40 | lid << 8, [1] * place
        known = {
            0x11: node(lid, node_guid=guid, port_guid=guid + 1, system_image_guid=guid),
            0x15: port_info(lid, gid_prefix=prefix), 0x16: p_keys(0xFFFF, p_key),
        }  # fmt: skip
        for attribute, body in known.items():
            head = {"transaction_id": origin << 32 | place << 8 | attribute}
            found += [smp(1, attribute, path=path, header=head), smp(ANSWER, attribute, body, path=path, header=head)]
    return found


def data(slid: int, dlid: int, p_key: int) -> bytes:
    """A packet of a connection."""
    return rc(4, b"12345678", lrh={"slid": slid, "dlid": dlid}, bth={"p_key": p_key, "destqp": 0x200 + dlid})


def mixed(one: Sequence[bytes], other: Sequence[bytes], *, interfaces: bool) -> bytes:
    """Two captures in turn in one file; the second by capture interface 1."""
    frames = [(frame, which) for pair in zip_longest(one, other) for which, frame in enumerate(pair) if frame is not None]
    raw, at = bytearray(erf_pcap([frame for frame, _ in frames])), HEADER
    for frame, which in frames:
        raw[at + RECORD + FLAGS] = 4 | (which if interfaces else 0)
        at += RECORD + 16 + len(frame)
    return bytes(raw)


def codes(raw: bytes, division: SubnetMap | None = None, subnet: SubnetFiles | None = None) -> list[str]:
    """What rules of partitions and of the subnet find, and whether subnets are mixed."""
    rules = [rule for rule in load() if rule.code.startswith(("PKY0", "LNK0")) or rule.code == "CAP017"]
    report = check(io.BytesIO(raw), CheckOptions(rules=rules, division=division or SubnetMap(), subnet=subnet))
    assert report.status == "ok"
    assert report.counts["error"] == sum(one.severity == "error" for one in report.findings)
    return [one.code for one in report.findings]


HERE, THERE = subnet(0x2C9, 1, (1, 2, 3), LIMITED), subnet(0x255, 2, (1, 2), FULL)


@pytest.mark.slow
def test_two_interfaces_tell_all_packets_apart() -> None:
    raw = mixed([*HERE, data(2, 1, LIMITED)], [*THERE, data(2, 1, FULL), data(2, 1, FULL)], interfaces=True)
    assert divide(tables_of(raw), SubnetMap()).numbers == {(INTERFACE, 0): 1, (INTERFACE, 1): 2}
    assert codes(raw) == ["CAP017", "PKY001"]  # both are limited members in one subnet only


def test_subnets_that_the_capture_itself_tells_apart_are_no_fault() -> None:
    rules = [rule for rule in load() if rule.code == "CAP017"]
    said = [check(io.BytesIO(mixed(HERE, THERE, interfaces=apart)), CheckOptions(rules=rules)).findings for apart in (True, False)]
    assert [[str(one.severity) for one in found] for found in said] == [["info"], ["warning"]]


def test_a_rule_that_is_selected_alone_judges_each_subnet_alone() -> None:
    def sent(psn: int) -> bytes:
        return rc(4, b"12345678", lrh={"slid": 2, "dlid": 1}, bth={"destqp": 0x201, "psn": psn})

    (repeated,) = (rule for rule in load() if rule.code == "RC002")
    here, there = [sent(psn) for psn in (1, 2, 3)], [sent(psn) for psn in (9, 10, 11)]
    apart = mixed([*HERE, *here], [*THERE, *there], interfaces=True)
    for raw, found in ((apart, []), (erf_pcap([*there, *here]), ["RC002"])):
        assert [one.code for one in check(io.BytesIO(raw), CheckOptions(rules=[repeated])).findings] == found


class Pipe(io.BytesIO):
    """What can be read only once."""

    def seekable(self) -> bool:
        return False


@pytest.mark.slow
def test_a_pipe_says_that_it_cannot_be_divided() -> None:
    raw = mixed([*HERE, data(2, 1, LIMITED)], [*THERE, data(2, 1, FULL), data(2, 1, FULL)], interfaces=True)
    rules = [rule for rule in load() if rule.code in ("CAP017", "PKY001")]
    said = [check(source, CheckOptions(rules=rules)).findings for source in (Pipe(raw), io.BytesIO(raw))]
    assert [[one.code for one in found] for found in said] == [["CAP017"], ["CAP017", "PKY001"]]
    assert ["save it as a file" in found[0].message for found in said] == [True, False]


@pytest.mark.slow
def test_files_describe_the_subnet_whose_ports_they_list(tmp_path: Path) -> None:
    there = subnet(0x255, 2, (1, 2, 3, 4), FULL)
    raw = mixed([*HERE, data(2, 1, LIMITED)], [*there, data(2, 1, FULL)], interfaces=True)
    for maker, numbers in ((0x2C9, {0: 1, 1: 2}), (0x255, {0: 2, 1: 1}), (0x777, {0: 2, 1: 3})):
        (tmp_path / "guid2lid").write_text(f"0x{maker << 40 | 1 << 8 | 1:016x} 0x0001 0x0001\n")
        files = read_files([str(tmp_path / "guid2lid")])
        found = divide(tables_of(raw), SubnetMap(), files.ports)
        assert found.numbers == {(INTERFACE, interface): number for interface, number in numbers.items()}
        assert codes(raw, subnet=files) == ["CAP017", "PKY001"]


def test_each_subnet_begins_and_ends_with_its_own_packets() -> None:
    """Traps before its first packet may have been sent, and requests at its end may still be answered."""
    (table,) = tables_of(mixed(HERE, THERE, interfaces=True))
    other = np.flatnonzero(table.chunk.interface == 1)
    scopes = Scopes()
    scopes.feed(table.only_rows(table.chunk.interface == 1))
    frame, (start, stop) = int(other[0]) + 1, table.chunk.time_ns[other[[0, -1]]].tolist()
    assert other[0] > 0 and other[-1] < len(table) - 1
    assert (scopes.has_run(frame, stop), scopes.goes_on(frame, start)) == (stop - start, stop - start)


@pytest.mark.slow
def test_origins_tell_directed_routes_apart_but_no_other_packets() -> None:
    """LID 3 was shown in one subnet only, but the capture may have missed the other port with LID 3."""
    unknown = [data(2, 1, LIMITED), data(2, 3, 0x8999)]
    raw = mixed([*HERE, *unknown], THERE, interfaces=False)
    found = divide(tables_of(raw), SubnetMap())
    assert found.numbers == {(ORIGIN, 1): 1, (ORIGIN, 2): 2}
    assert codes(raw) == ["CAP017"]
    by_lid = smp(1, 0x11, slid=2, dlid=1, header={"transaction_id": 1 << 32})  # perhaps from a host of the other subnet
    assert found.of(table_of(mixed([HERE[0], *unknown, by_lid], [], interfaces=False))).tolist() == [1, 0, 0, 0]


def test_origins_that_found_one_node_are_of_one_subnet() -> None:
    raw = mixed(HERE, [*subnet(0x2C9, 2, (1, 2), LIMITED), data(2, 1, LIMITED)], interfaces=True)
    assert divide(tables_of(raw), SubnetMap()).numbers == {}
    assert codes(raw) == ["PKY001"]


def test_an_origin_in_both_subnets_proves_nothing() -> None:
    there = subnet(0x255, 1, (1, 2), FULL)
    raw = mixed([*HERE, *HERE, data(2, 1, LIMITED)], [*there, *there], interfaces=False)
    assert divide(tables_of(raw), SubnetMap()).numbers == {}


def test_a_prefix_of_its_own_tells_packets_with_grh_apart() -> None:
    raw = mixed(HERE, subnet(0x255, 2, (1, 2), FULL, prefix=0xFEC0 << 48 | 7), interfaces=False)
    assert divide(tables_of(raw), SubnetMap()).numbers[PREFIX, 0xFEC0 << 48 | 7] == 2


def test_the_site_names_what_the_capture_does_not_tell() -> None:
    site = subnets_of({"subnets": [{"lids": "1-3"}, {"lids": ["101-103"], "prefixes": ["fec0:0:0:7::"]}]}, "a.toml")
    there = subnet(0x255, 2, (101, 102), LIMITED)
    raw = mixed([*HERE, data(2, 1, LIMITED)], [*there, data(102, 101, LIMITED), data(102, 1, LIMITED)], interfaces=False)
    found = divide(tables_of(raw), site)
    assert {(ORIGIN, 1): 1, (ORIGIN, 2): 2, (LID, 103): 2}.items() <= found.numbers.items()
    assert codes(raw, site) == ["PKY001", "PKY001"]  # not of the packet from one subnet to the other


def test_a_note_where_the_site_expects_two_subnets() -> None:
    raw = mixed(HERE, THERE, interfaces=False)
    site = subnets_of({"subnets": [{"lids": "51-53"}, {"lids": ["101-103"]}]}, "a.toml")
    rules = [rule for rule in load() if rule.code == "CAP017"]
    (one,) = check(io.BytesIO(raw), CheckOptions(rules=rules, division=site)).findings
    (other,) = check(io.BytesIO(raw), CheckOptions(rules=rules)).findings
    assert (one.severity, other.severity) == ("info", "warning") and "origins of directed routes tell them apart" in other.message


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    raw = mixed([*HERE, data(2, 1, LIMITED)], THERE, interfaces=True)
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(raw,))
    writer.start()
    rules = [rule for rule in load() if rule.code in ("CAP017", "PKY001")]
    (found,) = check(str(tmp_path / "pipe"), CheckOptions(rules=rules)).findings
    writer.join()
    assert found.code == "CAP017" and "report nothing" in found.message


@pytest.mark.slow
@pytest.mark.parametrize("apart", ["capture interfaces", "origins of directed routes", ""])
def test_subnets_that_are_noticed_late_are_told_apart_by_all_packets(apart: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets before that are read again; a copy that a mirror delivered on both interfaces shows that these are of one subnet."""
    end = [] if apart == "capture interfaces" else [HERE[1]]
    raw = mixed([*HERE, *end], [*THERE, *[data(2, 1, FULL)] * (len(HERE) - len(THERE)), *end], interfaces=True)
    if not apart:  # too many addresses
        monkeypatch.setattr(division, "MAX_SEEN", 0)
    if end:
        size = RECORD + 16 + len(HERE[1])
        last = raw[-2 * size :]
        raw = raw[:-size] + last[: RECORD + 8] + last[size + RECORD + 8 :]  # at the same time
    assert divide(tables_of(raw), SubnetMap()).how == apart
    options = CheckOptions(rules=[rule for rule in load() if rule.code[:3] in ("CAP", "PKY", "LNK")])
    reports = []
    for window in (32 << 20, 4000, 1000, 1):
        with Reading(open_capture(io.BytesIO(raw + raw[HEADER : HEADER + 99]), window=window)) as reading:
            reports.append(check_reading(reading, options))
    assert {report.status for report in reports} == {"truncated"}
    found = [{(one.code, one.frame, one.message) for one in report.findings} for report in reports]
    assert found[1:] == found[:-1]
    assert any(code == "CAP017" and (f"{apart} tell them apart" in message or not apart) for code, _, message in found[0])


def test_an_interrupt_while_packets_are_read_again_keeps_the_findings() -> None:
    raw = mixed([*HERE, *[HERE[0]] * 20], [*THERE, *[THERE[0]] * 20], interfaces=True)
    options = CheckOptions(rules=[rule for rule in load() if rule.code == "CAP017"])
    with Reading(open_capture(io.BytesIO(raw), window=1000)) as reading:
        first = sum(1 for _ in reading.chunks())
    calls = count(1)
    with Reading(open_capture(io.BytesIO(raw), window=1000)) as reading:  # a question after each window, and one before they are read again
        report = check_reading(reading, options, stop=lambda: next(calls) > first + 1)
    assert (report.status, report.frames) == ("interrupted", len(HERE) + len(THERE) + 40)
    assert [finding.code for finding in report.findings] == ["CAP017"]


@pytest.mark.slow
def test_two_subnets_without_a_lid_in_common_do_not_disturb_each_other() -> None:
    """Nobody notices them, and nothing has to: all is said of both that is said of each alone."""
    one = [*HERE, data(2, 1, LIMITED), data(2, 3, 0x8999), data(1, 2, FULL)]
    other = [*subnet(0x255, 2, (101, 102), FULL), data(101, 102, 0x8777), data(102, 101, FULL)]

    def said(raw: bytes) -> list[tuple[str, str]]:
        return sorted((found.code, found.message) for found in check(io.BytesIO(raw), CheckOptions(rules=load())).findings)

    together = said(mixed(one, other, interfaces=False))
    assert together == sorted([*said(erf_pcap(one)), *said(erf_pcap(other))])
    assert {"PKY001", "PKY003", "PKY004"} <= {code for code, _ in together}


def divided(one: Sequence[bytes], other: Sequence[bytes], site: SubnetMap | None = None) -> Mapping[tuple[str, int], int]:
    """Which addresses are of which subnet; those of the first have interface 0."""
    return divide(tables_of(mixed(one, other, interfaces=True)), site or SubnetMap()).numbers


APART = {(INTERFACE, 0): 1, (INTERFACE, 1): 2}


@every(
    ("prefix", "other", "taken"),
    [
        (0xFEC0 << 48 | 7, 0xFEC0 << 48 | 7, True), (0xFEC0 << 48 | 7, 0xFEC0 << 48 | 6, False), (1, 1, True), (1 << 63, 1 << 63, True),
        (0, 0, False), (0xFE80 << 48, 0xFE80 << 48, False), (0xFE80 << 48 | 1, 0xFE80 << 48 | 1, True),
    ],
)  # fmt: skip
def test_the_prefix_of_both_ends_is_the_subnets(prefix: int, other: int, taken: bool) -> None:
    """Not what several subnets have, nor what a router passes on; the low half of a GID does not count."""
    gids = {"sgid": prefix.to_bytes(8, "big") + b"\1" * 8, "dgid": other.to_bytes(8, "big") + b"\2" * 8}
    assert divided([*HERE, native(grh=gids)], THERE) == APART | ({(PREFIX, prefix): 1} if taken else {})


@every(
    ("changed", "shown"),
    [({}, {1, 0xBFFF}), ({"status": 0x8000}, {1, 0xBFFF}), ({"status": 4}, set()), ({"method": 1}, set()), ({"method": 2}, set())],
)
def test_good_answers_show_the_addresses_of_their_ports(changed: dict[str, int], shown: set[int]) -> None:
    """0 and LIDs from 0xC000 on are no ports'. The site names LIDs."""
    method, head = changed.get("method", ANSWER), {"transaction_id": 1 << 32, "status": changed.get("status", 0)}
    lids = (0, 1, 0xBFFF, 0xC000, 0xFFFF)
    here, there = subnet(0x2C9, 1, (11, 12), LIMITED), subnet(0x255, 2, (21, 22), FULL)
    frames = [*here, *(smp(method, 0x15, port_info(lid, gid_prefix=5), header=head, path=[1]) for lid in lids)]
    for lid in lids:
        numbers = divided(frames, there, SubnetMap({(LID, lid): 9}))
        assert numbers[INTERFACE, 0] == (9 if lid in shown else 10)
    assert divided(frames, there) == APART | ({(PREFIX, 5): 1} if shown else {})
    frames = [*here, smp(method, 0x11, node(2, port_guid=0x77), header=head, path=[1])]
    same = smp(ANSWER, 0x11, node(2, port_guid=0x77), header={"transaction_id": 2 << 32}, path=[1])
    assert divided(frames, [*there, same]) == ({} if shown else APART)  # a port that both show


@pytest.mark.parametrize(("most", "numbers"), [(5, 2), (4, 0)])
def test_too_many_addresses_tell_nothing_apart(monkeypatch: pytest.MonkeyPatch, most: int, numbers: int) -> None:
    """And no more of them are remembered."""
    monkeypatch.setattr(division, "MAX_SEEN", most)
    assert len(divided(HERE, THERE)) == numbers
    separator = SubnetSeparator(SubnetMap())
    for frames in (subnet(0x2C9, 1, range(1, 7), LIMITED), HERE, THERE):
        separator.feed(native_table(frames))
    assert [len(seen.pairs) for seen in separator.kinds] == [6, 6, 6]


def test_a_prefix_of_an_interface_of_no_known_subnet_is_of_none() -> None:
    """And so is one of two subnets."""

    def sent(prefix: int) -> bytes:
        gid = prefix.to_bytes(8, "big") + bytes(8)
        return native(grh={"sgid": gid, "dgid": gid})

    raw = bytearray(mixed([*HERE, sent(97), sent(98), sent(99)], [*THERE, sent(97)], interfaces=True))
    raw[-(len(sent(99)) + 16 + RECORD) + RECORD + FLAGS] = 4 | 2
    assert divide(tables_of(bytes(raw)), SubnetMap()).numbers == APART | {(PREFIX, 98): 1}


def test_packets_with_and_without_an_origin_in_one_chunk() -> None:
    """Only what was seen together counts."""
    answers = [smp(ANSWER, 0x11, node(1, port_guid=maker << 40 | 1 << 8 | 1)) for maker in (0x2C9, 0x255)]
    raw = mixed([*HERE, *answers], THERE, interfaces=False)
    assert divide(tables_of(raw), SubnetMap()).numbers == {(ORIGIN, 1): 1, (ORIGIN, 2): 2}


@every(("numbers", "expected"), [({}, [0, 0]), ({(LID, 1): 1}, [1, 0]), ({(LID, 1): 1, (LID, 2): 2}, [0, 0]),
                                                   ({(LID, 1): 2, (LID, 2): 2, (LID, 4): 1}, [2, 1])])  # fmt: skip
def test_a_packet_is_of_the_subnet_that_all_of_its_addresses_name(numbers: dict[tuple[str, int], int], expected: list[int]) -> None:
    assert SubnetMap(numbers).of(native_table([native(slid=1, dlid=2), native(slid=3, dlid=4)])).tolist() == expected
    assert SubnetMap(numbers).subnets == sorted({*numbers.values()})
