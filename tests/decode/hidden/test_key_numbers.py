"""The values that are keys, and their numbers."""

from __future__ import annotations

import io

import numpy as np
import pytest

import ibdissect
from ibdissect.decode.hidden import key_numbers
from ibdissect.decode.hidden.key_numbers import KeyNumbering, is_secret, keys_of, must_mask, secret_fields
from ibdissect.wire.catalog import builtin
from ibdissect.wire.headers import DETH
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import SMP
from ibdissect.wire.ulp import rpcrdma
from tests import craft
from tests.acme import connection
from tests.cases import every
from tests.craft import LINK_INFINIBAND
from tests.decode.hidden.test_cut_keys import chunks
from tests.decode.made import native_table
from tests.test_secrets import FRAMES
from tests.transport.test_reassembled_messages import NFS, SEGMENTS, packets


def test_only_fields_that_hold_keys() -> None:
    fields = secret_fields(builtin())
    assert DETH.q_key in fields and SMP.m_key in fields
    assert all(field.secret for field in fields)


def test_zero_and_public_values_are_no_secrets() -> None:
    values = np.array([0, 1, 0x80010000, 0x80010001], np.uint32)
    assert must_mask(DETH.q_key, values).tolist() == [False, True, False, True]
    assert [is_secret("Q_Key", value) for value in values.tolist()] == [False, True, False, True]
    assert is_secret("M_Key", 0x80010000)


def test_numbers_follow_the_first_appearance_up_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_numbers, "MAX_KEYS", 2)
    masker, table = KeyNumbering(), native_table([craft.smp(1, 0x10, m_key=key) for key in (9, 0, 7, 9, 5, 5)])
    masker.feed(table)
    assert [masker.name("M_Key", key) for key in (9, 7, 5, 6)] == ["M_Key#1", "M_Key#2", "M_Key#?", "M_Key#?"]
    assert (masker.number("M_Key", 5), masker.number("Q_Key", 5)) == (0, 1)
    assert (masker.dropped.count, masker.dropped.frame, masker.dropped.time_ns) == (1, 1, int(table.chunk.time_ns[0]))
    masker.feed(table)  # what was fed before is skipped
    assert masker.dropped.count == 1


def test_every_declared_key_is_numbered_where_it_first_appears() -> None:
    masker, known = KeyNumbering(), dict[str, list[int]]()
    for table in chunks([(LINK_INFINIBAND, data, len(data)) for data in (*FRAMES, *FRAMES[::-1])]):
        there = []
        for field in secret_fields(table.catalog):
            _, at, values, hidden = keys_of(table.shown, field)
            for place, value, masked in zip(at.tolist(), values, hidden.tolist(), strict=True):
                number = int.from_bytes(value.tobytes(), "big") if values.ndim == 2 else int(value)
                assert masked == is_secret(field.secret, number)
                there += [(place, field.secret, number)] if masked else []
        for _, kind, number in sorted(there):
            if number not in known.setdefault(kind, []):
                known[kind].append(number)
        masker.feed(table)
    assert len(known) > 5 and any(number >> 64 for numbers in known.values() for number in numbers)
    for kind, numbers in known.items():
        assert [masker.number(kind, number) for number in numbers] == list(range(1, len(numbers) + 1)), kind
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
    field = ServiceRecord.service_key
    assert must_mask(field, np.frombuffer(value * 2, np.uint8).reshape(2, 16)).tolist() == [masked] * 2
    assert is_secret(field.secret, int.from_bytes(value, "big")) == masked
