"""The common headers of MADs are what views read, from the shortest datagram on; directed routes are as long as they say."""

from __future__ import annotations

import numpy as np
import pytest

from ibdissect.decode.mads import DirectedRoutes, Mads
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.sm import SMPDirected
from tests.cases import every
from tests.craft import erf_pcap, gmp, native, smp, ud
from tests.decode.made import native_table, table_of

HEAD = MAD.size + RMPP.size


def test_the_columns_are_the_fields_of_each_mad() -> None:
    heads = [
        {"status": 0x8123 + n, "transaction_id": 0x0102030405060700 + n, "attribute_modifier": 0xFF000001 + n, "class_specific": n}
        for n in range(4)
    ]
    frames = [gmp(0x04, 0x81, 0x12 + n, header=head) for n, head in enumerate(heads)]
    frames.insert(1, native())
    table = native_table(frames)
    mads = Mads(table)
    assert (len(mads), mads.rows.tolist(), mads.frames.tolist()) == (4, [0, 2, 3, 4], [1, 3, 4, 5])
    assert mads.times.tolist() == table.chunk.time_ns[mads.rows].tolist() and mads.head.shape == (4, HEAD)
    for i in range(4):
        view, columns = table.view(MAD, i), (mads.mgmt_class, mads.method, mads.status, mads.transaction, mads.attribute, mads.modifier)
        assert [int(column[i]) for column in columns] == [
            view.mgmt_class, view.method, view.status, view.transaction_id, view.attribute_id, view.attribute_modifier,
        ]  # fmt: skip
        assert mads.head[i].tobytes() == bytes(table.chunk.data[mads.at[i] : mads.at[i] + HEAD])
    assert mads.column(RMPP.rmpp_version, MAD.size).tolist() == [0] * 4 and len(Mads(native_table([native()]))) == 0


@every("size", [HEAD - 4, HEAD, HEAD + 4, 256])
@every("version", [1, 0x80, 2])
def test_which_datagrams_are_long_enough(size: int, version: int) -> None:
    """For both headers, of the version of InfiniBand; others beside them are as they were."""
    body = bytes((version, 4, 1, 1)) + bytes(size - 4)
    mads = Mads(native_table([ud(body), gmp(0x04, 1, 0x12)]))
    assert (1 in mads.frames.tolist()) is (size >= HEAD and version == 1) and 2 in mads.frames.tolist()


@every("hops", [0, 1, 6, 7, 8, 15, 16, 62, 63])
def test_routes_of_any_length(hops: int) -> None:
    """The count, then as many hops, padded to whole words; what stands behind them in the packet does not count."""
    path = [n * 7 % 250 + 1 for n in range(hops)]
    rest = bytes([0, *path]).ljust(64, b"\xee")
    frames = [gmp(0x04, 1, 0x12), smp(1, 0x11, path=path, dr={"initial_path": rest}), smp(1, 0x11, path=[9]), smp(1, 0x11)]
    table = native_table(frames)
    routes = DirectedRoutes(table)
    assert routes.index.tolist() == [1, 2] and routes.complete.tolist() == [True, True]
    width = (max(hops, 1) // 8 + 1) * 8
    assert routes.paths.tolist() == [[hops, *path] + [0] * (width - 1 - hops), [1, 9] + [0] * (width - 2)]


@pytest.mark.parametrize(("count", "hops"), [(63, 63), (64, 63), (255, 63)])
def test_a_route_has_at_most_63_hops(count: int, hops: int) -> None:
    routes = DirectedRoutes(native_table([smp(1, 0x11, path=[], dr={"hop_count": count, "initial_path": bytes([0, *range(1, 64)])})]))
    assert routes.paths[0].tolist() == [hops, *range(1, 64)] and routes.paths.shape == (1, 64)


@pytest.mark.parametrize(("cut", "complete"), [(0, True), (-1, False), (1, True)])
def test_a_route_that_is_cut_off_has_none(cut: int, complete: bool) -> None:
    """All of the path must have been captured, however short the route is."""
    frame = smp(1, 0x11, path=[3])
    at = LRH.size + BTH.size + DETH.size + SMPDirected.initial_path.span[1] + cut
    data = bytearray(erf_pcap([frame]))
    record = 24
    data[record + 8 : record + 12] = (16 + at).to_bytes(4, "little")
    routes = DirectedRoutes(table_of(bytes(data[: record + 16 + 16 + at])))
    assert routes.complete.tolist() == [complete]
    assert routes.paths[0, :2].tolist() == ([1, 3] if complete else [0, 0]) and not np.any(routes.paths[0, 2:])
