"""SMInfo that is impossible, or contradicts an earlier one."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from msgspec import Struct as Record

from ibdissect.bounded import KeptDict
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Guid
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, FaultDetails, Hit, Rule, Seen
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.attribute_rule import ANSWERED, AttributeRule, Mask
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT, SMP_SET
from ibdissect.subnet import FabricFollower, Subnet
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.topology import ConnectedComponents
from ibdissect.subnet.visible_managers import AGES_NS
from ibdissect.wire.mad import MAD
from ibdissect.wire.names import SM_CONTROL, SM_STATE
from ibdissect.wire.numbers import MASTER, STANDBY
from ibdissect.wire.sm import SMInfo

HANDOVER, ACKNOWLEDGE, DISABLE, STAND_BY, DISCOVER = range(1, 6)
"""Attribute modifiers of Set(SMInfo): the command."""
MAX_MASTERS = 64
SETTLED = -1
MERGES_NS = 30 * SECOND_NS
"""Masters of subnets that were joined find each other in their next sweeps (OpenSM: every 10 s), and one hands over."""


class SMStateReserved(Rule):
    """A subnet manager reports a state that does not exist.

    Other managers decide by the state whether to take over, wait or hand over; with a reserved one there may be two masters or none.

    Correct or update that subnet manager.
    """

    code, name, severity = "SEM042", "smstate-reserved", ERROR
    reference = "IBA 14.2.5.13"
    when = (SMInfo.sm_state > MASTER) & HAS_CONTENT
    message = "subnet manager 0x{guid:016x} has SMState {sm_state}, states are 0 to 3"
    example = "SubnGetResp(SMInfo) with SMState 7"


class SMControlState(Rule):
    """A control packet between subnet managers comes from a manager in the wrong state.

    Only a Standby may acknowledge, only a Master may hand over, disable, wake or restart another. The receiver answers with status 7, and
    no handover takes place.

    Compare the states of both managers in earlier frames; the usual cause is two masters that each want the other to stop.
    """

    code, name, severity = "SEM045", "sminfo-ack-state", WARNING
    reference = "IBA 14.4.1; opensm smi_rcv_check_set_req_legality"
    when = (
        ((SMInfo.sm_state != STANDBY) & (MAD.attribute_modifier == ACKNOWLEDGE))
        | ((SMInfo.sm_state != MASTER) & MAD.attribute_modifier.isin({HANDOVER, DISABLE, STAND_BY, DISCOVER}))
    ) & SMP_SET
    message = "SubnSet(SMInfo) {command} from subnet manager 0x{guid:016x} in state {sm_state!t}; only a {needed} may send it"
    example = "SubnSet(SMInfo) with modifier 2 (ACKNOWLEDGE) and SMState 3 (Master)"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        command = seen.value(MAD.attribute_modifier)
        return {"command": SM_CONTROL[command], "needed": SM_STATE[STANDBY if command == ACKNOWLEDGE else MASTER]}


class PriorityChanged(AttributeRule):
    """A subnet manager's priority changed.

    The manager with the highest priority becomes master: a change may move mastership.

    Nothing if an administrator changed it (opensm: `sm_priority`, or `master_sm_priority` while it is master).

    Two answers of the same manager with different priorities.
    """

    code, name, severity = "SEM041", "sm-priority-change", INFO
    reference = "IBA 14.4.1"
    message = "subnet manager 0x{guid:016x} has priority {now}, it had {before} before"
    example = "two GetResp(SMInfo) of one GUID with priorities 1 and 14"
    at = SMInfo.priority
    when = ANSWERED & (at != previous(at))
    says: ClassVar = {"guid": SMInfo.guid}
    why = "had another priority"


class Mastership(Record, frozen=True):
    """An unbroken series of answers as master."""

    first: int
    """Its first frame."""
    latest: int
    time_ns: int
    """Time of the latest frame."""
    count: int
    """ActCount in it."""


class TwoMasters(AttributeRule):
    """Two subnet managers claim to be master, in turns.

    Both assign LIDs and program switches; packets get lost while they undo each other's work.

    Find out why they do not see each other: different M_Keys or SM_Keys, or two subnets that were joined.

    Answers of both as master, in turns, those of the first at most 10 s apart; it was not restarted in between (its ActCount did not fall),
    and no manager sent another one a command. An `info` where one of them hands over or yields within half a minute, as after two subnets
    were joined, and unless cables and switches lead from one to the other: they may be in two subnets.
    """

    code, name, severity = "SEM044", "two-masters", ERROR
    reference = "IBA 14.4"
    message = "subnet manager 0x{guid:016x} is master, and so is 0x{other:016x}"
    example = "GetResp(SMInfo) with state Master of one GUID, of another, and of the first again"
    at = SMInfo.sm_state
    ages = False

    def __init__(self) -> None:
        self.masters = KeptDict[Guid, Mastership](MAX_MASTERS, "master subnet managers")
        """By GUID."""
        self.claims = KeptDict[tuple[Guid, ...], int](MAX_MASTERS, self.masters.dropped)
        """The time of the first finding, by the GUIDs of all masters then; SETTLED once one of them stopped being master soon."""

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.answers | smps.sets

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        guid, frame = Guid(smp.now(SMInfo.guid)), smp.frame
        if not smp.answers:
            self.masters.clear()  # a command between managers, which moves mastership although its answer may be lost
            self._settle(smp.time_ns, None)
            return None
        if smp.now(SMInfo.sm_state) != MASTER:
            self.masters.pop(guid, None)
            self._settle(smp.time_ns, guid)
            return None
        count = smp.now(SMInfo.act_count)
        known = self.masters.get(guid)
        # ActCount only falls when a manager is restarted; in a long time mastership may have moved forth and back
        lasts = known is not None and count >= known.count and smp.time_ns - known.time_ns <= AGES_NS
        first = known.first if known is not None and lasts else frame
        self.masters.keep(guid, Mastership(first, frame, smp.time_ns, count), frame, smp.time_ns)
        for other, shown in self.masters.items():
            if other != guid and first < shown.latest:  # it was master before and after the other claimed to be
                self.claims.get_or_make(self.flow_of(smp), partial(int, smp.time_ns), frame, smp.time_ns)
                others = [(one.latest, "another master") for one_guid, one in self.masters.items() if one_guid != guid]
                return {"guid": guid, "other": other}, others
        return None

    def _settle(self, time_ns: int, guid: Guid | None) -> None:
        """A manager is no longer master, or one (None) sent a command: that ends claims of the last half minute."""
        soon = [claim for claim, since in self.claims.items() if time_ns - since <= MERGES_NS and (guid is None or guid in claim)]
        self.claims.update(dict.fromkeys(soon, SETTLED))

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info unless both are known to be in one subnet, and both remain master."""
        subnet: Subnet = context.get(FabricFollower).subnet
        guids = hit.arguments["guid"], hit.arguments["other"]
        one, other = ([port for port in subnet.ports() if port.guid == guid] for guid in guids)
        joined = one and other and context.get(ConnectedComponents).join(subnet, one[0], other[0])
        return super().severity_at_end(hit, context) if joined and self.claims.get(hit.key, SETTLED) != SETTLED else INFO

    def flow_of(self, smp: AttributeSmp) -> tuple[Guid, ...]:
        return tuple(sorted(self.masters))


class CountFellBack(AttributeRule):
    """The activity counter of a subnet manager fell.

    ActCount grows with everything that the manager does; a standby takes over when it stops. A lower number means a restart.

    Nothing if the manager was restarted.

    Two answers of the same manager, the later one with a lower count.
    """

    code, name, severity = "SEM046", "actcount-not-increasing", INFO
    reference = "IBA 14.4.1"
    message = "subnet manager 0x{guid:016x} shows ActCount {now}, it showed {before} before"
    example = "two GetResp(SMInfo) of one GUID with ActCount 9 and 2"
    at = SMInfo.act_count
    when = ANSWERED & (at < previous(at))
    says: ClassVar = {"guid": SMInfo.guid}
    why = "showed a higher count"
