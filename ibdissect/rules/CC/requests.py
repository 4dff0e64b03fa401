"""Congestion control requests that are refused, have no effect, or do not fit the node or the version of the class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

from ibdissect.bounded import BoundedDict, Dropped, KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import ends_at
from ibdissect.decode.equal_rows import Entry
from ibdissect.decode.identity import Frame, KeyValue, Side
from ibdissect.lint.finding import Severity, value_of
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, fault, on_chunk, on_struct
from ibdissect.mad.datagrams import Queries
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.agent_rule import AgentFacts, nodes_at, same_agent
from ibdissect.rules.shared.mad_conditions import OTHER_VERSION
from ibdissect.rules.shared.not_seen import UnansweredRule
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.describe import ranges
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.cc import CACongestionSetting, CongestionControlFormat, CongestionControlTable, CongestionInfo, CongestionKeyInfo
from ibdissect.wire.mad import CLASS_VERSION, MAD
from ibdissect.wire.numbers import CC_CLASS, CLASS_STATUS, GET_RESP, SET
from ibdissect.wire.spec import Struct

V = TypeVar("V", bound=Struct)
MAX_NODES, MAX_SUSPECTS = 65536, 16384
INFO_OF_NODE, KEY_INFO, CONTROL_TABLE = 0x0011, 0x0012, 0x0017
"""Attributes of congestion control: CongestionInfo, CongestionKeyInfo, CongestionControlTable."""


def of_class(table: ChunkTable) -> Iterator[tuple[Entry, Seen, Side]]:
    """The requests and answers of the class, each with its agent."""
    asked = table.once(Queries)
    for one in asked.each(asked.mgmt_class == CC_CLASS):
        source, destination = ends_at(table, one.rows)
        yield one, Seen(table, one.rows), Side.of(destination if one.asks else source)


def answered(one: Entry, seen: Seen, struct: type[V]) -> V | None:
    """The structure that a good answer carries; None for other answers."""
    return seen.first(struct) if one.method == GET_RESP and not seen.value(MAD.status) else None


class CCKeyWrong(AgentFacts, UnansweredRule):
    """A congestion control request has another CC_Key than its target, which ignores it.

    A node whose key is set and protected ignores requests with another one: the switch or adapter keeps its old settings.

    Give the tool the key (`ibccconfig -c`, opensm `cc_key`), or look for a second manager.

    The protected key in a CongestionKeyInfo of the target, and a request with another key that is refused or not answered; two such
    requests where the capture may have missed an answer. An `info` where the target answers nothing at all from then on: it may be down.
    Silent if the target accepts any request with that key, after a Set of a new key whose answer the capture does not show, or if the LID
    is another node's by then. A manager that sends on with the old key before it has the answer to its own Set of a new one is
    accused, too: it sends the request again.
    """

    code, name, severity = "CC001", "cc-key-mismatch", ERROR
    reference = "IBA A10.4.1, A10.4.3.4; opensm cc_key"
    message = "{what} with {key} was not done: the node holds {held}"
    example = "an accepted Set(CongestionKeyInfo) with CC_Key 7 and the protect bit, then two Gets with CC_Key 9: others are answered"

    mgmt_class = CC_CLASS

    def __init__(self) -> None:
        dropped = Dropped("requests of congestion control")
        self.keys = BoundedDict[Side, tuple[KeyValue, Frame]](MAX_NODES, dropped)
        """Protected keys by agent, and the frames that showed them."""
        self.suspects = KeptDict[Frame, tuple[Side, KeyValue]](MAX_SUSPECTS, dropped)
        """Target and key of requests with another key than their target showed, by frame."""
        self.refused: set[Frame] = set()
        """Frames of requests that were answered with an error of this class."""
        self.taken: set[tuple[Side, KeyValue]] = set()
        """Agents, and the other keys that they accepted."""
        self.silent: set[Frame] | None = None
        """Requests that nobody answered, known at the end."""
        self.tries = Counter[tuple[Side, KeyValue]]()

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Accepted answers show keys; requests are compared with them, in frame order."""
        subnet = context.get(FabricFollower).subnet
        for one, seen, agent in of_class(table):
            if not one.asks:
                if (info := answered(one, seen, CongestionKeyInfo)) is not None:
                    self.keys.pop(agent, None)
                    if info.cc_key and info.cc_key_protect_bit:
                        self.keys.put(agent, (info.cc_key, seen.frame), seen.frame, seen.time_ns)
                continue
            held = self.keys.get(agent)
            held = held if held is not None and same_agent(context, agent, held[1], seen.frame) else None
            head = seen.first(CongestionControlFormat)
            if held is not None and head is not None and head.cc_key != held[0]:
                way, at = (agent, head.cc_key), CongestionControlFormat.cc_key
                what, key = table.catalog.request_text(CC_CLASS, one.method, one.attribute), value_of(at, head.cc_key)
                arguments = {"what": what, "key": key, "held": value_of(at, held[0])}
                about = nodes_at(subnet, agent, seen.frame)
                self.suspects.keep(Frame(seen.frame), way, seen.frame, seen.time_ns)
                yield fault(seen, arguments, at, of=head, proof=[(held[1], "CongestionKeyInfo")], key=way[0], about=about)
            elif one.method == SET and one.attribute == KEY_INFO:
                self.keys.pop(agent, None)  # unknown until it is answered
        for answer in context.get(Transactions).answers_to(self.suspects):
            if not answer.status:
                self.taken.add(self.suspects[answer.request.frame])
            elif answer.status >> CLASS_STATUS:
                self.refused.add(answer.request.frame)

    def stands(self, hit: Hit, context: Context) -> bool:
        """A node that accepted a request with a key holds that key, whatever it showed."""
        way = self.suspects.get(Frame(hit.frame))
        if self.silent is None:
            self.silent, self.tries = {Frame(one.frame) for one in self.unanswered(context)}, Counter(self.suspects.values())
        if way is None or way in self.taken:
            return False
        proved = self.tries[way] > 1 or context.get(CaptureLoss).proves_silence(hit.time_ns)
        return hit.frame in self.refused or (hit.frame in self.silent and proved)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO where the target answers nothing any more."""
        up = hit.frame in self.refused or self.is_up(context, hit.key.end, hit.frame)
        return super().severity_at_end(hit, context) if up else INFO




class ControlTableBeyond(AgentFacts):
    """A congestion control table block is beyond the adapter's capacity.

    The adapter refuses or drops the block; the delays for heavy congestion are missing.

    Read CongestionInfo from the adapter first; ControlTableCap is the number of blocks of 64 entries.

    The adapter's CongestionInfo before the Set. An `info` for a Get. Silent if its ControlTableCap is 0, if it was asked again and the
    capture does not show the answer, or if the LID is another node's by then.
    """

    code, name, severity = "CC003", "cct-beyond-cap", WARNING
    reference = "IBA A10.4.3.3, A10.4.3.9; opensm cc table"
    message = "block {block} of the CongestionControlTable, whose last block is {last}"
    example = "GetResp(CongestionInfo) with ControlTableCap 2, then Set(CongestionControlTable) for block 2"

    def __init__(self) -> None:
        self.caps = BoundedDict[Side, tuple[int, Frame]](MAX_NODES, "congestion control nodes")
        """ControlTableCap by agent, and the frame that showed it."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        """Learn from CongestionInfo; nodes without a table show ControlTableCap 0."""
        subnet = context.get(FabricFollower).subnet
        for one, seen, agent in of_class(table):
            if not one.asks:
                if (info := answered(one, seen, CongestionInfo)) is not None and info.control_table_cap:
                    self.caps.put(agent, (info.control_table_cap, seen.frame), seen.frame, seen.time_ns)
                continue
            if one.attribute == INFO_OF_NODE:
                self.caps.pop(agent, None)  # unknown until it is answered
                continue
            known = self.caps.get(agent)
            same = known is not None and same_agent(context, agent, known[1], seen.frame)
            if known is not None and same and one.attribute == CONTROL_TABLE and one.modifier >= known[0]:
                arguments, proof = {"block": one.modifier, "last": known[0] - 1}, [(known[1], "CongestionInfo")]
                about = nodes_at(subnet, agent, seen.frame)
                yield fault(
                    seen, arguments, MAD.attribute_modifier, of=seen.first(MAD), proof=proof, key=(agent, one.method), about=about,
                    severity=None if one.method == SET else INFO,
                )  # fmt: skip


class CongestionInert(Rule):
    """An adapter is set not to react to congestion at all.

    With CCTI_Increase 0 a notification (BECN) does not move the index into the table of delays; with CCTI_Limit 0 the index stays 0.
    Packets are marked, but nobody slows down.

    Set CCTI_Increase and the length of the table, or leave the service level out of Control_Map.

    One Set is enough.
    """

    code, name, severity = "CC004", "congestion-ignored", INFO
    reference = "IBA A10.2.2, A10.4.3.8; ibdiagnet CACongestionEntry, PSM2 ips_cca_adjust_rate"
    message = "{what}: congestion notifications have no effect"
    example = "Set(CACongestionSetting) with Control_Map 1 and CCTI_Increase 0 for service level 0"

    @on_struct(CACongestionSetting)
    def settings(self, view: CACongestionSetting, seen: Seen) -> Iterator[Hit]:
        if seen.value(MAD.method) != SET:
            return
        still = [sl for sl, entry in enumerate(view.entry) if view.control_map >> sl & 1 and not entry.ccti_increase]
        if still:
            what = f"CCTI_Increase is 0 for service level {ranges(still)}"
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

    code, name, severity = "CC002", "cc-class-version-wrong", ERROR
    reference = "IBA A10.4.1; opensm"
    when = (MAD.mgmt_class == CC_CLASS) & (MAD.class_version != CLASS_VERSION[CC_CLASS]) & (MAD.base_version == 1) & ~OTHER_VERSION
    at = MAD.class_version
    message = "class version {class_version}, congestion control has 2"
    example = "a CCGet(CongestionInfo) with ClassVersion 1"
