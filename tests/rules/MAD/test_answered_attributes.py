"""An answer with another attribute is found wherever a reading window begins."""

from __future__ import annotations

from tests import craft
from tests.cases import every
from tests.rules.findings import lint


@every("chunks", [(), (2,), (3,), (1, 1, 1)])
def test_a_request_that_comes_again_after_its_answer_asks_again(chunks: tuple[int, ...]) -> None:
    ask, other = craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.gmp(4, 0x81, 0x1D, slid=2, dlid=1)
    assert [one.frame for one in lint([ask, other, ask, other], "MAD005", chunks=chunks)] == [2, 4]
