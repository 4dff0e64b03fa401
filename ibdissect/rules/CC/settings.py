"""Which congestion control settings are too long for the node, without effect, or in a MAD of another version?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import BoundedDict
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, fault, on_chunk, on_struct
from ibdissect.rules.CC.keys import MAX_NODES, rows_of_cc
from ibdissect.table.addresses import ends_at
from ibdissect.table.table import ChunkTable
from ibdissect.wire.cc import CACongestionSetting, CongestionControlTable, CongestionInfo
from ibdissect.wire.mad import CLASS_VERSION, MAD
from ibdissect.wire.numbers import CC_CLASS, GET_RESP, SET

CONTROL_TABLE = 0x0017


class ControlTableBeyond(Rule):
    """A congestion control table block is beyond the adapter's capacity.

    The adapter refuses or drops the block; the delays for heavy congestion are missing.

    Read CongestionInfo from the adapter first; ControlTableCap is the number of blocks of 64 entries.

    The adapter's CongestionInfo before the Set. Silent if its ControlTableCap is 0.
    """

    code, name, severity = "CC003", "cct-beyond-cap", WARNING
    reference = "IBA A10.4.3.3, A10.4.3.9; opensm cc table"
    message = "block {block} of the CongestionControlTable, the adapter has {cap}"
    example = "GetResp(CongestionInfo) with ControlTableCap 2, then Set(CongestionControlTable) for block 2"

    def __init__(self) -> None:
        self.caps = BoundedDict[int, tuple[int, int]](MAX_NODES, "congestion control nodes")
        """ControlTableCap by address, and the frame that showed it."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Learn from CongestionInfo; nodes without a table show ControlTableCap 0."""
        asked, mine = rows_of_cc(table)
        for i in mine:
            row = int(asked.rows[i])
            seen = Seen(table, row)
            if not asked.asks[i]:
                info = seen.first(CongestionInfo)
                if info is not None and seen.value(MAD.method) == GET_RESP and not seen.value(MAD.status) and info.control_table_cap:
                    self.caps.put(int(asked.source[i]), (info.control_table_cap, seen.frame), seen.frame, seen.time_ns)
                continue
            known = self.caps.get(int(asked.destination[i]))
            if known is not None and asked.attribute[i] == CONTROL_TABLE and asked.modifier[i] >= known[0]:
                yield fault(
                    seen, {"block": int(asked.modifier[i]), "cap": known[0]}, MAD.attribute_modifier, of=seen.first(MAD),
                    proof=[(known[1], "CongestionInfo")], key=int(asked.destination[i]),
                )  # fmt: skip


class CongestionInert(Rule):
    """An adapter is set not to react to congestion at all.

    With CCTI_Increase 0 a notification (BECN) does not move the index into the table of delays; with CCTI_Limit 0 the index stays 0.
    Packets are marked, but nobody slows down.

    Set CCTI_Increase and the length of the table, or leave the service level out of Control_Map.

    One Set is enough.
    """

    code, name, severity = "CC004", "cn-settings", INFO
    reference = "IBA A10.2.2, A10.4.3.8; ibdiagnet CACongestionEntry, PSM2 ips_cca_adjust_rate"
    message = "{what}: congestion notifications have no effect"
    example = "Set(CACongestionSetting) with Control_Map 1 and CCTI_Increase 0 for service level 0"

    @on_struct(CACongestionSetting)
    def settings(self, view: CACongestionSetting, seen: Seen) -> Iterator[Hit]:
        if seen.value(MAD.method) != SET:
            return
        still = [sl for sl, entry in enumerate(view.entry) if view.control_map >> sl & 1 and not entry.ccti_increase]
        if still:
            what = "CCTI_Increase is 0 for service level " + ", ".join(map(str, still))
            yield fault(seen, {"what": what}, CACongestionSetting.control_map, of=view, key=(what, ends_at(seen.table, seen.row)))

    @on_struct(CongestionControlTable)
    def limit(self, view: CongestionControlTable, seen: Seen) -> Iterator[Hit]:
        """Every block repeats the limit."""
        if seen.value(MAD.method) == SET and not seen.value(MAD.attribute_modifier) and not view.ccti_limit:
            what = "CCTI_Limit is 0"
            yield fault(seen, {"what": what}, CongestionControlTable.ccti_limit, of=view, key=(what, ends_at(seen.table, seen.row)))


class CCVersion(Rule):
    """A congestion control MAD has a class version other than 2.

    Version 2 is the one in use; agents answer others with status 1 (bad version), and the switch keeps its old settings.

    Update the tool: old versions of libibmad sent version 1.
    """

    code, name, severity = "CC002", "cc-class-version", ERROR
    reference = "IBA A10.4.1; opensm"
    when = (MAD.mgmt_class == CC_CLASS) & (MAD.class_version != CLASS_VERSION[CC_CLASS]) & (MAD.base_version == 1)
    at = MAD.class_version
    message = "class version {class_version}, congestion control has 2"
    example = "a CCGet(CongestionInfo) with ClassVersion 1"
