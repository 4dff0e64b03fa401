"""Ports and switches are not accused of what the capture changed, cut off, or showed too late."""

from __future__ import annotations

from tests.craft import ud
from tests.robustness.manipulations import Record, read_bytes
from tests.rules.findings import lint
from tests.rules.made.conversations import WAIT
from tests.rules.made.subnets import MGID, member, sweep
from tests.rules.MCG.cases import AGAIN, DELETED, JOIN, LEAVE, SECONDS, SMALL, broadcast
from tests.rules.test_rules import BY_CODE
from tests.rules.test_rules import lint as lint_file

SECOND_GROUP = member(mgid=MGID[:-1] + b"\x02", mlid=0xC002)
IDLE = ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=0x1111)


def test_a_join_that_is_cut_off() -> None:
    """Its header remains, of which the port is not known."""
    whole = read_bytes(SECONDS([*JOIN, *LEAVE, *AGAIN, *WAIT[:2], broadcast()]))

    def found(cut: set[int], dropped: set[int]) -> list[str]:
        records = [
            Record(one.origin, one.time_ns, one.data[: 120 if one.origin in cut else None], one.length)
            for one in whole.records
            if one.origin not in dropped
        ]
        return [str(one.severity) for one in lint_file(whole.with_records(records).packed(), rules=[BY_CODE["MCG005"]])]

    assert found(set(), set()) == []
    assert found(set(), {5, 6}) == ["warning"]
    assert found({5, 6}, set()) == ["info"]


def test_a_group_that_is_deleted_in_the_next_chunk() -> None:
    """The switch may have heard of it first."""
    frames = [*sweep(), SMALL[1], member(), SECOND_GROUP]
    for beside, how in ((0, "info"), (1000, "info"), (1200, "warning")):
        some = lint([*frames, *[IDLE] * beside, DELETED], "MCG006", chunks=[len(frames)])
        assert [str(one.severity) for one in some] == [how]
