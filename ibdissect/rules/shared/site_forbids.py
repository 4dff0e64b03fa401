"""Traffic that the site policy does not allow. Handlers that rules of several families have besides their own.

Silent without a site policy (`[tool.ibdissect.site]`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import by_value
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import value_of
from ibdissect.lint.rule import Context, Hit, Rule, Seen, fault, on_chunk, on_event
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.rules.shared.smp_senders import senders_of
from ibdissect.subnet import SWITCH, ChunkFollowed
from ibdissect.subnet.earlier_answers import PKeyTables, PortInfos, port_key
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.mad import METHODS
from ibdissect.wire.numbers import BASE, SET, TRAP_REPRESS
from ibdissect.wire.sm import SMP
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyEntry
from ibdissect.wire.spec import Field

SITE = "site policy"
ALL_P_KEYS = 1 << 16
TAKEN_AWAY = "the M_Key of {port} is removed, but the site's policy requires one"
FOREIGN_KEY = "{held} {verb} {port} and is not one of the site's M_Keys"


@on_chunk
def forbidden_packets(_rule: Rule, table: ChunkTable, context: Context) -> Iterator[Hit]:
    """Packets between ordinary queue pairs in a partition that is not allowed; one finding per sender, QP and P_Key."""
    policy: SitePolicy = context.get(SitePolicy)
    if policy.partitions is None and not policy.no_partitions:
        return
    found = table.occurrences(BTH)
    p_key, qp = table.values(BTH.p_key).astype(np.int64), table.values(BTH.destqp).astype(np.int64)
    wrong = np.zeros(ALL_P_KEYS, np.bool_)
    for one in np.flatnonzero(np.bincount(p_key, minlength=ALL_P_KEYS)).tolist():
        wrong[one] = not policy.partition_allowed(one)
    index = np.flatnonzero(wrong[p_key] & (qp > 1))
    if not len(index):
        return
    rows = found.rows[index]
    slid = table.of_rows(LRH.slid)[0][rows].astype(np.int64)
    for key, where in by_value(slid << 40 | qp[index] << 16 | p_key[index]):
        yield fault(
            Seen(table, int(rows[where[0]])),
            {"p_key": key & 65535, "qp": key >> 16 & 16777215, "sender": f"LID {key >> 40}" if key >> 40 else "a host"}, BTH.p_key,
            key & 65535, rows=rows[where], key=(SITE, key),
            message="P_Key 0x{p_key:04x} from {sender} to QP 0x{qp:x}: the site's policy does not allow that partition",
        )  # fmt: skip


@on_event(ChunkFollowed)
def forbidden_entries(_rule: Rule, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
    """Sets that write a forbidden partition into a port's table, except the default partition of management."""
    policy: SitePolicy = context.get(SitePolicy)
    if policy.partitions is None and not policy.no_partitions:
        return
    smps = context.get(PKeyTables).of(event)
    for smp in smps.each(smps.sets):
        for place, p_key in enumerate(smp.body.view(">u2").tolist()):
            if policy.partition_allowed(p_key) or p_key & BASE == BASE:
                continue
            yield fault(
                smp, {"p_key": p_key, "port": smp.name}, PKeyEntry.p_key, p_key,
                start=smp.body_at + 2 * place, key=(SITE, smp.slot, smp.entered, smp.modifier, p_key),
                message="Set(P_KeyTable) of {port} writes 0x{p_key:04x}: the site's policy does not allow that partition",
            )  # fmt: skip


def also(report: Callable[..., Iterator[Hit]], **how: bool) -> Any:
    """A handler that a rule has besides its own, of one of the functions below."""
    return on_event(ChunkFollowed)(lambda _rule, event, context: report(event, context, **how))


def foreign_lids(event: ChunkFollowed, context: Context) -> Iterator[Hit]:
    """Packets from or to unicast LIDs, and assignments of LIDs, outside the site's ranges."""
    policy: SitePolicy = context.get(SitePolicy)
    if not policy.lids:
        return
    native = event.table.once(Native)
    foreign = np.array([not policy.lid_allowed(lid) for lid in range(1 << 16)])
    for lids, field, verb in ((native.slid, LRH.slid, "from"), (native.dlid, LRH.dlid, "to")):
        index = np.flatnonzero(foreign[lids])
        for lid, where in by_value(lids[index]):
            yield _foreign(event.table, native.rows[index[where]], None, field, lid, f"a packet {verb} LID {lid}", (verb, lid))
    smps = context.get(PortInfos).of(event)
    if len(smps):
        for smp in smps.each(smps.sets & foreign[smps.now(PortInfo.lid)]):
            lid = smp.now(PortInfo.lid)
            text = f"Set(PortInfo) of {smp.name} assigns LID {lid}"
            yield _foreign(event.table, smps.rows[smp.i : smp.i + 1], smp.body_at, PortInfo.lid, lid, text, ("set", lid))


