"""Our counts, the table in docs/true-findings.md and a simple independent count agree for every shared capture."""

from __future__ import annotations

import re
import struct
from collections import Counter
from pathlib import Path

import pytest

from ibdissect.decode.cm_connections import Connections
from ibdissect.mad.request_outcomes import AnsweredMany
from ibdissect.mad.transactions import Transactions
from tests.conftest import REPO, shared_captures
from tests.decode.made import tables_of

from .plain import counted
from .test_psn_streams import ROCE, followed

COLUMNS = ("gaps", "missing", "repeated", "repeated_reads", "middle_restarts")


def table() -> dict[str, tuple[int, ...]]:
    """Capture to gaps, missing, repeated, READs, restarts in mid-message, NAKs by code 0 to 3, RNR NAKs."""
    rows = {}
    for line in (REPO / "docs/true-findings.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and all(cell.isdigit() for cell in (*cells[1:6], cells[7])):
            naks = {int(code): int(count) for count, code in re.findall(r"(\d+) \((\d)\)", cells[6])}
            rows[cells[0]] = (*map(int, cells[1:6]), *(naks.get(code, 0) for code in range(4)), int(cells[7]))
    return rows


def as_row(count: Counter[str]) -> tuple[int, ...]:
    return (*(count[name] for name in COLUMNS), *(count[f"nak{code}"] for code in range(4)), count["rnr"])


@pytest.mark.parametrize("path", ROCE, ids=lambda path: path.stem)
def test_the_table_holds_what_a_plain_count_finds(path: Path) -> None:
    row = as_row(counted(path))
    assert table().get(path.stem, (0,) * 10) == row == as_row(followed(path)[1])


def test_the_table_names_captures_that_exist(shared: Path) -> None:
    assert table().keys() <= {path.stem for path in ROCE}
    assert sum(sum(row) for row in table().values()) > 10000


# -- connection management


def messages(path: Path) -> Counter[int]:
    """Connection management messages of a RoCE v2 capture by attribute id, read by hand; a REQ that a network doubled counts once."""
    data, count, at = path.read_bytes(), Counter[int](), 24
    second = 10**9 if data[:4] == bytes.fromhex("4d3cb2a1") else 10**6
    asked = dict[bytes, float]()  # when each REQ was captured
    while at < len(data):
        seconds, part, size = struct.unpack_from("<III", data, at)
        frame = data[at + 16 : at + 16 + size]
        at += 16 + size
        start = 18 if frame[12:14] == b"\x81\x00" else 14
        udp = start + (20 if frame[start - 2 : start] == b"\x08\x00" else 40)
        mad = udp + 8 + 12 + 8
        if frame[udp + 2 : udp + 4] == b"\x12\xb7" and frame[udp + 8] == 0x64 and frame[mad + 1 : mad + 2] == b"\x07":
            attribute, when = int.from_bytes(frame[mad + 16 : mad + 18], "big"), seconds + part / second
            before = asked.get(frame[mad:-4], 0) if attribute == 0x10 else 0
            count[attribute] += when - before > 0.05
            asked[frame[mad:-4]] = when
    return count


@pytest.mark.parametrize("path", [p for p in ROCE if p.stem.startswith(("cm_", "ul_", "netem_", "vlan_", "rsocket"))], ids=lambda p: p.stem)
def test_every_connection_message_finds_its_connection(path: Path) -> None:
    connections = Connections()
    for table in tables_of(str(path)):
        for _ in connections.feed(table):
            pass
    count, every = messages(path), connections.all
    assert sum(c.tries for c in every) == count[0x10] and sum(c.reps for c in every) == count[0x13]
    assert sum(r.asked for r in connections.resolutions) == count[0x17]
    for attribute, name in ((0x11, "mra_frame"), (0x12, "rej_frame"), (0x14, "rtu_frame"), (0x15, "dreq_frame"), (0x16, "drep_frame")):
        assert sum(getattr(c, name) > 0 for c in every) <= count[attribute]
        if path.stem.startswith("cm_") and every:
            assert any(getattr(c, name) for c in every) == (count[attribute] > 0)


# -- management


def plain_transactions(path: Path) -> tuple[int, int]:
    """Answered and unanswered requests of a capture of opensm/, matched by hand: their frames have fixed offsets."""
    data, at = path.read_bytes(), 24
    head = 0 if struct.unpack_from("<I", data, 20)[0] == 247 else 16
    waiting: dict[bytes, tuple[bytes, int]] = {}
    answered = unanswered = 0
    while at < len(data):
        seconds, micro, size = struct.unpack_from("<III", data, at)
        frame = data[at + 16 + head : at + 16 + size]
        at += 16 + size
        time = seconds * 1_000_000 + micro
        lids, mad = (frame[6:8], frame[2:4]), frame[28:284]
        mgmt_class, method = mad[1], mad[3]
        rmpp = mgmt_class == 3 and mad[24] == 1 and mad[26] & 1
        if rmpp and (mad[25] != 1 or mad[28:32] != b"\0\0\0\1"):
            continue
        response = method & 0x80
        way = (mad[32:36], mad[129 : 129 + mad[7]]) if mgmt_class == 0x81 else lids[::-1] if response else lids
        key = b"".join(way) + mad[8:16] + bytes([mgmt_class])
        if response:
            answered += waiting.pop(key, None) is not None
        elif method in (0x01, 0x02, 0x06, 0x12, 0x13, 0x14, 0x15):
            before = waiting.pop(key, None)
            question = mad[3:4] + mad[16:18] + mad[20:24]
            if before is not None and (before[0] != question or time - before[1] >= 10_000_000):
                unanswered += 1
            waiting[key] = (question, time)
    return answered, unanswered + len(waiting)


@pytest.mark.parametrize("path", shared_captures("opensm"), ids=lambda path: path.stem)
def test_every_request_is_matched_as_by_hand(path: Path) -> None:
    transactions, seen = Transactions(), Counter[str]()
    for table in tables_of(str(path)):
        for event in transactions.feed(table):
            seen[type(event).__name__] += len(event) if isinstance(event, AnsweredMany) else 1
    ours = seen["AnsweredMany"], seen["Unanswered"] + sum(1 for _ in transactions.open_requests())
    assert ours == plain_transactions(path) and ours[0] > 10
