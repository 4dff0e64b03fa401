"""Which traps and reports contradict themselves?"""

from __future__ import annotations

from ibdissect.lint.rule import INFO, WARNING, Rule
from ibdissect.rules.shared.mad_conditions import BY_SMP, NO_ERROR
from ibdissect.wire.expr import Or
from ibdissect.wire.link import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.notice import Notice, TrapLocalChange
from ibdissect.wire.numbers import GET, SMP_CLASSES, TRAP

URGENT, SECURITY, SUBNET_MANAGEMENT, INFORMATIONAL, EMPTY = 1, 2, 3, 4, 0x7F
TYPE_OF = {
    SUBNET_MANAGEMENT: frozenset(range(64, 68)),
    URGENT: frozenset(range(128, 132)),
    INFORMATIONAL: frozenset({144, 145}),
    SECURITY: frozenset(range(256, 260)),
}
"""Notice type by trap number (opensm, kernel qib; 128-131: type 1 in OpenSM's trap log)."""
KNOWN = frozenset({64, 65, 66, 67, 68, 69, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259})
_EVENT = (Notice.type != EMPTY) & (MAD.method != GET) & NO_ERROR
"""An event: a Get or an empty notice reports none."""
_SUBNET = MAD.mgmt_class.isin({*SMP_CLASSES, 0x03})
"""Traps of subnet management, and the SA's reports of them; other classes have their own numbers."""
_GENERIC = (Notice.is_generic == 1) & _EVENT


class ProducerType(Rule):
    """A generic notice comes from a producer type that does not exist.

    Producers are channel adapters, switches, routers and class managers. Subscribers filter by producer, so a notice with another
    type reaches nobody.

    Correct the firmware or manager that sent it.
    """

    code, name, severity = "TRP002", "trap-producertype", WARNING
    reference = "IBA 13.4.8.2; opensm"
    when = ~Notice.producer_type.isin({1, 2, 3, 4}) & _GENERIC
    flow = (Notice.issuer_lid, Notice.trap_number)
    message = "trap {trap_number} from producer type {producer_type}, types are 1 to 4"
    example = "SubnTrap(Notice) with ProducerType 9"


class TypeOfTrap(Rule):
    """The type of a generic trap does not match its number.

    Type and number belong together: 64-67 subnet management, 128-131 urgent, 144-145 informational, 256-259 security. A subscriber
    to security events misses a key violation that is sent as information.

    Correct the firmware or manager that sent it.
    """

    code, name, severity = "TRP003", "trap-type-number-mismatch", WARNING
    reference = "IBA 14.2.5.1; opensm osm_drop_mgr, osm_req; kernel qib"
    when = Or(tuple((Notice.type != kind) & Notice.trap_number.isin(numbers) for kind, numbers in TYPE_OF.items())) & _GENERIC & _SUBNET
    flow = (Notice.issuer_lid, Notice.trap_number)
    message = "trap {trap_number} has type {type}"
    example = "SubnTrap(Notice) with trap 144 and type 1 (Urgent)"


class UnknownTrap(Rule):
    """A generic trap has an unknown number.

    Its details cannot be read. It comes from a newer standard, or a vendor's trap is marked as generic by mistake.

    Look up the number in the device's documentation; a vendor's trap should have IsGeneric 0.
    """

    code, name, severity = "TRP004", "trap-unknown", INFO
    reference = "IBA 14.2.5.1; opensm SM_*_TRAP"
    when = ~Notice.trap_number.isin(KNOWN) & _GENERIC & _SUBNET
    flow = (Notice.issuer_lid, Notice.trap_number)
    message = "generic trap {trap_number} is not known"
    example = "SubnTrap(Notice) with trap 99"


class ChangeOfNothing(Rule):
    """Trap 144 reports a local change, but not which.

    Without a new CapabilityMask and without a change flag, the manager has to read everything again, or ignores the trap.

    Update the firmware of the port that sent it.
    """

    code, name, severity = "TRP007", "trap144-flags", INFO
    reference = "IBA 14.2.5.1; opensm; kernel ib_smi.h"
    when = (
        (TrapLocalChange.capabilitymask == 0)
        & (TrapLocalChange.change_flags == 0)
        & (TrapLocalChange.other_local_changes == 0)
        & _EVENT
        & _SUBNET
    )
    at = TrapLocalChange.change_flags
    flow = (TrapLocalChange.lidaddr,)
    message = "trap 144 of LID {lidaddr}: CapabilityMask 0 and no change flag"
    example = "SubnTrap(Notice) with trap 144 and empty details"


class ManagerTrapAsSMP(Rule):
    """A node sends trap 64, 65, 66 or 67 as a SubnTrap.

    The subnet manager itself notices these events, and reports them to subscribers through the SA. A node that sends one as an SMP
    makes the manager believe in ports and groups that came or went.

    Find the sender by its LID; if it is not one of your managers, treat the trap as a forgery.
    """

    code, name, severity = "TRP009", "trap64-as-smp", WARNING
    reference = "IBA 14.2.5.1; opensm osm_state_mgr, osm_multicast"
    when = Notice.trap_number.between(64, 67) & (Notice.is_generic == 1) & (MAD.method == TRAP) & BY_SMP
    flow = (LRH.slid, Notice.trap_number)
    message = "trap {trap_number} as a SubnTrap; the subnet manager reports it by SA"
    example = "SubnTrap(Notice) with trap 64"
