"""CRCs that the recorder did not keep, or that are wrong in the file only, are no damage."""

from __future__ import annotations

import pytest

from ibdissect.lint.finding import Severity
from tests.cases import every
from tests.craft import flipped, native
from tests.diagnosis.lab import MS, Lab
from tests.rules.findings import lint, rules
from tests.rules.test_rules import lint as lint_file

WHOLE = native(payload=b"twelve bytes")
ALONE = flipped(WHOLE, -1)
NOT_KEPT, LINK = Severity("info"), Severity("warning")


@every(("alone", "right", "severity"), [
    (10, 0, NOT_KEPT), (18, 2, NOT_KEPT), (9, 0, LINK), (10, 2, LINK), (17, 2, LINK),
])  # fmt: skip
@every("chunks", [(), (4,)])
def test_a_link_that_damages_nearly_all_vcrcs_alone_is_none(alone: int, right: int, severity: Severity, chunks: tuple[int, ...]) -> None:
    [found] = lint([*[WHOLE] * right, *[ALONE] * alone], "ROC007", chunks=chunks)
    assert (found.severity, found.count) == (severity, alone)


def test_packets_that_are_damaged_elsewhere_too_are_damage() -> None:
    [found] = lint([flipped(flipped(WHOLE, 20), -1)] * 20, "ROC007")
    assert found.severity == LINK


@pytest.mark.parametrize(("answered", "severity"), [(True, NOT_KEPT), (False, Severity("error"))])
def test_a_repetition_says_nothing_where_no_icrc_is_right_and_the_receiver_answers(answered: bool, severity: Severity) -> None:
    """Somebody replaced the addresses in the file."""
    lab = Lab()
    lab.good(0, 100, 3)
    for i in range(3):
        lab.ask((10 + 10 * i) * MS, 103)
    lab.frames = [(time, flipped(frame, -1)) for i, (time, frame) in enumerate(lab.frames) if answered or i % 2 == 0 or i > 5]
    found = lint_file(lab.pcap(), rules=[rules()["ROC004"]])
    assert found[-1].severity == severity
