"""Acknowledgements that files rule out make infos of the findings that rest on these files."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ibdissect.lint.finding import Severity
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.files import SubnetFile
from ibdissect.subnet.refuted_facts import Refuted
from tests.cases import every
from tests.craft import erf_pcap, rc
from tests.decode.made import native_table
from tests.rules.test_rules import lint
from tests.subnet.files.made_files import parsed
from tests.subnet.files.samples import SAMPLES

DAY = 86400 * 10**9
SEND, ACK = rc(0x04, bytes(8), slid=3, dlid=5, bth={"p_key": 0x1234}), 0x11


def table(lid: int, key: str, time_ns: int) -> SubnetFile:
    """A P_Key table, read at some time."""
    info = f"NodeType:...Channel Adapter\nNumPorts:...1\nSystemGuid:...0x{lid}\nGuid:...0x{lid}\nPortGuid:...0x{lid}\nPartCap:...32"
    node = f"# Node info: Lid {lid}\n{info}\nDevId:...1\nLocalPort:...1\nVendorId:...1\n"
    keys = f"$ smpquery pkeys {lid} 1\n   0: 0xffff {key} {'0x0000 ' * 6}\n32 pkeys capacity for this port"
    file = parsed("smpquery", node + keys, path=f"lid{lid}")[0]
    file.known = replace(file.known, time_ns=time_ns)
    return file


def found(*frames: bytes, newer: int = 0) -> dict[str, Severity]:
    """Severities by code; the table of LID 5 is `newer` than that of LID 7, which acknowledges."""
    at = 1_700_000_000_000_000_000
    return {one.code: one.severity for one in lint(erf_pcap(frames), known=[table(7, "0x1234", at), table(5, "0x1234", at + newer)])}


@pytest.mark.slow
def test_a_file_that_traffic_refutes_causes_no_error() -> None:
    wrong = rc(ACK, slid=7, dlid=3, bth={"p_key": 0x9234})
    assert found(SEND) == {"PKY001": Severity.ERROR}
    assert found(SEND, rc(ACK, slid=7, dlid=3, bth={"p_key": 0x1234}))["PKY001"] is Severity.ERROR
    assert found(SEND, wrong)["PKY001"] is Severity.INFO, "whenever it was collected, it was together with the table of LID 7"
    assert found(SEND, wrong, newer=2 * DAY)["PKY001"] is Severity.ERROR


def test_which_fact_is_refuted() -> None:
    """LID 7 lacks the P_Key that it acknowledges with, and no port has LID 0x88."""
    known = [table(7, "0x1234", DAY), parsed("guid2lid", SAMPLES["guid2lid"])[0]]
    frames = [rc(ACK, slid=lid, dlid=3, bth={"p_key": 0x9234}) for lid in (7, 0x88)]
    said = {one.arguments["lid"]: one.arguments["what"] for one in lint(erf_pcap(frames), known=known) if one.code == "DRF005"}
    assert said == {
        7: " with P_Key 0x9234, which its P_Key table lacks according to the files", 0x88: ", but according to the files no port has it",
    }  # fmt: skip


@every("opcode", range(0x0B, 0x14))
@every("routed", [False, True])
def test_who_answers_holds_the_partition(opcode: int, routed: bool) -> None:
    """READ responses and acknowledgements; beyond a router or from a virtual port, a LID is not its sender's."""
    state = Refuted(FabricFollower())
    frames = [rc(0x04, bytes(8), slid=9)] * 2 + [rc(opcode, slid=7, bth={"p_key": 0x9234}, grh={} if routed else None)] * 2
    assert not list(state.feed(native_table(frames)))
    answers = 0x0D <= opcode <= 0x12
    assert dict(state.first.items()) == ({7 << 16 | 0x9234: (3, native_table(frames).chunk.time_ns[2])} if answers and not routed else {})


def test_each_end_is_remembered_with_its_first_packet() -> None:
    """By LID and P_Key, also when it comes again in a later chunk."""
    state, ends = Refuted(FabricFollower()), [(9, 0x9234), (7, 0x9234), (9, 0x9234), (7, 0x1234), (9, 0x9234), (7, 0x9234)]
    frames = [rc(ACK, slid=lid, dlid=3, bth={"p_key": key}) for lid, key in ends]
    for _ in range(2):
        assert not list(state.feed(native_table(frames)))
    assert {key: frame for key, (frame, _) in state.first.items()} == {9 << 16 | 0x9234: 1, 7 << 16 | 0x9234: 2, 7 << 16 | 0x1234: 4}
