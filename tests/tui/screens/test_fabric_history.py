"""Do changes of the fabric stand on the time axis, and lead to their frames?"""

from __future__ import annotations

from pathlib import Path

from ibdissect.tui.screens.fabric import FabricScreen
from ibdissect.tui.screens.fabric_history import HistoryScreen, HistoryTable
from tests import craft
from tests.fabric.made import p_keys, port_info
from tests.study.test_fabric_view import FRAMES, manager, routed
from tests.tui.made import running, until


async def test_a_handover_an_edit_and_a_new_lid(tmp_path: Path) -> None:
    path = tmp_path / "fabric.pcap"
    edit, lid = routed(0x16, p_keys(0xFFFF, 0x4321), 1, 3), routed(0x15, port_info(6), 1, 3, modifier=1)
    path.write_bytes(craft.erf_pcap([*FRAMES, manager(2), edit, lid, manager(3)]))
    async with running(path) as (app, pilot):
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, FabricScreen))
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, HistoryScreen))
        assert isinstance(app.screen, HistoryScreen)
        table = app.screen.query_one(HistoryTable)
        found = [(one.frame, one.what, one.text) for one in table.items]
        assert found == [
            (4, "Manager", "master, priority 7"), (11, "Manager", "standby, priority 7"), (12, "P_Keys", "+0x4321 -0x1234"),
            (13, "LID", "5 (LMC 0) → 6 (LMC 0)"), (14, "Manager", "master, priority 7"),
        ]  # fmt: skip
        axis = table.rest(table.items[1], 20)[0]
        assert axis.count("○") == 2 and axis.index("●") < axis.rindex("○") == 19, "of the same manager"
        await pilot.press("o", "o", "o", "end")
        assert table.chosen is not None and table.chosen.what == "P_Keys"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        assert app.main.packets.frame == 12
