"""Is the data of a request that nobody reads hidden everywhere, learnt from nowhere, and gone after scrubbing?"""

from __future__ import annotations

import io
import struct

from ibdissect.dfilter.compile import compile_filter
from ibdissect.dissect.named_values import declared, runs
from ibdissect.dissect.printers import dump
from ibdissect.dissect.tree import dissect_row
from ibdissect.dissect.value import Presenter
from ibdissect.flow.multicast import Multicast
from ibdissect.scrub.copy import write_scrubbed
from ibdissect.session.capture import Capture
from ibdissect.table.cut_keys import without_keys
from ibdissect.table.secrets import Masker
from ibdissect.table.unread import unread, unread_bytes
from ibdissect.wire.sa_paths import MCMemberRecord
from ibdissect.wire.sa_records import NodeRecord
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.sm_port import PortInfo
from tests.craft import build, erf_pcap, gmp, smp
from tests.table.made import native_table

KEY = 0xDEADBEEFCAFEF00D
STALE = build(PortInfo, m_key=KEY, lid=7)


def asked(method: int, attr_id: int, mask: int) -> bytes:
    return gmp(0x03, method, attr_id, struct.pack(">24xQ", mask) + STALE, at=24)


def test_stale_data_of_a_get_is_hidden_and_the_attribute_is_not_there() -> None:
    frames = [smp(0x01, 0x11, STALE), smp(0x01, 0x15, STALE, modifier=1), asked(0x01, 0x11, 0), asked(0x12, 0x31, 0)]
    table = native_table(frames)
    for struct_ in (NodeInfo, PortInfo, NodeRecord, ServiceRecord):
        assert not len(table.occurrences(struct_))
    digits = f"{KEY:016X}"
    for row in range(len(frames)):
        shown = dump(dissect_row(table, row, Presenter())).replace("\n", " ")
        assert digits[:8] not in shown and digits[8:] not in shown
        assert digits[:8] in dump(dissect_row(table, row, Presenter(show_keys=True)))
    assert KEY.to_bytes(8, "big") not in table.once(without_keys).tobytes()


def test_what_is_read_stays() -> None:
    """Sets, answers, and queries that choose a component carry attributes."""
    table = native_table([smp(0x02, 0x15, STALE), smp(0x81, 0x15, STALE), asked(0x12, 0x11, 1)])
    assert len(table.occurrences(PortInfo)) == 2
    assert len(table.occurrences(NodeRecord)) == 1


def test_scrubbing_leaves_nothing_of_it() -> None:
    out = io.BytesIO()
    with Capture(io.BytesIO(erf_pcap([smp(0x01, 0x11, STALE), asked(0x01, 0x11, 0)]))) as opened:
        write_scrubbed(opened, None, out, "pcap")
    assert KEY.to_bytes(8, "big") not in out.getvalue()


def test_no_column_shows_it() -> None:
    with Capture(io.BytesIO(erf_pcap([smp(0x01, 0x11, STALE), asked(0x01, 0x11, 0)]))) as opened:
        for name in ("infiniband.payload", "infiniband.mad", "frame"):
            assert opened.table()[name].value.tolist() == [None, None]


def refused(method: int) -> bytes:
    """An answer without records that repeats the request's MCMemberRecord."""
    record = build(MCMemberRecord, mgid=0xFF12 << 112 | 1, port_gid=0xFE80 << 112 | 7, q_key=0xCAFEF00D)
    return gmp(0x03, method, 0x38, struct.pack(">12xQHHQ", 0, 7, 0, 3) + record, at=24, header={"status": 0x0300})


def test_a_failed_answer_shows_the_requests_record_but_nothing_is_learnt() -> None:
    table = native_table([refused(0x81), refused(0x92)])
    assert not len(table.occurrences(MCMemberRecord)) and len(table.shown.occurrences(MCMemberRecord)) == 2
    layers = [layer.label for layer in dissect_row(table, 0, Presenter()).layers]
    assert "MCMemberRecord (the request's)" in layers and "Attribute data" not in layers
    assert compile_filter("infiniband.mcmemberrecord.portgid == fe80::7").rows(table).all()
    (run,) = runs(table, declared(table.catalog, "infiniband.mcmemberrecord.q_key"))
    assert run.values.tolist() == [0xCAFEF00D] * 2
    masker = Masker()
    masker.feed(table)
    text = dump(dissect_row(table, 0, Presenter(masker)))
    assert "Q_Key#1" in text and "CAFEF00D" not in text.upper()
    knowledge = Multicast()
    list(knowledge.feed(table))
    assert not knowledge.groups


def test_an_answer_that_did_not_fail_is_itself() -> None:
    table = native_table([gmp(0x03, 0x81, 0x11, struct.pack(">12xQHHQ", 0, 14, 0, 3) + build(NodeRecord, lid=7), at=24)])
    assert table.shown is table and len(table.occurrences(NodeRecord)) == 1


def test_which_requests_nobody_reads() -> None:
    """Method, attribute and, of the SA, ComponentMask say so; vendor and unknown attributes may be read."""
    smps = {(method, attr_id): method == 1 and attr_id in (0x11, 0x15)
            for method in (1, 2, 5, 0x81) for attr_id in (0x11, 0x15, 0x99, 0xFF10)}  # fmt: skip
    queries = {(method, attr_id, mask): method in (1, 0x12) and attr_id == 0x11 and not mask
               for method in (1, 2, 0x12, 0x15, 0x81, 0x92) for attr_id in (0x11, 0x99) for mask in (0, 1, 1 << 63)}  # fmt: skip
    table = native_table([*(smp(*what, STALE) for what in smps), *(asked(*what) for what in queries), gmp(0x04, 1, 0x12, STALE)])
    expected = [*smps.values(), *queries.values(), False]
    assert table.once(unread).tolist() == expected and sum(expected) == 4
    rows, at, stop = unread_bytes(table)
    assert rows.tolist() == [row for row, nobody in enumerate(expected) if nobody]
    for row, low, high in zip(rows.tolist(), at.tolist(), stop.tolist(), strict=True):
        mad = int(table.located.at("mad")[row])
        assert (low - mad, high - mad) == (64 if row < len(smps) else 56, 256)
