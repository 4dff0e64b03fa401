"""What a capture shows between a fact and the packet that is judged by it: whatever the rule, the finding becomes an info where it must.

Each proof is taken with one thing added in front of the packet at fault: its LIDs are given to other ports, another connection uses its
queue pair, somebody else writes every attribute of these ports and nobody answers, the manager hands over, or the card lost a packet.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint.finding import Evidence, Finding, Severity
from ibdissect.wire.cm import REP, REQ, RTU
from ibdissect.wire.sm import SMInfo
from ibdissect.words import Struct
from tests import craft
from tests.rules.cases import CASES, Case
from tests.rules.test_rules import lint
from tests.standard import CM_CLASS, FIRST_MULTICAST
from tests.subnet.made import SET, answer, ask, node, port_info

CM_SEND, GSI, WITHOUT_GRH, CONNECTED = 0x03, 1, 2, (0, 1)
"""Method of CM, the queue pair of management, LNH of native packets without a GRH; transport services RC and UC."""
ANEW = {"local_communication_id": 0x7001, "remote_communication_id": 0x7002}
AS_USUAL = {
    "path_packet_payload_mtu": 5, "max_cm_retries": 3, "remote_cm_response_timeout": 20, "local_cm_response_timeout": 20, "retry_count": 7,
    "primary_local_ack_timeout": 14, "primary_subnet_local": 1,
}  # fmt: skip
Timed = list[tuple[int, bytes]]
"""Time in nanoseconds and packet of each record."""
LOUD = (Severity.ERROR, Severity.WARNING)
NODE_INFO, SM_INFO, PORT_INFO = 0x11, 0x20, 0x15
TABLES = (0x12, 0x14, PORT_INFO, 0x16, 0x17, 0x18, 0x19, 0x1B)
"""The attributes that managers write."""


def records(capture: bytes) -> Timed:
    """The packets of a proof without the headers of its container; none if not all are InfiniBand with an LRH."""
    found = Timed()
    for chunk in open_capture(io.BytesIO(capture)).chunks():
        located = ChunkTable(chunk).located
        starts = located.at("lrh")
        if (starts < 0).any():
            return []
        places = zip(chunk.time_ns.tolist(), starts.tolist(), located.end.tolist(), strict=True)
        found += [(time, bytes(chunk.data[start:stop])) for time, start, stop in places]
    return found


def erf(some: Timed, lost: int | None = None) -> bytes:
    """A capture as a card writes it, which counts a packet lost in front of record `lost`."""
    counted = () if lost is None else (lost + 1,)
    return craft.erf_pcap([frame for _, frame in some], times=[time for time, _ in some], lost=counted)


def lids(frame: bytes) -> list[int]:
    """The unicast LIDs of a packet."""
    return sorted({lid for at in (2, 6) if 0 < (lid := int.from_bytes(frame[at : at + 2], "big")) < FIRST_MULTICAST})


def owned(lid: int, by: int) -> list[bytes]:
    """A LID is shown by the port of a node."""
    return [answer(lid, NODE_INFO, node(by)), answer(lid, PORT_INFO, port_info(lid))]


def given_away(frame: bytes) -> list[bytes]:
    return [one for lid in lids(frame) for one in (answer(lid, PORT_INFO, port_info(0)), *owned(lid, lid + 500))]


def connected_again(frame: bytes) -> list[bytes]:
    """The set-up of another connection that has the packet's values, between its LIDs and with its queue pair; none for datagrams."""
    _, dlid, _, slid, opcode, _, p_key, qp, psn = struct.unpack_from(">4H2B HII", frame)
    qp, psn = qp & 0xFFFFFF, psn & 0xFFFFFF
    if frame[1] & 3 != WITHOUT_GRH or qp <= GSI or opcode >> 5 not in CONNECTED:
        return []
    there, back = {"slid": slid, "dlid": dlid}, {"slid": dlid, "dlid": slid}
    asked = {
        "local_communication_id": 0x7001, "local_qpn": 0x777, "starting_psn": psn, "partition_key": p_key,
        "transport_service_type": opcode >> 5, "primary_local_port_lid": slid, "primary_remote_port_lid": dlid, **AS_USUAL,
    }  # fmt: skip
    accepted = {"local_communication_id": 0x7002, "remote_communication_id": 0x7001, "local_qpn": qp, "starting_psn": 900}
    return [connecting(0x10, REQ, asked, there), connecting(0x13, REP, accepted, back), connecting(0x14, RTU, ANEW, there)]


