"""Chunks keep their promises about shapes, types and bounds."""

from __future__ import annotations

import io

import numpy as np

from ibdissect.capture.chunk import Chunk
from ibdissect.capture.opening import open_capture
from tests.capture.built import Packet, enhanced, erf_record, interface, pcap, section

TYPES = {
    "offset": "int64",
    "caplen": "int64",
    "length": "int64",
    "time_ns": "int64",
    "link": "uint16",
    "interface": "uint16",
    "pseudo": "int64",
}


def chunks_of_every_container() -> list[Chunk]:
    record = erf_record(b"abc", second=5)
    blobs = [
        pcap([Packet(5, 5, b"abc")], ">"),
        pcap([Packet(5, 5, record)], link=197),
        record * 2,
        section(">") + interface(">", 1) + enhanced(">", 0, 5, b"abc"),
        section("<") + interface("<", 197) + enhanced("<", 0, 5, record),
    ]
    return [chunk for blob in blobs for chunk in open_capture(io.BytesIO(blob)).chunks()]


def test_arrays_have_the_promised_types() -> None:
    chunks = chunks_of_every_container()
    assert len(chunks) == 5
    for chunk in chunks:
        assert chunk.data.dtype == np.uint8 and chunk.data.flags.c_contiguous and chunk.data.ndim == 1
        for name, dtype in TYPES.items():
            column = getattr(chunk, name)
            assert (column.dtype, column.shape) == (np.dtype(dtype), (len(chunk),)), name
        assert chunk.frame_bytes(0) == b"abc"
    assert [chunk.link.tolist() for chunk in chunks] == [[1], [197], [197, 197], [1], [197]]
