"""Writing of frames as pcap or pcapng, in nanoseconds, with interfaces and comments; dpkt packs the blocks."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import IO

from dpkt import pcap, pcapng

from ibdissect.capture.chunk import LINK_ERF, Chunk
from ibdissect.capture.file_owners import followed
from ibdissect.capture.interfaces import NANOSECONDS, Interfaces
from ibdissect.capture.records import LONGEST
from ibdissect.errors import CaptureError, writing

ORIGINAL_LENGTH = 24
"""Offset of the original length in an Enhanced Packet Block; dpkt writes the captured length there."""
MAX_COMMENT = 65535


class CaptureWriter:
    """Writes one capture; use it in a `with` statement.

    The name determines the format: pcapng for `*.pcapng`, else pcap. `container` ("pcap", "pcapng") overrides it; a file object
    is written as pcap by default. A pcap has one link type, that of the first frame (ERF if there is none), and no comments
    or interfaces. Raises CaptureError if the file cannot be written or the format cannot hold a frame.
    """

    def __init__(self, target: str | os.PathLike[str] | IO[bytes], *, container: str | None = None) -> None:
        if isinstance(target, str | os.PathLike):
            self.path = os.fspath(target)
            container = container or ("pcapng" if self.path.endswith(".pcapng") else "pcap")
            with writing(self.path):
                followed(self.path)
                self._file: IO[bytes] = open(self.path, "wb")  # noqa: SIM115 - closed by close()
            self._owned = True
        else:
            self.path, self._file, self._owned = str(getattr(target, "name", "file object")), target, False
        self.container = container or "pcap"
        self.frames = 0
        """Frames written so far."""
        self._link: int | None = None
        self.comments: Sequence[str] = ()
        """Comments on the whole capture (pcapng only); set before the first frame is written."""
        self.interfaces: Interfaces | None = None
        """Interfaces of the copied pcapng, which keep their indices, names and resolutions. Set before the first frame is written;
        more may be added while frames are written."""
        self._units: list[int] = []
        """Nanoseconds per timestamp unit of each interface described so far."""
        self._interfaces: dict[tuple[int, int], int] = {}
        self._begun = False

    def __enter__(self) -> CaptureWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, chunk: Chunk, row: int, comments: Sequence[str] = ()) -> None:
        """Write one record of a chunk as it was captured, with its ERF header if it has one."""
        start, stop = int(chunk.offset[row]), int(chunk.offset[row] + chunk.caplen[row])
        link, length = int(chunk.link[row]), int(chunk.length[row])
        pseudo = int(chunk.pseudo[row])
        if pseudo >= 0:
            link, length, start = LINK_ERF, length + start - pseudo, pseudo
        self.write(
            chunk.data[start:stop].tobytes(), link=link, time_ns=int(chunk.time_ns[row]), length=length,
            interface=int(chunk.interface[row]), comments=comments,
        )  # fmt: skip

    def write(
        self, data: bytes, *, link: int, time_ns: int, length: int | None = None, interface: int = 0, comments: Sequence[str] = ()
    ) -> None:
        """Write one frame; `length`: its length on the wire, if longer than `data`. ERF frames start with their ERF header."""
        length = max(len(data), len(data) if length is None else length)
        if time_ns < 0 or (self.container == "pcap" and time_ns >= 1_000_000_000 << 32):
            held = f"a {self.container} holds {'1970 to 2106' if self.container == 'pcap' else '1970 on'}"
            raise CaptureError(self.path, f"time {time_ns} ns of frame {self.frames + 1} cannot be written: {held}")
        if self.container == "pcapng":
            self._enhanced(data, link, time_ns, length, interface, comments)
        else:
            self._plain(data, link, time_ns, length)
        self.frames += 1

    def close(self) -> None:
        """Finish the file; closes it unless it is the caller's file object."""
        if self._file.closed:
            return
        if self.container == "pcap" and self._link is None:
            self._begin(LINK_ERF)
        if self.container == "pcapng":
            self._section()
            if self.interfaces is not None:
                self._describe(len(self.interfaces))
        if self._owned:
            self._file.close()
        else:
            self._file.flush()

    def _plain(self, data: bytes, link: int, time_ns: int, length: int) -> None:
        if self._link is None:
            self._begin(link)
        if link != self._link:
            raise CaptureError(
                self.path, f"frame {self.frames + 1} has link type {link}, the ones before it {self._link}",
                hint="a pcap holds one link type; write a .pcapng",
            )  # fmt: skip
        second, rest = divmod(time_ns, 1_000_000_000)
        self._put(bytes(pcap.LEPktHdr(tv_sec=second, tv_usec=rest, caplen=len(data), len=length)) + data)

    def _begin(self, link: int) -> None:
        self._link = link
        self._put(bytes(pcap.LEFileHdr(magic=pcap.TCPDUMP_MAGIC_NANO, snaplen=LONGEST, linktype=link)))

    def _enhanced(self, data: bytes, link: int, time_ns: int, length: int, interface: int, comments: Sequence[str]) -> None:
        self._section()
        index = self._index(link, interface)
        ticks = time_ns // self._units[index]
        block = bytearray(
            bytes(
                pcapng.EnhancedPacketBlockLE(
                    iface_id=index, ts_high=ticks >> 32, ts_low=ticks & 0xFFFFFFFF, pkt_data=data, opts=_comments(comments)
                )
            )
        )
        struct.pack_into("<I", block, ORIGINAL_LENGTH, length)
        self._put(bytes(block))

    def _section(self) -> None:
        """Write the section header before everything else."""
        if not self._begun:
            self._begun = True
            self._put(bytes(pcapng.SectionHeaderBlockLE(opts=_comments(self.comments))))

    def _index(self, link: int, interface: int) -> int:
        """Index of a frame's interface, which is described first if necessary."""
        if self.interfaces is not None:
            self._describe(interface + 1)
            return interface
        index = self._interfaces.get((link, interface))
        if index is None:
            index = self._interfaces[link, interface] = len(self._interfaces)
            self._interface(link, LONGEST, NANOSECONDS, ())
        return index

    def _describe(self, count: int) -> None:
        """Describe the first `count` interfaces of the copied capture as it does.

        A resolution finer than nanoseconds, or a power of two, becomes nanoseconds, which is how times are stored here.
        """
        given = self.interfaces
        assert given is not None
        for i in range(len(self._units), count):
            link, snaplen, resolution, _ = given.columns[i].item()
            self._interface(link, snaplen, min(resolution, NANOSECONDS), given.options[i])

    def _interface(self, link: int, snaplen: int, resolution: int, kept: Sequence[tuple[int, bytes]]) -> None:
        self._units.append(10 ** (NANOSECONDS - resolution))
        options = [pcapng.PcapngOptionLE(code=code, data=value) for code, value in kept]
        options.append(pcapng.PcapngOptionLE(code=pcapng.PCAPNG_OPT_IF_TSRESOL, data=bytes([resolution])))
        options.append(pcapng.PcapngOptionLE())
        self._put(bytes(pcapng.InterfaceDescriptionBlockLE(linktype=link, snaplen=snaplen, opts=options)))

    def _put(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise CaptureError(self.path, f"cannot be written: {error.strerror}") from error


def _comments(texts: Sequence[str]) -> list[pcapng.PcapngOptionLE]:
    """Comments as block options, with the end option; none without comments."""
    options = [pcapng.PcapngOptionLE(code=pcapng.PCAPNG_OPT_COMMENT, data=_comment(text)) for text in texts]
    return [*options, pcapng.PcapngOptionLE()] if options else []


def _comment(text: str) -> bytes:
    """A comment as option data, cut at a character boundary to MAX_COMMENT bytes."""
    return text.encode("utf-8", "replace")[:MAX_COMMENT].decode("utf-8", "ignore").encode()
