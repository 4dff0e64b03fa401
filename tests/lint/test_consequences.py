"""One fault gives one finding that lists its consequences, and findings with lowered severity count as such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.failures import Failures
from ibdissect.lint import consequences, waiting_hits
from ibdissect.lint.consequences import Consequences, chains
from ibdissect.lint.finding import Finding, Related, Severity
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions
from ibdissect.subnet import FabricFollower
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.words import Hit, Rule, on_chunk, on_end
from tests.cases import every, few
from tests.craft import erf_pcap, flipped, gmp, rc, sealed, smp, vcrc
from tests.decode.made import tables_of
from tests.rules.cases import inform
from tests.rules.findings import lint, rules
from tests.rules.made.conversations import agent, counters
from tests.rules.made.subnets import data, sweep
from tests.standard import SECOND_NS
from tests.subnet.files.made_files import parsed
from tests.subnet.files.samples import SAMPLES
from tests.subnet.made import SET, answer, ask, node, p_keys, port_info, switch_info


class Cause(Rule):
    """Something is wrong in frames 1 and 2."""

    code, name, message = "ZZB001", "cause", "cause"
    explains = ("ZZA901",)

    @on_end
    def end(self, _context: Any) -> Iterator[Hit]:
        for frame in (1, 2):
            yield Hit(frame=frame, time_ns=0, arguments={}, key="one")


class Consequence(Rule):
    """Something follows in frames 1, 2 and 3."""

    code, name, message, severity = "ZZA901", "consequence", "consequence", Severity.WARNING

    @on_end
    def end(self, _context: Any) -> Iterator[Hit]:
        for frame in (1, 2, 3):
            yield Hit(frame=frame, time_ns=0, arguments={})


class Doubtful(Rule):
    """A fault of one flow is sure in one frame only."""

    code, name, message = "ZZA902", "doubtful", "doubtful"

    @on_chunk
    def chunk(self, table: ChunkTable, _context: Any) -> Iterator[Hit]:
        for frame in (1, 2, 3):
            yield Hit(frame=frame, time_ns=0, arguments={}, key="flow", severity=Severity.INFO if frame < 3 else None)


for rule in (Cause, Consequence, Doubtful):
    REGISTRY.pop(rule.code)


def found(*rules: type[Rule]) -> tuple[list[Finding], Linter]:
    linter = Linter(rules)
    for table in tables_of(erf_pcap([smp(1, 0x11)] * 3)):
        linter.feed(table)
    return linter.finish(), linter


def test_a_consequence_is_named_by_its_cause_and_not_reported() -> None:
    findings, _ = found(Consequence, Cause)
    assert [(one.code, one.frame, one.count) for one in findings] == [("ZZB001", 1, 2), ("ZZA901", 3, 1)]
    assert [(related.frame, related.why) for related in findings[0].related] == [(1, "therefore ZZA901 consequence")]


def test_without_the_cause_every_consequence_is_reported() -> None:
    assert [one.frame for one in found(Consequence)[0]] == [1, 2, 3]


def test_doubtful_findings_of_a_flow_are_one_of_their_own() -> None:
    findings, linter = found(Doubtful)
    assert [(one.frame, one.count, one.severity) for one in findings] == [(1, 2, Severity.INFO), (3, 1, Severity.ERROR)]
    assert CheckOptions(rules=[Doubtful]).totals(linter) == {Severity.INFO: 1, Severity.ERROR: 1}


def test_a_configured_severity_does_not_raise_a_doubtful_finding() -> None:
    options = CheckOptions(rules=[Doubtful], severities={"ZZA902": Severity.WARNING})
    assert options.severity_of(Doubtful, Severity.INFO) == Severity.INFO
    assert options.severity_of(Doubtful, Severity.ERROR) == Severity.WARNING
    assert CheckOptions(rules=[Doubtful], severities={"ZZA902": Severity.INFO}).severity_of(Doubtful, Severity.ERROR) == Severity.INFO


def test_conditions_explain_and_are_explained() -> None:
    """Also in frames that are only counted in the finding of an earlier one."""

    class Condition(Rule):
        """Every SMP."""

        code, name, message, explains, flow = "ZZB003", "condition", "condition", ("ZZA903", "ZZA901"), (MAD.method,)
        when = MAD.method == 1

    class Follows(Rule):
        """Every SMP, too."""

        code, name, message = "ZZA903", "follows", "follows"
        when = MAD.base_version == 1

    for rule in (Condition, Follows):
        REGISTRY.pop(rule.code)
    (one,), _ = found(Follows, Condition, Consequence)
    assert (one.code, one.count) == ("ZZB003", 3)
    assert {(part.frame, part.why) for part in one.related} == {(1, "therefore ZZA903 follows"), (1, "therefore ZZA901 consequence")}


def test_frames_of_one_chunk_are_explained_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consequences, "MAX_CAUSES", 3)
    frames = [shorter(rc(0x04, bytes(64), bth={"psn": number}, slid=1, dlid=2)) for number in range(20)]
    assert {one.code for one in lint(frames, "ROC007")} == {"ROC007"}
    both = lint(frames, "LNK003", "ROC007")
    assert {one.code for one in both} == {"LNK003"}
    assert [[part.why for part in one.related][-1:] for one in both] == [["therefore ROC007 vcrc-bad"]] * len(both)


@pytest.mark.parametrize("window", [64, 300, 1 << 20])
@pytest.mark.parametrize(("back", "explained"), [(1, True), (5, True), (7, False)])
def test_which_earlier_frames_are_remembered_does_not_depend_on_the_window(
    back: int, explained: bool, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consequences, "MAX_CAUSES", 3)

    class Even(Rule):
        """Something is wrong in every second frame."""

        code, name, message = "ZZB004", "even", "even"
        explains = ("ZZA904",)

        @on_chunk
        def chunk(self, table: ChunkTable, _context: Any) -> Iterator[Hit]:
            for frame in range(table.chunk.first, table.chunk.first + len(table)):
                if frame % 2 == 0:
                    yield Hit(frame=frame, time_ns=0, arguments={})

    class Odd(Rule):
        """Something follows from that, in the others."""

        code, name, message = "ZZA904", "odd", "odd"

        @on_chunk
        def chunk(self, table: ChunkTable, _context: Any) -> Iterator[Hit]:
            for frame in range(table.chunk.first, table.chunk.first + len(table)):
                if frame % 2 and frame > back:
                    yield Hit(frame=frame, time_ns=0, arguments={}, related=(Related(frame - back, "before"),))

    for rule in (Even, Odd):
        REGISTRY.pop(rule.code)
    linter = Linter((Even, Odd), max_findings=None)
    for table in tables_of(erf_pcap([smp(1, 0x11)] * 20), window):
        linter.feed(table)
    odd = [one.frame for one in linter.finish() if one.code == "ZZA904"]
    assert odd == ([] if explained else list(range(back + 2, 20, 2)))


KEY, NODE_INFO, PORT_INFO, P_KEY_TABLE = 0x1122334455667788, 0x11, 0x15, 0x16
OTHERS = [gmp(4, 0x81, 0x12, slid=9, dlid=8, header={"transaction_id": 100 + i}) for i in range(2)]
"""What the capture goes on with."""


def perf(method: int, transaction: int, **kw: object) -> bytes:
    ends = {"slid": 2, "dlid": 1} if method & 0x80 else {"slid": 1, "dlid": 2}
    return gmp(4, method, 0x12, header={"transaction_id": transaction}, **{**ends, **kw})


def longer(frame: bytes) -> bytes:
    """Another PktLen, with the right VCRC."""
    data = bytearray(frame[:-2])
    data[5] += 1
    return bytes(data) + vcrc(data)


def shorter(frame: bytes) -> bytes:
    """Another PktLen, so that the VCRC is not where it says."""
    return frame[:5] + bytes([frame[5] - 1]) + frame[6:]


ASKED = [perf(1, 1), perf(0x81, 1)]
KEPT = answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=2), m_key=KEY)
PARTITIONED = [answer(2, NODE_INFO, node(2)), answer(2, P_KEY_TABLE, p_keys(0x8001))]


@every(
    ("code", "frames", "request_"),
    [
        ("QKY001", ASKED, perf(1, 2, q_key=1)),
        ("LNK003", ASKED, longer(perf(1, 2))),
        ("ROC006", ASKED, sealed(flipped(perf(1, 2), -22))),
        ("PKY003", [*ASKED, *PARTITIONED], perf(1, 2, bth={"p_key": 0x8002})),
        ("MKY003", [ask(5, NODE_INFO), answer(5, NODE_INFO, node(5)), KEPT], ask(5, NODE_INFO, header={"transaction_id": 2})),
    ],
)
def test_a_request_that_was_dropped_is_not_also_unanswered(code: str, frames: list[bytes], request_: bytes) -> None:
    everything = [*frames, request_, *OTHERS]
    at = len(frames) + 1
    assert [one.frame for one in lint(everything, "TXN001", step_ns=1_000_000_000)] == [at]
    (one,) = lint(everything, code, "TXN001", step_ns=1_000_000_000)
    assert (one.code, one.frame) == (code, at)
    assert one.related[-1].why == "therefore TXN001 request-unanswered"


@pytest.mark.parametrize("unreliable", [False, True])
def test_rules_with_unreliable_facts_report_and_explain_nothing(unreliable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the capture mixed two subnets."""
    monkeypatch.setattr(FabricFollower, "unreliable", unreliable)
    frames = [ask(5, NODE_INFO), answer(5, NODE_INFO, node(5)), KEPT, ask(5, NODE_INFO, header={"transaction_id": 2}), *OTHERS]
    found = lint(frames, "MKY003", "TXN001", step_ns=SECOND_NS)
    assert [(one.code, one.frame) for one in found] == [("TXN001" if unreliable else "MKY003", 4)]