def connecting(attribute: int, struct_: type[Struct], values: dict[str, int], ends: dict[str, int]) -> bytes:
    body = craft.build(struct_, **values)
    return craft.gmp(CM_CLASS, CM_SEND, attribute, body, at=24, header={"transaction_id": 0x99}, **ends)


def written(frame: bytes) -> list[bytes]:
    sets = [(lid, attribute) for lid in lids(frame) for attribute in TABLES]
    return [
        ask(lid, what, method=SET, slid=777, body=bytes(64), header={"transaction_id": 99 << 32 | n})
        for n, (lid, what) in enumerate(sets, 1)
    ]  # fmt: skip


def handed_over(_frame: bytes) -> list[bytes]:
    info = craft.build(SMInfo, guid=1, sm_state=3)
    return [ask(9, SM_INFO, method=SET, modifier=1, body=info), answer(9, SM_INFO, info, modifier=1)]


class Kind(NamedTuple):
    added: Callable[[bytes], list[bytes]]
    """What comes in front of the packet at fault."""
    stays: dict[str, tuple[str, ...]]
    """Why a verdict holds all the same, and the rules concerned."""
    lost: bool = False
    """Whether the card loses a packet there."""


AT_ONCE = "BTH007", "TXN010", "TXN012", "TXN013", "TXN022", "MAD005", "MAD019", "MAD020"
"""They compare packets of one message, exchange or transfer, which are under way together."""
BY_CONNECTION = (
    "BTH018", "CM004", "CM005", "CM008", "CM009", "CM012", "CM017", "CNX008", "PKY005", "PKY021", "RC019",
    "SMP016", "TXN002", "TXN005", "TXN006",
)  # fmt: skip
"""What two hosts agreed on or asked each other is no manager's to change."""
BY_ROUTE = "LNK024", "SMP005", "SMP027"
"""The facts are of a node at the end of a directed route."""
OF_GROUPS = "GRH009", "PKY017", "QKY004"
"""The SA's record of a group says so."""
UNCHANGING = (
    "OPA003", "OPA004", "OPA005", "PKY011", "PM001", "SEM024", "SEM025", "SEM026", "SEM027", "SEM029", "SEM047", "SEM049", "SEM050",
    "SEM053", "SEM065", "SEM072", "TRP006",
)  # fmt: skip
"""No manager changes what a node is, can or holds at most."""
TOLD = "CAP017", "MKY010", "PKY013"
"""The finding is about the capture itself, or about a notice that quotes the packet."""
KEYS = "MKY002", "MKY003", "MKY008", "MKY011", "MKY013", "MKY015", "SMP023"
"""A Set without the port's M_Key changes nothing; the manager that hands over has set it."""
KINDS: dict[str, Kind] = {
    "given to other ports": Kind(
        given_away,
        {
            "at once": tuple(code for code in AT_ONCE if code != "TXN010"),
            "told": ("MKY010", "PKY013"),
            "of groups": OF_GROUPS,
            "of the new owner, or of a port with another LID": ("MCG006", "TRP011"),
            "of the same node, by its GUID": ("PKY023", "SEM034", "SEM035"),
            "refused or unanswered, whoever has the LID by now": ("CM012", "CM017"),
            "of the switch, whose LID no rule takes from InfiniBand": ("OPA003", "OPA004", "OPA005"),
        },
    ),
    "connected again": Kind(
        connected_again,
        {"of the ports, whatever connection": ("LNK016", "LNK017", "LNK022", "PKY001", "PKY003", "PKY004")},
    ),
    "written by somebody": Kind(
        written,
        {
            "at once": AT_ONCE,
            "of hosts": BY_CONNECTION,
            "told": ("MKY010", "PKY013"),
            "of groups": (*OF_GROUPS, "MCG005"),
            "not written": ("OPA003", "OPA004", "OPA005", "TRP006"),
            "counted": ("MKY012",),
            "keys": KEYS,
            "other ports' LIDs and filters": ("CM020", "LNK015", "TRP001", "TRP011"),
            "two managers": ("TXN019",),
        },
    ),
    "handed over": Kind(
        handed_over,
        {
            "at once": ("BTH007", "TXN010", "TXN012", "TXN013", "TXN022"),
            "of hosts": (*BY_CONNECTION, "TXN008"),
            "told": TOLD,
            "not changed": tuple(one for one in UNCHANGING if not one.startswith(("OPA", "PM", "TRP"))),
            "counted": ("MKY012",),
            "by the manager that handed over, as it sets them later": (
                "AM012",
                "MKY001",
                "MKY002",
                "MKY010",
                "MKY011",
                "MKY013",
                "MKY015",
                "SMP023",
                "PKY003",
            ),
            "two managers": ("TXN019",),
        },
    ),
    "lost": Kind(
        lambda _frame: [],
        {
            "of packets that are there, all in one message": ("BTH007", "TXN013"),
            "too many, with or without the missing one": ("CM005",),
            "the packets say so, both ways": ("CM004", "CM012", "CNX008", "PKY013", "PKY021", "TXN019"),
            "told": ("CAP017",),
        },
        lost=True,
    ),
}


