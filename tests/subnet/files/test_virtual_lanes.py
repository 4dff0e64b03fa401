"""SL to VL tables and VL arbitration are the same in every format."""

from __future__ import annotations

import pytest

from tests.subnet.files.made_files import parsed, subnet_of
from tests.subnet.files.samples import SAMPLES

VLS = [0, 1, 2, 3] * 4
ROW = "|".join(f"{vl:2}" for vl in VLS) + "|"
SQUARE = "VL    : |0x0 |0x1 |\nWEIGHT: |0x40|0x4 |\n"
COLUMNS = "  ".join(map(str, VLS)) + " "
TEXTS = {
    "smpquery": ("lanes", f"# SL2VL table: Lid 2\n#      SL: | 0| 1|\nports: in  1, out  2: |{ROW}\n"),
    "opensm": ("lanes", f'Switch 0x0002c90200400010, base LID 2, "edge 1"\n#in out : 0  1\n1   2   : {COLUMNS}\n'),
    "saquery": ("saquery", f"SL2VLTableRecord dump:\n\t\tLID....2\n\t\tInPort....1\n\t\tOutPort....2\n\t\tSL: 0| 1|\n\t\tVL:{ROW}\n"),
}
LOW = "# VLArbitration tables: Lid 3 port 1 LowCap 2 HighCap 2\n# Low priority VL Arbitration Table:\n"
SHARES = {
    "smpquery": ("lanes", f"{LOW}{SQUARE}# High priority VL Arbitration Table:\n{SQUARE}"),
    "saquery": ("saquery", "".join(
        f"VLArbTableRecord dump:\n\t\tLID....3\n\t\tPort....1\n\t\tBlock..{block}\n\t\tVL    : 0| 1|\n\t\tWeight:64| 4|\n" for block in "13"
    )),
}  # fmt: skip


@pytest.mark.parametrize("file", TEXTS.values(), ids=TEXTS)
def test_sl_to_vl(file: tuple[str, str]) -> None:
    assert not parsed(*file)[1].strange
    subnet = subnet_of(("ibnetdiscover", SAMPLES["ibnetdiscover"]), file)
    switch = subnet.by_lid(2)
    assert switch is not None
    qos = switch.node.ports[2].qos
    assert qos is not None
    assert [qos.vl(1, sl) for sl in range(16)] == VLS
    assert qos.vl(3, 0) is None


@pytest.mark.parametrize("file", SHARES.values(), ids=SHARES)
def test_arbitration(file: tuple[str, str]) -> None:
    assert not parsed(*file)[1].strange
    port = subnet_of(("ibnetdiscover", SAMPLES["ibnetdiscover"]), file).by_lid(3)
    assert port is not None and port.qos is not None
    assert [part[:4] for part in port.qos.arbitration] == [b"\x00\x40\x01\x04", b"", b"\x00\x40\x01\x04", b""]


def test_incomplete_tables_are_counted() -> None:
    short = "# SL2VL table: Lid 2\nports: in 1, out 2: | 0| 1|"
    beyond = "VLArbTableRecord dump:\n\t\tLID....3\n\t\tPort....1\n\t\tBlock....4\n" + "\t\tVL    : 0|\n\t\tWeight: 1|\n" * 33
    assert parsed("saquery", beyond)[1].strange == 1
    assert subnet_of(("lanes", f"{LOW.replace('port 1', 'port 999999')}{SQUARE}")).port_count <= 1
    for text in (short, f"{LOW}VL    : |0x0 |0x1 |\nWEIGHT: |0x40|", "# SL2VL table: Lid 2\nx"):
        assert parsed("lanes", text)[1].strange == 1