def ca(*, lid: int = 2, **values: int) -> bytes:
    return answer(lid, NODE_INFO, node(lid, **values))


UNKNOWN_METHOD = perf(0x15, 2)
P_KEY_BLOCK = {"modifier": 1, "header": {"transaction_id": 3}}


@pytest.mark.parametrize(
    ("cause", "consequence", "frames", "cause_at", "consequence_at"),
    [
        ("MAD011", "MAD005", [gmp(4, 1, 0x99, slid=1, dlid=2), gmp(4, 0x81, 0x12, slid=2, dlid=1)], 1, 2),
        ("PM009", "TXN006", [UNKNOWN_METHOD, perf(0x81, 2)], 1, 2),
        ("MAD003", "TXN006", [gmp(6, 6, 0x10, slid=1, dlid=2), gmp(6, 0x81, 0x10, slid=2, dlid=1)], 1, 2),
        ("SMP002", "TXN006", [ask(2, NODE_INFO, method=6), ca()], 1, 2),
        ("PM009", "TXN008", [perf(5, 2), perf(0x81, 2)], 1, 2),
        ("TXN005", "TXN001", [*ASKED, perf(1, 2), perf(0x81, 2, slid=900), *OTHERS, *OTHERS], 4, 3),
        ("SEM032", "PKY011", [ca(node_type=9), ask(2, P_KEY_TABLE, **P_KEY_BLOCK)], 1, 2),
        ("SEM034", "SEM038", [ca(num_ports=2), ca(num_ports=1, local_port_num=2)], 2, 2),
        ("LNK020", "LNK021", [*sweep(top=4), data(dlid=9)], 10, 10),
    ],
)
def test_a_finding_that_another_one_proves_wrong_already_is_its_consequence(
    cause: str, consequence: str, frames: list[bytes], cause_at: int, consequence_at: int
) -> None:
    assert [(one.code, one.frame) for one in lint(frames, consequence, step_ns=SECOND_NS)] == [(consequence, consequence_at)]
    (one,) = lint(frames, cause, consequence, step_ns=SECOND_NS)
    assert (one.code, one.frame) == (cause, cause_at)
    assert [part.why for part in one.related if part.frame == consequence_at][-1].startswith(f"therefore {consequence} ")


