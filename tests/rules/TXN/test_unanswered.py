"""Do findings about requests name the attribute, also one that only a plugin knows?"""

from __future__ import annotations

import io

import pytest

import ibdissect
from tests.conftest import REPO
from tests.craft import erf_pcap, gmp


@pytest.mark.parametrize(
    ("mgmt_class", "attribute", "what"),
    [
        (0x03, 0x38, "SubnAdmGet(MCMemberRecord)"),
        (0x04, 0x12, "PerfGet(PortCounters)"),
        (0x0B, 0x20, "VendGet(ANInfo)"),
        (0x0D, 0x0101, "VendGet(Temperature)"),
        (0x04, 0xFF77, "PerfGet(attribute 0xff77)"),
    ],
)
def test_findings_name_the_attribute(mgmt_class: int, attribute: int, what: str) -> None:
    ask, answer = (
        gmp(mgmt_class, method, attribute, slid=slid, dlid=dlid, header={"transaction_id": 5})
        for method, slid, dlid in ((1, 1, 2), (0x81, 2, 1))
    )
    unanswered = gmp(mgmt_class, 1, attribute, slid=1, dlid=2, header={"transaction_id": 6})
    capture = erf_pcap([ask, answer, answer, unanswered, *[ask, answer] * 3], step_ns=1_000_000_000)
    with ibdissect.open(io.BytesIO(capture), plugins=[str(REPO / "docs/examples/first_dissector.py")]) as opened:
        found = {one.code: one.message for one in opened.lint(select=["TXN001", "TXN003"])}
    response = what.replace("Get(", "GetResp(")
    assert found == {
        "TXN001": f"{what} from LID 1 to LID 2 was not answered (1 request)",
        "TXN003": f"{response} from LID 2 to LID 1: {what} is answered again",
    }
