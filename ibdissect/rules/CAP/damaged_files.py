"""Files that are damaged, end too early, or are missing in a set."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.decode import ChunkTable
from ibdissect.decode.identity import Frame
from ibdissect.lint.rule import ERROR, WARNING, Context, Hit, Moment, Rule, fault, on_chunk, on_end


class _Damaged(Rule):
    """Base of the rules about broken containers: the time of the last good frame."""

    kind = ""

    def __init__(self) -> None:
        self.times: dict[Frame, int] = {}
        self.last = (0, 0)

    @on_chunk
    def note(self, table: ChunkTable, context: Context) -> None:
        chunk = table.chunk
        for damage in context.damage:
            if damage.frame == self.last[0]:
                self.times.setdefault(*self.last)
            elif chunk.first <= damage.frame < chunk.first + len(chunk):
                self.times[damage.frame] = int(chunk.time_ns[damage.frame - chunk.first])
        if len(chunk):
            self.last = chunk.first + len(chunk) - 1, int(chunk.time_ns[-1])

    @on_end
    def report(self, context: Context) -> Iterator[Hit]:
        """One finding a place, at the last good frame before it."""
        for damage in context.damage:
            if damage.kind == self.kind:
                time_ns = self.last[1] if damage.frame == self.last[0] else self.times.get(damage.frame, 0)
                then = "reading stopped there" if damage.resumed is None else f"reading went on at byte {damage.resumed}"
                yield fault(Moment(damage.frame, time_ns), {"offset": damage.offset, "reason": damage.reason, "then": then})


class MemberMissing(_Damaged):
    """Files of a ring buffer are missing between two others.

    They were not checked. Packets that seem to be missing after the gap may be in these files, and facts learnt before it may have changed.

    Copy the files from where the capture was made. If they are gone, enlarge the ring (`dumpcap -b files:`, `tcpdump -W`) or copy files
    sooner.

    The names and numbers of the files read as one set.
    """

    code, name, severity = "CAP019", "set-member-missing", WARNING
    about_capture = True
    reference = "names of dumpcap -b and tcpdump -C, -W"
    kind = "missing"
    message = "{reason}"
    example = "cap_00001_20261121120000.pcap and cap_00003_20261121120010.pcap read with --set"


class FileCutOff(_Damaged):
    """The capture file ends inside a record.

    The last packet is incomplete: the disk was full, a copy was interrupted, or the tool was killed. What followed is unknown.

    Compare the size with that of the original. Everything up to the cut was checked.

    The end of the file.
    """

    code, name, severity = "CAP013", "file-cut-off", WARNING
    about_capture = True
    reference = "pcap, pcapng and ERF formats"
    kind = "cut-off"
    message = "the file is cut off at byte {offset}: {reason}"
    example = "a pcap file without its last 10 bytes"


class FileDamaged(_Damaged):
    """The capture file contains bytes that are not records.

    Packets are lost here, so the file may be the cause of gaps and missing answers nearby. Most other tools stop reading here.

    Copy the capture again from where it was made. `ibdissect export` writes the readable packets to an intact file.

    The bytes between two readable records.
    """

    code, name, severity = "CAP014", "file-damaged", ERROR
    about_capture = True
    reference = "pcap, pcapng and ERF formats"
    kind = "damaged"
    message = "the file is damaged at byte {offset}: {reason}; {then}"
    example = "a pcap file with a record header overwritten by zeros"