@few("chunks", [(), (10,), (1,) * 14], fast=(0, 1))
def test_packets_from_before_the_sweep_was_complete_stay_their_own_finding(chunks: tuple[int, ...]) -> None:
    *others, last = sweep(top=4)
    found = lint([*others, data(dlid=9), last, *[data(dlid=9)] * 3], "LNK020", "LNK021", chunks=chunks)
    assert [(one.code, one.frame, one.count) for one in found] == [("LNK021", 9, 1), ("LNK020", 11, 3)]


def test_a_lid_that_only_some_unanswered_write_may_have_assigned_does_not_explain_the_top() -> None:
    """The write to LID 5 makes LNK020 an info, but not LNK021, which rests on the switch and the sender."""
    write = smp(SET, PORT_INFO, port_info(9), slid=1, dlid=5)
    top = [smp(method, 0x12, switch_info(linear_fdb_top=4), path=[1]) for method in (SET, 0x81)]  # the capture shows the switch's manager
    found = lint([*sweep(top=4), *top, write, data(dlid=9)], "LNK020", "LNK021")
    assert [(one.code, one.severity) for one in found if one.frame == 13] == [("LNK020", Severity.INFO), ("LNK021", Severity.WARNING)]


@few("window", [1 << 20, 64, 400], fast=(0, 2))
def test_a_file_that_lists_all_ports_explains_the_top_for_all_senders(window: int) -> None:
    linter = Linter([rules()[code] for code in ("LNK020", "LNK021")])
    inform(linter, None, [parsed("ibnetdiscover", SAMPLES["ibnetdiscover"])[0]])
    shown = smp(0x81, 0x12, switch_info(linear_fdb_top=4), slid=2, dlid=3)
    for table in tables_of(erf_pcap([shown, *(data(slid=lid, dlid=9) for lid in (3, 4, 4, 3))]), window):
        linter.feed(table)
    (one,) = linter.finish()
    assert (one.code, one.frame, one.count) == ("LNK020", 2, 4)
    assert [part.why for part in one.related] == ["lists all ports of the subnet", "therefore LNK021 dlid-above-lft-top"]


