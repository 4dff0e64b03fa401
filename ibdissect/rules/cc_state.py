"""Congestion control that contradicts what a node told: keys, tables that are too long, settings without effect (CC)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ibdissect.capture.chunk import LINK_ERF
from ibdissect.dropped import Dropped
from ibdissect.flow.addresses import addresses_of
from ibdissect.flow.asked import Asked
from ibdissect.flow.heard import Heard
from ibdissect.flow.transactions import AnsweredMany, Request, Transactions, Unanswered
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span, value_of
from ibdissect.lint.rule import ERROR, INFO, WARNING, Hit, Rule, Seen, on_chunk, on_end, on_event, on_struct
from ibdissect.record import record
from ibdissect.table.table import ChunkTable
from ibdissect.wire.cc import CACongestionSetting, CongestionControlFormat, CongestionControlTable, CongestionInfo, CongestionKeyInfo
from ibdissect.wire.mad import MAD, method_name

from .cc import CC_CLASS
from .content import GET_RESP, SET
from .transaction import PATIENCE_NS

CONTROL_TABLE = 0x0017
CLASS_STATUS = 8
"""Class-specific status begins at this bit; below it a node says that it does not have the method or attribute."""
MAX_NODES = 65536


def rows_of_cc(table: ChunkTable, context: Context) -> tuple[Asked, list[int]]:
    """The requests and answers of the class, as indices into `Asked`."""
    if not any(mgmt_class == CC_CLASS for mgmt_class, _ in table.attributes()):
        return context.get(Asked), []
    asked = context.get(Asked).of(table)
    return asked, np.flatnonzero(asked.mgmt_class == CC_CLASS).tolist()


@record(eq=True, frozen=False)
class Suspect:
    """A request with another key than its target told."""

    frame: int
    time_ns: int
    key: int
    held: int
    taught: int
    at: int
    what: str
    place: int
    unproven: bool
    """In a capture of ibdump, which may have missed the answer."""


class CCKeyWrong(Rule):
    """A congestion control request has another CC_Key than its target, and the target does not do it.

    ## Why it matters
    A node whose key is set and protected ignores requests with another one: the switch or adapter keeps its old settings. In
    captures of ibdump, which may miss an answer, two requests without one count.

    ## What to do
    Give the tool the key (`ibccconfig -c`, opensm `cc_key`), or look for a second manager.
    """

    code, name, severity = "CC001", "cc-key-mismatch", ERROR
    reference = "IBA A10.4.1, A10.4.3.4; opensm cc_key"
    message = "{what} with {key}, the target holds {held}; it was not done"
    example = "an accepted Set(CongestionKeyInfo) with CC_Key 7 and the protect bit, then two Gets with CC_Key 9 without an answer"

    def __init__(self) -> None:
        self.held: dict[int, tuple[int, int]] = {}
        """Protected keys by address, and the frames that told them."""
        self.suspects: dict[int, Suspect] = {}
        """By frame."""
        self.refused: set[int] = set()
        """Frames of requests that were answered with an error of this class."""
        self.silent: dict[int, Request] = {}
        """Requests that were not answered, by frame."""
        self.done: list[int] = []
        """Requests that were answered well in this chunk."""
        self.taken: set[tuple[int, int]] = set()
        """Addresses, and the other keys that they took."""
        self.dropped = Dropped("requests of congestion control")

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> None:
        """Accepted answers teach keys; requests are compared with them, in frame order."""
        context.get(Heard).of(table, context.get(Asked).of(table))
        asked, mine = rows_of_cc(table, context)
        for i in mine:
            row = int(asked.rows[i])
            seen = Seen(table, row)
            if not asked.asks[i]:
                info, mad = seen.first(CongestionKeyInfo), seen.first(MAD)
                if info is not None and mad.method == GET_RESP and not mad.status:
                    self.held.pop(int(asked.source[i]), None)
                    if info.cc_key and info.cc_key_protect_bit:
                        if len(self.held) >= MAX_NODES:
                            self.held.pop(next(iter(self.held)))
                            self.dropped.add(seen.frame, seen.time_ns)
                        self.held[int(asked.source[i])] = info.cc_key, seen.frame
                continue
            held = self.held.get(int(asked.destination[i]))
            head = seen.first(CongestionControlFormat)
            if held is not None and head is not None and head.cc_key != held[0]:
                if len(self.suspects) >= MAX_NODES:
                    self.dropped.add(seen.frame, seen.time_ns)
                    continue
                what = f"{method_name(CC_CLASS, int(asked.method[i]))}(attribute 0x{int(asked.attribute[i]):04x})"
                at = head.offset + CongestionControlFormat.cc_key.bit // 8
                self.suspects[seen.frame] = Suspect(
                    seen.frame, seen.time_ns, head.cc_key, held[0], held[1], at, what, int(asked.destination[i]),
                    bool(table.chunk.link[row] == LINK_ERF),
                )  # fmt: skip
        for one in filter(None, map(self.suspects.get, self.done)):
            self.taken.add((one.place, one.key))
        self.done.clear()

    @on_event(Unanswered)
    def nobody(self, event: Unanswered, _context: Context) -> None:
        if event.request.mgmt_class != CC_CLASS:
            return
        if len(self.silent) < MAX_NODES:
            self.silent[event.request.frame] = event.request
        else:
            self.dropped.add(event.frame, event.time_ns)

    @on_event(AnsweredMany)
    def answered(self, event: AnsweredMany, _context: Context) -> None:
        mine = event.mgmt_class == CC_CLASS
        refused = event.request_frames[mine & (event.status >> CLASS_STATUS != 0)]
        room = max(0, MAX_NODES - len(self.refused))
        self.refused.update(refused[:room].tolist())
        if len(refused) > room:
            self.dropped.add(int(refused[room]), 0, len(refused) - room)
        self.done += event.request_frames[mine & (event.status == 0)].tolist()

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        """A node that did what it was asked with a key holds that key, whatever the capture showed of it."""
        transactions, heard = context.get(Transactions), context.get(Heard)
        late = [request for request in transactions.open_requests() if transactions.last_ns - request.last_ns >= PATIENCE_NS]
        self.silent.update((request.frame, request) for request in late if request.mgmt_class == CC_CLASS)
        tries = Counter((one.place, one.key) for one in self.suspects.values())
        for frame, suspect in self.suspects.items():
            way = suspect.place, suspect.key
            request = self.silent.get(frame)
            ignored = request is not None and heard.hears(request) and not (suspect.unproven and tries[way] < 2)
            if way not in self.taken and (frame in self.refused or ignored):
                value = value_of(CongestionControlFormat.cc_key, suspect.key)
                yield Hit(
                    frame=frame, time_ns=suspect.time_ns, field=CongestionControlFormat.cc_key, value=value, evidence=Evidence.LEARNT,
                    spans=(Span(frame, suspect.at, 8),), related=(Related(suspect.taught, "CongestionKeyInfo"),), key=suspect.place,
                    arguments={"what": suspect.what, "key": value, "held": value_of(CongestionKeyInfo.cc_key, suspect.held)},
                )  # fmt: skip


class ControlTableBeyond(Rule):
    """A block of a congestion control table is beyond what the adapter can hold.

    ## Why it matters
    The adapter refuses the block or drops it; delays for heavy congestion are missing.

    ## What to do
    Ask the adapter for CongestionInfo first; ControlTableCap is the number of blocks of 64 entries.
    """

    code, name, severity = "CC003", "cct-beyond-cap", WARNING
    reference = "IBA A10.4.3.3, A10.4.3.9; opensm cc table"
    message = "block {block} of the CongestionControlTable, the adapter has {cap}"
    example = "GetResp(CongestionInfo) with ControlTableCap 2, then Set(CongestionControlTable) for block 2"

    def __init__(self) -> None:
        self.caps: dict[int, tuple[int, int]] = {}
        """ControlTableCap by address, and the frame that told it."""
        self.dropped = Dropped("congestion control nodes")

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """CongestionInfo teaches; a ControlTableCap of 0 is what nodes without a table say."""
        asked, mine = rows_of_cc(table, context)
        for i in mine:
            row = int(asked.rows[i])
            seen = Seen(table, row)
            if not asked.asks[i]:
                info, mad = seen.first(CongestionInfo), seen.first(MAD)
                if info is not None and mad.method == GET_RESP and not mad.status and info.control_table_cap:
                    if int(asked.source[i]) not in self.caps and len(self.caps) >= MAX_NODES:
                        self.caps.pop(next(iter(self.caps)))
                        self.dropped.add(seen.frame, seen.time_ns)
                    self.caps[int(asked.source[i])] = info.control_table_cap, seen.frame
                continue
            known = self.caps.get(int(asked.destination[i]))
            if known is not None and asked.attribute[i] == CONTROL_TABLE and asked.modifier[i] >= known[0]:
                hit = self.hit(seen, seen.first(MAD), MAD.attribute_modifier, block=int(asked.modifier[i]), cap=known[0])
                hit.related, hit.evidence, hit.key = (Related(known[1], "CongestionInfo"),), Evidence.LEARNT, int(asked.destination[i])
                yield hit


class CongestionInert(Rule):
    """An adapter is told to react to congestion by nothing.

    ## Why it matters
    With CCTI_Increase 0 a notification (BECN) does not move the index into the table of delays, and with CCTI_Limit 0 the index
    cannot leave 0: marking of packets goes on without any effect.

    ## What to do
    Set CCTI_Increase and the length of the table, or leave the service level out of Control_Map.
    """

    code, name, severity = "CC004", "cn-settings", INFO
    reference = "IBA A10.2.2, A10.4.3.8; ibdiagnet CACongestionEntry, PSM2 ips_cca_adjust_rate"
    message = "{what}: congestion notifications have no effect"
    example = "Set(CACongestionSetting) with Control_Map 1 and CCTI_Increase 0 for service level 0"

    @on_struct(CACongestionSetting)
    def settings(self, view: CACongestionSetting, seen: Seen) -> Iterator[Hit]:
        """Service levels that Control_Map names."""
        if seen.first(MAD).method != SET:
            return
        still = [sl for sl, entry in enumerate(view.entry) if view.control_map >> sl & 1 and not entry.ccti_increase]
        if still:
            what = "CCTI_Increase is 0 for service level " + ", ".join(map(str, still))
            yield self._of(self.hit(seen, view, CACongestionSetting.control_map, what=what), seen)

    @on_struct(CongestionControlTable)
    def limit(self, view: CongestionControlTable, seen: Seen) -> Iterator[Hit]:
        """Every block repeats the limit."""
        mad = seen.first(MAD)
        if mad.method == SET and not mad.attribute_modifier and not view.ccti_limit:
            yield self._of(self.hit(seen, view, CongestionControlTable.ccti_limit, what="CCTI_Limit is 0"), seen)

    @staticmethod
    def _of(hit: Hit, seen: Seen) -> Hit:
        hit.key = hit.arguments["what"], addresses_of(seen.table, seen.row)
        return hit