def _foreign(table: ChunkTable, rows: Int, start: int | None, field: Field[int], lid: int, what: str, key: tuple[str, int]) -> Hit:
    return fault(
        Seen(table, int(rows[0])), {"what": what}, field, lid, start=start, rows=rows, key=(SITE, *key), explains=False,
        message="{what}, which is outside of the site's LID ranges",
    )  # fmt: skip


def foreign_keys(event: ChunkFollowed, context: Context, *, zero: bool) -> Iterator[Hit]:
    """Sets and TrapRepresses with an M_Key that is not the site's; `zero`: without one, to a port not known to have none."""
    policy: SitePolicy = context.get(SitePolicy)
    if not policy.m_keys:
        return
    asks = event.requests
    index = np.flatnonzero((asks.method == SET) | (asks.method == TRAP_REPRESS))
    key = asks.m_key[index]
    wrong = ~np.isin(key, np.array(sorted(policy.m_keys), np.uint64)) & ((key == 0) == zero)
    if zero:
        wrong &= ~_open(event, context, index)
    sender, directed = senders_of(event.table, asks, index)
    for j in np.flatnonzero(wrong).tolist():
        i = int(index[j])
        node = event.subnet.by_slot(int(asks.slot[i]))
        port = node.manager(int(asks.entered[i])) if node is not None else None
        seen, presented = Seen(event.table, int(asks.rows[i])), value_of(SMP.m_key, int(key[j]))
        name = port.name_at(seen.frame) if port is not None else "an unknown port"
        yield fault(
            seen, {"method": METHODS[int(asks.method[i])], "presented": presented, "port": name},
            SMP.m_key, presented, start=int(asks.mad[i]), key=(SITE, int(asks.slot[i]), int(sender[j]), bool(directed[j]), int(key[j])),
            message="{method} to {port} carries " + ("no M_Key" if zero else "{presented}, not one of the site's M_Keys"),
        )  # fmt: skip


def _open(event: ChunkFollowed, context: Context, index: Int) -> Bool:
    """Which requests go to ports that last showed no M_Key and hide none: a manager installs the first key without one."""
    asks = event.requests
    infos: PortInfos = context.get(PortInfos)
    infos.of(event)
    number = np.where(asks.kind[index] == SWITCH, 0, asks.entered[index])
    bodies, since = infos.at(port_key(asks.slot[index], number), asks.rows[index] + event.table.chunk.first)
    protect = extract(bodies, PortInfo.m_key_protect_bits.bit, PortInfo.m_key_protect_bits.bits)
    free: Bool = (since > 0) & ~bodies[:, slice(*PortInfo.m_key.span)].any(axis=1) & (protect == 0)
    return free


def foreign_keys_held(event: ChunkFollowed, context: Context, *, zero: bool) -> Iterator[Hit]:
    """M_Keys, written to a port or shown by one, that are not the site's; `zero`: Sets that remove the key."""
    policy: SitePolicy = context.get(SitePolicy)
    smps = context.get(PortInfos).of(event)
    if not policy.m_keys or not len(smps):
        return
    key = smps.now(PortInfo.m_key).astype(np.uint64)
    wrong = ~np.isin(key, np.array(sorted(policy.m_keys), np.uint64))
    wrong &= (key == 0) & smps.sets if zero else (key != 0) & (smps.sets | smps.answers)
    wrong &= ~((smps.kind == SWITCH) & (smps.number > 0))  # the key of a switch is that of its port 0
    for smp in smps.each(wrong):
        held = value_of(PortInfo.m_key, smp.now(PortInfo.m_key))
        yield fault(
            smp, {"port": smp.name, "held": held, "verb": "is written to" if smp.sets else "is held by"}, PortInfo.m_key, held,
            start=smp.body_at, key=(SITE, smp.key, smp.now(PortInfo.m_key)), message=TAKEN_AWAY if zero else FOREIGN_KEY,
        )  # fmt: skip