def test_packets_to_a_lid_that_no_file_lists_wait_as_one_however_many_send_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_hits, "MAX_WAITING", 2)
    linter = Linter([rules()["LNK020"]])
    inform(linter, None, [parsed("ibnetdiscover", SAMPLES["ibnetdiscover"])[0]])
    for table in tables_of(erf_pcap([data(slid=slid, dlid=dlid) for slid in (2, 3, 4) for dlid in (8, 9)]), 1 << 20):
        linter.feed(table)
    assert [(one.value, one.count) for one in linter.finish()] == [(8, 3), (9, 3)]


def test_a_finding_lists_the_first_consequence_of_each_rule() -> None:
    """A wrong answer misleads whoever rests on it, however often."""
    asked, *answered = agent()
    place = LRH.size + BTH.size + DETH.size + MAD.attribute_id.bit // 8
    frames = [asked[:place] + (0x12).to_bytes(2, "big") + asked[place + 2 :], *answered, *[counters(1, port_select=255)] * 5]
    (one,) = lint(frames, "MAD005", "PM002")
    assert [part.why for part in one.related] == ["request", "therefore PM002 allportselect-unsupported"]


def test_a_doubtful_cause_does_not_hide_a_certain_finding() -> None:
    class DoubtfulCause(Cause):
        """Something may be wrong in frames 1 and 2."""

        code = "ZZB904"

        @on_end
        def end(self, _context: Any) -> Iterator[Hit]:
            for frame in (1, 2):
                yield Hit(frame=frame, time_ns=0, arguments={}, severity=Severity.INFO)

    REGISTRY.pop("ZZB904")
    assert [(one.code, one.frame) for one in found(Consequence, DoubtfulCause)[0]] == [
        ("ZZA901", 1), ("ZZB904", 1), ("ZZA901", 2), ("ZZB904", 2), ("ZZA901", 3),
    ]  # fmt: skip


def test_what_a_consequence_explains_follows_from_its_cause() -> None:
    class Last(Rule):
        """Follows from `Consequence`."""

        code, name, message = "ZZA001", "last", "last"

        @on_end
        def end(self, _context: Any) -> Iterator[Hit]:
            yield Hit(frame=2, time_ns=0, arguments={})
            yield Hit(frame=4, time_ns=0, arguments={}, related=(Related(3, "proof"),))

    class Between(Consequence):
        """Explains, and is explained."""

        code, explains = "ZZA901", ("ZZA001",)

    for code in ("ZZA001", "ZZA901"):
        REGISTRY.pop(code)
    findings, _ = found(Last, Between, Cause)
    assert [(one.code, one.frame) for one in findings] == [("ZZB001", 1), ("ZZA901", 3)]
    assert [(part.frame, part.why) for part in findings[1].related] == [(4, "therefore ZZA001 last")]


