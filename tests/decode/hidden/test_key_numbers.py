"""The values that are keys, and their numbers."""

from __future__ import annotations

import io

import numpy as np
import pytest

import ibdissect
from ibdissect.decode.hidden.key_numbers import KeyNumbering, secret_fields
from ibdissect.wire.catalog import builtin
from ibdissect.wire.headers import DETH
from ibdissect.wire.sm import SMP
from ibdissect.wire.ulp import rpcrdma
from tests import craft
from tests.acme import connection
from tests.bounds import bound
from tests.cases import every
from tests.craft import LINK_INFINIBAND
from tests.decode.hidden.test_cut_keys import chunks
from tests.decode.made import native_table
from tests.test_secrets import FRAMES, PLANTED, UPPER
from tests.transport.test_reassembled_messages import NFS, SEGMENTS, packets


def test_only_fields_that_hold_keys() -> None:
    fields = secret_fields(builtin())
    assert DETH.q_key in fields and SMP.m_key in fields
    assert all(field.secret for field in fields)


def texts(name: str, frames: list[bytes]) -> list[str]:
    """A field as the trees of some frames show it; columns have no value where that is a number of a key."""
    with ibdissect.open(io.BytesIO(craft.erf_pcap(frames))) as opened:
        found = [next(node.text for node in opened.dissect(i + 1).walk() if node.name == name) for i in range(len(frames))]
        masked = np.ma.getmaskarray(opened.table()[name].value).reshape(len(frames), -1).any(axis=1)
        assert masked.tolist() == ["#" in text for text in found]
        return found


def test_zero_and_public_values_are_no_secrets() -> None:
    """The Q_Key of QP1 is public, but no M_Key is."""
    values = [0, 1, 0x80010000, 0x80010001]
    q_keys = texts("infiniband.deth.q_key", [craft.ud(b"x", dest_qp=9, q_key=value) for value in values])
    assert q_keys[1::2] == ["Q_Key#1", "Q_Key#2"] and not any("#" in text for text in q_keys[::2])
    m_keys = texts("infiniband.smplid.mkey", [craft.smp(1, 0x10, m_key=value) for value in values])
    assert m_keys[1:] == ["M_Key#1", "M_Key#2", "M_Key#3"] and "#" not in m_keys[0]


def test_numbers_follow_the_first_appearance_up_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, 2, "decode")
    masker, table = KeyNumbering(), native_table([craft.smp(1, 0x10, m_key=key) for key in (9, 0, 7, 9, 5, 5)])
    masker.feed(table)
    assert [masker.name("M_Key", key) for key in (9, 7, 5, 6)] == ["M_Key#1", "M_Key#2", "M_Key#?", "M_Key#?"]
    assert (masker.number("M_Key", 5), masker.number("Q_Key", 5)) == (0, 1)
    assert (masker.dropped.count, masker.dropped.frame, masker.dropped.time_ns) == (1, 1, int(table.chunk.time_ns[0]))
    masker.feed(table)  # what was fed before is skipped
    assert masker.dropped.count == 1


def test_every_declared_key_is_numbered_where_it_first_appears() -> None:
    kinds = {field.filter_name: field.secret for field in secret_fields(builtin())}
    masker, known = KeyNumbering(), dict[str, list[int]]()
    for table in chunks([(LINK_INFINIBAND, data, len(data)) for data in (*FRAMES, *FRAMES[::-1])]):
        masker.feed(table)
    for key in sorted(PLANTED, key=lambda key: (key.frame, key.end)):
        if not key.field.startswith(UPPER) and int.from_bytes(key.value, "big") not in known.setdefault(kinds[key.field], []):
            known[kinds[key.field]].append(int.from_bytes(key.value, "big"))
    assert len(known) > 5 and any(number >> 64 for numbers in known.values() for number in numbers)
    for kind, numbers in known.items():
        found = [masker.number(kind, number) for number in numbers]  # other fields of these frames have keys, too
        assert found == sorted({*found}) and found[0] > 0, kind
    assert not masker.dropped.count


def test_a_message_of_several_packets_has_all_of_its_keys_in_order() -> None:
    """Also those that its first packet shows, which may be no part of what is numbered."""
    frames = [*connection(rpcrdma.SERVICE), *packets(NFS)]
    with ibdissect.open(io.BytesIO(craft.erf_pcap(frames))) as opened:
        *_, last = opened.tables(edges=[len(frames)])
        masker = KeyNumbering()
        masker.feed(last)
    assert [masker.number("R_Key", 0x900 + i) for i in range(SEGMENTS)] == list(range(1, SEGMENTS + 1))


@every(("value", "masked"), [(bytes(16), False), (bytes(15) + b"\1", True), (b"\1" + bytes(15), True), (b"\xff" * 16, True)])
def test_a_wide_key_is_hidden_unless_it_is_zero(value: bytes, masked: bool) -> None:
    record = craft.gmp(3, 0x81, 0x31, bytes(32) + craft.build("ServiceRecord", 176, service_key=value), at=24)
    assert ("#" in texts("infiniband.linkrecord.servicekey", [record])[0]) == masked
