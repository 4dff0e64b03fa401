"""SMPs that come from another port than they should, or carry a key in the wrong byte order."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter

import numpy as np

from ibdissect.decode import Int
from ibdissect.decode.equal_rows import by_value
from ibdissect.decode.identity import one_block
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, fault, on_end, on_event
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.smp_senders import port_of_sender, sender_changes, senders_of
from ibdissect.rules.shared.stretches import stretches
from ibdissect.rules.shared.wrong_responder import WrongResponderRule
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower
from ibdissect.subnet.attribute_smps import AttributeSmps
from ibdissect.subnet.earlier_answers import PortInfos, port_key
from ibdissect.subnet.events import WrongMKey
from ibdissect.wire import numbers
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import SMP
from ibdissect.wire.sm_port import PortInfo

CONFIGURED = (
    numbers.SWITCH_INFO, numbers.GUID_INFO, numbers.P_KEY_TABLE, numbers.SL_TO_VL, numbers.VL_ARBITRATION, numbers.LINEAR,
    numbers.RANDOM, numbers.MULTICAST,
)  # fmt: skip
"""Attributes besides PortInfo that only the subnet manager writes."""


class AnswerFromOtherLid(WrongResponderRule):
    """The answer to a LID-routed subnet management request comes from another port, or goes to another.

    A responder swaps the LIDs of the request. The requester does not recognise an answer from elsewhere and waits for its timer.

    Correct the responder; look whether two ports share a LID.

    A request, and an answer with its transaction id from another LID. LIDs within one block of 128 may belong to one port: they count as
    different only if the port that was asked showed its LID and LMC, and Sets or a later answer show that it kept them. An answer that
    repeats the addresses of its request counts if no other answer follows; it is an `info` where the capture misses packets, ten seconds
    after the request, when the transaction id may have been used again, and for the new LID of a port that the request moves. An answer
    to another LID than the requester's is an `info`, if nothing else answers: the capture may have missed that port's request.
    """

    code, name, severity = "SMP016", "response-lids-not-swapped", ERROR
    reference = "IBA 13.5.4"
    message = "{what} went to {to}, the answer comes from {sender}"
    example = "SubnGet(NodeInfo) to LID 2, answered by LID 900 with the same transaction id"
    subnet_management = True

    @on_end
    def sent_elsewhere(self, context: Context) -> Iterator[Hit]:
        """Answers of the port that was asked, to another one."""
        transactions, subnet = context.get(Transactions), context.get(FabricFollower).subnet
        answers = [one for one in transactions.lone_answers.values() if one.mgmt_class == numbers.LID_ROUTED and one.transaction]
        requests = transactions.open_requests(numbers.LID_ROUTED) if answers else ()
        waiting = {(one.target, one.transaction, one.attribute, one.modifier): one for one in requests}
        for answer in answers:
            request = waiting.get((answer.source, answer.transaction, answer.attribute, answer.modifier))
            asker, receiver = (request.source.lid if request is not None else None), answer.target.lid
            if request is None or asker is None or receiver is None or not request.last_frame < answer.frame:
                continue
            port = subnet.owner(asker, request.frame)[0]
            owns = port.owns(receiver, request.frame) if port is not None else None
            if owns is False or (owns is None and not one_block(asker, receiver)):
                hit = fault(
                    answer, {"what": request.what(context.catalog), "asker": str(request.source), "to": request.to, "receiver": answer.to},
                    MAD.transaction_id, proof=[(request.frame, "request")], key=(request.source, request.target, receiver), severity=INFO,
                    message="{what} came from {asker}, {to} answers to {receiver}",
                )  # fmt: skip
                hit.mads = (request.frame,)
                yield hit


class ReversedMKey(LearntFactRule):
    """A request carries its port's M_Key with the bytes reversed.

    Keys are big-endian on the wire. The port drops the request and counts a violation although the sender knows the key; usually a program
    on a little-endian machine does not swap the bytes.

    Swap the bytes in the tool or in its key file.

    The M_Key that the port showed in PortInfo before, and the request.
    """

    code, name, severity = "SMP023", "smp-mkey-bytes-endianness", WARNING
    reference = "IBA 14.2.1.1 (big-endian M_Key); the conclusion is by comparison"
    message = "{presented} to {port} is {held} with the bytes reversed"
    example = "a port with M_Key 0x1122334455667788, and a Set with 0x8877665544332211"

    @on_event(WrongMKey)
    def request(self, event: WrongMKey, context: Context) -> Iterator[Hit]:
        if event.presented != int.from_bytes(event.held.key.to_bytes(8, "big"), "little"):
            return
        yield fault(
            event,
            {"port": str(event.port), "presented": value_of(SMP.m_key, event.presented), "held": value_of(SMP.m_key, event.held.key)},
            SMP.m_key, value_of(SMP.m_key, event.presented), proof=[(event.shown, "showed the port's M_Key")], start=event.mad,
            key=event.sender, about=(event.port.node.slot,),
        )  # fmt: skip


class SetFromNonMaster(Rule):
    """A port that is not the manager writes to the subnet.

    Only the subnet manager should write LIDs, keys, partitions and forwarding tables. A second writer is a forgotten manager, a tool, or an
    intruder.

    Find the host by its LID or GUID, and add it to `managers` of the site policy, or stop it and protect the subnet with an M_Key.

    With `managers` in the site policy: any SubnSet from another port. Without: an `info` for a LID-routed Set of PortInfo, SwitchInfo,
    GUIDInfo, or a table of P_Keys, VLs or LIDs that comes from another LID than the MasterSMLID that the port last showed, and does not
    write its own there; diagnostic tools do that on purpose.
    """

    code, name, severity = "SMP025", "set-from-non-master", WARNING
    reference = "IBA 14.2.5.6 MasterSMLID, 14.4.1; the site policy says who may write"
    message = "SubnSet from {sender}, which the site's policy does not name as a manager"
    example = "the policy `managers = [1]`, and a SubnSet from LID 7"

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        policy: SitePolicy = context.get(SitePolicy)
        if not policy.manages:
            yield from _beside_the_master(event, context)
            return
        asks = event.requests
        index = np.flatnonzero(asks.method == numbers.SET)
        if not len(index):
            return
        sender, hidden = senders_of(event.table, asks, index)
        for number, where in by_value(sender << 1 | hidden):
            lid, directed, rows = number >> 1, bool(number & 1), asks.rows[index[where]]
            changes = sender_changes(event, context, lid, directed, int(rows[0]) + event.table.chunk.first)
            for seen, some in stretches(event.table, rows, changes):
                judged = _writer(event, context, policy, lid, directed, seen.frame)
                if judged is None:
                    continue
                text, shown = judged
                yield fault(
                    seen, {"sender": text}, LRH.slid, None if directed else lid,
                    proof=[(shown, "showed which port that is")] if shown else [], rows=some, key=(lid, directed),
                )  # fmt: skip


def _beside_the_master(event: ChunkFollowed, context: Context) -> Iterator[Hit]:
    """Sets of what a manager configures, from another LID than the port's MasterSMLID (of a switch: that of its port 0).

    A PortInfo may name the sender its manager.
    """
    infos: PortInfos = context.get(PortInfos)
    infos.of(event)  # learns from the chunk
    every, slid = event.smps, event.table.values_at(LRH.slid, event.smps.rows)
    by_lid = (every.method == numbers.SET) & (slid > 0) & (slid < numbers.FIRST_MULTICAST)
    found: list[Iterator[Hit]] = []
    for attributes in ((numbers.PORT_INFO,), CONFIGURED) if by_lid.any() else ():
        sets = AttributeSmps(*every.some(np.flatnonzero(by_lid & np.isin(every.attribute, attributes))), event=event)
        if len(sets):
            sets.about_ports = numbers.PORT_INFO in attributes
            number = sets.number if sets.about_ports else sets.entered
            sets.before, sets.since = infos.at(port_key(sets.slot, np.where(sets.kind == SWITCH, 0, number)), sets.frames)
            named = sets.now(PortInfo.master_sm_lid).astype(np.int64) if sets.about_ports else np.zeros(len(sets), np.int64)
            found.append(_from_elsewhere(sets, named))
    yield from merge(*found, key=attrgetter("frame"))


def _from_elsewhere(smps: AttributeSmps, named: Int) -> Iterator[Hit]:
    """Sets by LID from another LID than the MasterSMLID in `smps.before`, and than the one `named` in the Set, int64[n]."""
    table = smps.event.table
    manager = smps.was(PortInfo.master_sm_lid).astype(np.int64)
    mask = -1 << smps.was(PortInfo.lmc).astype(np.int64)
    slid = table.values_at(LRH.slid, smps.rows).astype(np.int64)
    beside = (manager > 0) & (smps.since > 0) & (slid & mask != manager & mask) & (slid & mask != named & mask)
    for smp in smps.each(beside):
        sender, attribute = int(slid[smp.i]), table.catalog.attribute_name(numbers.LID_ROUTED, smp.attribute, numbers.SET)
        about = {"sender": f"LID {sender}", "port": smp.name, "manager": smp.was(PortInfo.master_sm_lid), "attribute": attribute}
        yield fault(
            Seen(table, smp.rows), about, LRH.slid, sender, proof=[(smp.since, "its MasterSMLID")], key=sender, severity=INFO,
            message="Set({attribute}) of {port} from {sender}, but its subnet manager has LID {manager}",
        )  # fmt: skip


def _writer(event: ChunkFollowed, context: Context, policy: SitePolicy, sender: int, hidden: bool, frame: int) -> tuple[str, int] | None:
    """The sender if it is not a manager, and the frame that identified it; None if it is one, or unknown."""
    if not hidden and (not 0 < sender < numbers.FIRST_MULTICAST or sender in policy.manager_lids):
        return None
    port, shown = port_of_sender(event, context, sender, hidden, frame)
    if port is None or not (hidden or port.guid):
        return None if hidden or policy.manager_guids else (f"LID {sender}", 0)
    lid, _ = port.lids.at(frame)[0] or (0, 0)
    if port.guid in policy.manager_guids or (lid and lid in policy.manager_lids):
        return None
    if hidden and not policy.manager_guids and not lid:
        return None  # the policy names LIDs, and the sender's is unknown
    if not hidden and not policy.manager_guids:
        return f"LID {sender}", 0
    return port.name_at(frame), shown