def placed(some: Timed, at: int, new: list[bytes]) -> Timed:
    """A capture with packets in front of record `at`, evenly in the time since the one before it."""
    before, after = some[at - 1][0], some[at][0]
    step = max(1, (after - before) // (len(new) + 1)) if after > before else 0
    return [*some[:at], *((before + step * i, one) for i, one in enumerate(new, 1)), *some[at:]]


def rests(one: Finding, code: str) -> bool:
    """Whether a finding is an error or warning that rests on earlier frames."""
    return one.code == code and one.severity in LOUD and one.evidence is not Evidence.SEEN


def quoted(findings: list[Finding], code: str, frame: int, since: int, until: int) -> bool:
    """Whether an error or warning about a frame quotes one of the frames from `since` to `until`."""
    mine = [one for one in findings if rests(one, code) and one.frame == frame]
    return any(since <= related.frame <= until for one in mine for related in one.related)


@cache
def proven(capture: bytes) -> tuple[Timed, list[Finding]]:
    """The packets of a proof, and what is found in them."""
    some = records(capture)
    return some, lint(erf(some)) if some else []


def resting(found: list[Finding], code: str) -> Iterator[Finding]:
    """The errors and warnings of a rule that quote earlier frames alone."""
    for one in found:
        related = [related.frame for related in one.related]
        if rests(one, code) and related and max(related) < one.frame:
            yield one


def holds(case: Case, kind: Kind) -> Iterator[bool]:
    """For each finding of a proof that rests on earlier frames: whether it is still reported as an error or warning."""
    some, found = proven(case.bad)
    for one in resting(found, case.code):
        packet = some[one.frame - 1][1]
        first = [frame for lid in lids(packet) for frame in owned(lid, lid)] if kind.added is given_away else []
        whole, n = [*((some[0][0] - 1000 * (len(first) - i), frame) for i, frame in enumerate(first)), *some], len(first)
        if first and not quoted(lint(erf(whole)), case.code, one.frame + n, n + 1, one.frame + n - 1):
            continue  # it does not begin as the proof's nodes do
        added, at = kind.added(packet), one.frame + n - 1
        if not (added or kind.lost):
            continue
        changed = erf(placed(whole, at, added), at if kind.lost else None)
        yield quoted(lint(changed), case.code, at + 1 + len(added), n + 1, at)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({code[:-3] for code in CASES}))
@pytest.mark.parametrize("name", KINDS)
def test_a_verdict_ends_where_it_must(name: str, family: str) -> None:
    kind = KINDS[name]
    found = {
        code for code, cases in CASES.items() for case in cases
        if code[:-3] == family and not (case.policy or case.known or case.damage) and any(holds(case, kind))
    }  # fmt: skip
    assert found == {one for codes in kind.stays.values() for one in codes if one[:-3] == family}
