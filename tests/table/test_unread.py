"""Is the data of a request that nobody reads hidden everywhere, learnt from nowhere, and gone after scrubbing?"""

from __future__ import annotations

import io
import struct

from ibdissect.dissect.printers import dump
from ibdissect.dissect.tree import dissect_row
from ibdissect.dissect.value import Presenter
from ibdissect.scrub.copy import write_scrubbed
from ibdissect.session.capture import Capture
from ibdissect.table.cut_keys import without_keys
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