@pytest.mark.parametrize("window", [1 << 20, 64])
def test_a_finding_lists_no_consequence_in_a_later_frame_of_its_flow(window: int) -> None:
    """The frame may be in another window than the flow's first one."""

    class OfFlow(Rule):
        """Something is wrong in every frame."""

        code, name, message, explains = "ZZB905", "of-flow", "cause", ("ZZA905",)

        @on_chunk
        def chunk(self, table: ChunkTable, _context: Any) -> Iterator[Hit]:
            frames = range(table.chunk.first, table.chunk.first + len(table))
            yield Hit(frame=frames[0], time_ns=0, arguments={}, key="one", frames=frames, count=len(frames))

    class Second(Rule):
        """Something follows in frame 2."""

        code, name, message = "ZZA905", "second", "consequence"

        @on_end
        def end(self, _context: Any) -> Iterator[Hit]:
            yield Hit(frame=2, time_ns=0, arguments={})

    for code in ("ZZA905", "ZZB905"):
        REGISTRY.pop(code)
    linter = Linter([Second, OfFlow])
    for table in tables_of(erf_pcap([rc(0x04), smp(1, 0x11), rc(0x04)]), window):
        linter.feed(table)
    assert [(one.code, one.frame, one.count, one.related) for one in linter.finish()] == [("ZZB905", 1, 3, ())]


MISREAD = answer(2, NODE_INFO, bytes(64), modifier=1, header={"transaction_id": 9})
"""An answer whose bytes are no NodeInfo."""
OF_PORT_INFO = ask(2, PORT_INFO, modifier=1, header={"transaction_id": 9})


@pytest.mark.slow
def test_what_is_misread_in_an_answer_of_another_attribute_is_one_finding_at_the_end() -> None:
    codes = ("MAD005", "AM002", "SEM032", "SEM036")
    assert {one.code for one in lint([ask(2, NODE_INFO, modifier=1, header={"transaction_id": 9}), MISREAD], *codes)} == {*codes[1:]}
    (one,) = lint([OF_PORT_INFO, MISREAD], *codes)
    assert (one.code, one.severity) == ("MAD005", Severity.WARNING)
    assert {part.why.split()[1] for part in one.related if part.frame == 2} == {*codes[1:]}


def test_it_stands_where_the_capture_may_lack_another_request() -> None:
    asked = [perf(1, 7), perf(0x81, 8)]
    found = lint([*asked, OF_PORT_INFO, MISREAD, *OTHERS], "MAD005", "SEM032")
    assert [(one.code, one.severity) for one in found if one.frame == 4] == [("MAD005", Severity.INFO), ("SEM032", Severity.ERROR)]


def noted(monkeypatch: pytest.MonkeyPatch, most: int, *frames: int) -> Consequences:
    monkeypatch.setattr(consequences, "MAX_CAUSES", most)
    made = Consequences([Cause(), Consequence()])
    for frame in frames:
        made.note(Cause(), frame, None)
    return made


@pytest.mark.parametrize(
    ("frames", "kept", "lost"),
    [((), [], (0, 0)), ((1, 2), [1, 2], (0, 0)), ((1, 2, 3), [2, 3], (1, 3)), ((5, 1, 3, 2), [3, 5], (2, 3)), ((1, 1, 1), [1], (0, 0))],
)
def test_the_latest_causes_are_kept(
    monkeypatch: pytest.MonkeyPatch, frames: tuple[int, ...], kept: list[int], lost: tuple[int, int]
) -> None:
    """The first frame that needed another's place is said."""
    made = noted(monkeypatch, 2, *frames)
    assert sorted(made.causes["ZZB001"]) == sorted({*frames}), "all of a chunk are kept until its end"
    made.trim()
    assert sorted(made.causes["ZZB001"]) == kept and (made.dropped.count, made.dropped.frame) == lost


