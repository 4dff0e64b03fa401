"""A table is only compared with partitions.conf when all of it is known."""

from __future__ import annotations

from tests.cases import every
from tests.craft import erf_pcap
from tests.rules.DRF.cases import GUID2LID, NODE_INFO, OPTIONS, P_KEY_TABLE, PARTITIONS, SHOWN
from tests.rules.findings import rules
from tests.rules.test_rules import lint
from tests.subnet.made import answer, node, p_keys


@every(("size", "blocks"), [(31, 1), (32, 1), (33, 2), (63, 2), (64, 2), (65, 3)])
def test_a_table_of_any_size_is_compared_with_its_last_block(size: int, blocks: int) -> None:
    """Nothing is missing as long as a block is not known."""
    frames = [answer(5, NODE_INFO, node(5, partition_cap=size)), SHOWN[1]]
    for shown in range(1, 4):
        frames.append(answer(5, P_KEY_TABLE, p_keys(0xFFFF), modifier=shown - 1))
        found = lint(erf_pcap(frames), None, [GUID2LID, OPTIONS, PARTITIONS], rules=[rules()["DRF001"]])
        assert [one.code for one in found] == ["DRF001"] * (shown >= blocks)