def test_a_hit_names_one_of_the_latest_causes_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1, 2 and 3 the last two, wherever the chunk ends."""
    made = noted(monkeypatch, 2, 1, 2, 3)
    assert [made._oldest("ZZB001", frame) for frame in (0, 1, 2, 3, 5)] == [1, 1, 1, 2, 2]
    assert [made.cause(Consequence(), [5, proof]) is not None for proof in (1, 2, 3, 4)] == [False, True, True, False]


def test_which_causes_are_the_latest_is_found_anew_in_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    made = noted(monkeypatch, 1, 1, 2)
    assert made.cause(Consequence(), [2]) is not None and made.cause(Consequence(), [9, 1]) is None
    made.trim()
    made.note(Cause(), 5, None)
    assert made.cause(Consequence(), [9, 2]) is None and made.cause(Consequence(), [9, 5]) is not None


@pytest.mark.parametrize(
    ("cause", "count", "hit", "stands_for", "explained"),
    [
        (None, 1, None, 1, True), (None, 1, None, 2, False), (None, 2, None, 2, True), (Severity.INFO, 1, None, 1, False),
        (Severity.INFO, 1, Severity.INFO, 1, True), (Severity.WARNING, 1, None, 1, True), (Severity.ERROR, 1, None, 1, True),
    ],
)  # fmt: skip
def test_a_cause_explains_no_more_than_itself(
    monkeypatch: pytest.MonkeyPatch, cause: Severity | None, count: int, hit: Severity | None, stands_for: int, explained: bool
) -> None:
    """The consequence is a warning."""
    made = noted(monkeypatch, 9)
    made.note(Cause(), 1, cause, count)
    assert (made.cause(Consequence(), [1], hit, stands_for) is not None) is explained
    assert made.cause(Consequence(), [2], hit, 1) is None and made.any_of(Consequence()) and not made.any_of(Cause())


def test_the_higher_severity_of_a_frame_counts_and_its_finding_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    made = noted(monkeypatch, 9)
    finding = Finding(code="ZZB001", name="x", severity=Severity.ERROR, frame=1, time_ns=0, template="x")
    made.note(Cause(), 1, Severity.INFO, 1, finding)
    made.note(Cause(), 1, None)
    made.note(Cause(), 1, Severity.INFO, 7)
    found = made.cause(Consequence(), [1])
    assert found is not None and found.finding is finding and found.count == 1
    for frame in (4, 5):
        made.explain(Consequence(), frame, found)
    assert finding.related == (Related(4, "therefore ZZA901 consequence"),)


@pytest.mark.parametrize(("explains", "waits"), [(True, [1, 4]), (False, [])])
def test_what_waits_is_forgotten_at_the_end(monkeypatch: pytest.MonkeyPatch, explains: bool, waits: list[int]) -> None:
    made = noted(monkeypatch, 9, 7)
    made.await_end(Cause(), Hit(frame=1, time_ns=0, arguments={}, mads=[1, 4], explains=explains))
    made.await_end(Consequence(), Hit(frame=2, time_ns=0, arguments={}))
    assert sorted(made.causes["ZZB001"]) == [*waits, 7] and "ZZA901" not in made.causes
    assert all(made.causes["ZZB001"][frame].waits for frame in waits)
    made.end([])
    assert sorted(made.causes["ZZB001"]) == [7]
    made.end(["ZZB001", "ZZX999"])
    assert "ZZB001" not in made.causes and not made.any_of(Consequence())


def test_causes_are_judged_before_what_they_explain() -> None:
    def rule(code: str, *explains: str) -> type[Rule]:
        made = type(code, (Rule,), {"code": code, "name": code.lower(), "explains": explains, "__doc__": "A fault."})
        REGISTRY.pop(code)
        return made

    last, between, first, other = rule("ZZE001"), rule("ZZF001", "ZZE001"), rule("ZZG001", "ZZF", "ZZE001"), rule("ZZH001")
    assert chains((last, between, first, other)) == ({"ZZE001": ["ZZF001", "ZZG001"], "ZZF001": ["ZZG001"]}, {"ZZE001": 2, "ZZF001": 1})
    assert chains((rule("ZZI001", "ZZJ001"), rule("ZZJ001", "ZZI001")))[1] == {"ZZI001": 2, "ZZJ001": 2}, "a circle ends"
    assert Consequences([other()]).last == 0 and Consequences([last(), between(), first()]).last == 2


def test_causes_are_cut_back_at_the_end_of_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consequences, "MAX_CAUSES", 2)

    class EverySmp(Rule):
        """Every SMP."""

        code, name, message, explains = "ZZB007", "every-smp", "cause", ("ZZA901",)
        when = MAD.method == 1

    REGISTRY.pop("ZZB007")
    _, linter = found(Consequence, EverySmp)
    dropped = linter.findings.consequences.dropped
    assert sorted(linter.findings.consequences.causes["ZZB007"]) == [2, 3] and (dropped.count, dropped.frame, dropped.time_ns) == (1, 3, 0)


def waiting_cause(*, holds: bool) -> type[Rule]:
    """A cause in all frames that is judged at the end."""

    class Waits(Rule):
        """Something may be wrong."""

        code, name, message, explains, waits = "ZZB008", "waits", "cause", ("ZZA905", "ZZA906"), True

        @on_chunk
        def chunk(self, table: ChunkTable, _context: Any) -> list[Hit]:
            return [Hit(frame=frame, time_ns=0, arguments={}) for frame in (1, 2, 3)]

        def stands(self, hit: Hit, context: Any) -> bool:
            return holds

    REGISTRY.pop("ZZB008")
    return Waits


class Given(Rule):
    """Something follows, and a list says so."""

    code, name, message = "ZZA905", "given", "consequence"

    @on_chunk
    def chunk(self, table: ChunkTable, _context: Any) -> list[Hit]:
        return [Hit(frame=frame, time_ns=0, arguments={}) for frame in (1, 2, 3)]


class Held(Rule):
    """Something follows where a condition holds."""

    code, name, message, when, at = "ZZA906", "held", "consequence", MAD.method == 1, MAD.method


class Stumbles(Rule):
    """It raises when it is asked at the end whether a hit stands."""

    code, name, message, waits = "ZZA907", "stumbles", "x", True

    @on_chunk
    def chunk(self, table: ChunkTable, _context: Any) -> list[Hit]:
        return [Hit(frame=2, time_ns=0, arguments={})]

    def stands(self, hit: Hit, context: Any) -> bool:
        raise KeyError("nothing")


for rule in (Given, Held, Stumbles):
    REGISTRY.pop(rule.code)


@every("holds", [False, True])
@every("consequence", [Given, Held])
def test_consequences_of_a_cause_that_waits_are_reported_if_it_does_not_stand(consequence: type[Rule], holds: bool) -> None:
    """Each once, with the bytes of its own frame."""
    findings, _ = found(consequence, waiting_cause(holds=holds))
    code = "ZZB008" if holds else consequence.code
    assert [(one.code, one.frame, one.count) for one in findings] == [(code, frame, 1) for frame in (1, 2, 3)]
    for one in findings if consequence is Held and not holds else ():
        assert [(span.frame, span.length) for span in one.spans] == [(one.frame, 1)]


def test_what_raises_at_the_end_takes_nothing_from_others() -> None:
    linter = Linter((Stumbles, waiting_cause(holds=True)), failures=(failures := Failures()))
    for table in tables_of(erf_pcap([smp(1, 0x11)] * 3)):
        linter.feed(table)
    assert [one.code for one in linter.finish()] == ["ZZB008"] * 3 and "rule ZZA907 failed in frame 2: KeyError" in failures.text()


def test_a_condition_is_reported_where_its_cause_is_not() -> None:
    """In frames before, between and after those of the cause."""

    class Cause(Rule):
        """Every Get."""

        code, name, message, explains = "ZZB005", "every-get", "get", ("ZZA905",)
        when = MAD.method == 1

    class Follows(Rule):
        """Every SMP."""

        code, name, message = "ZZA905", "every-smp", "smp"
        when = MAD.base_version == 1

    for rule in (Cause, Follows):
        REGISTRY.pop(rule.code)
    linter = Linter((Cause, Follows), max_findings=None)
    for table in tables_of(erf_pcap([smp(method, 0x11) for method in (2, 1, 2, 1, 1, 2)])):
        linter.feed(table)
    assert [(one.code[:3], one.frame) for one in linter.finish()] == [
        ("ZZA", 1), ("ZZB", 2), ("ZZA", 3), ("ZZB", 4), ("ZZB", 5), ("ZZA", 6),
    ]  # fmt: skip
