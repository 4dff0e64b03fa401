"""The files that the arguments of --subnet name, their kinds, and the facts in them."""

from __future__ import annotations

import glob
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import IO

from msgspec import Struct as Record
from msgspec.structs import replace as changed

from ibdissect.capture import pcap, pcapng
from ibdissect.capture.file_names import ENDINGS
from ibdissect.capture.named_files import NamedFiles
from ibdissect.capture.opening import open_capture
from ibdissect.capture.remote import is_url
from ibdissect.decode import ChunkTable
from ibdissect.decode.services import Services
from ibdissect.errors import CaptureError, SubnetFileError
from ibdissect.heap import uncollected
from ibdissect.shown_urls import public_name
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.describe import describe
from ibdissect.subnet.file_lines import KnownFile
from ibdissect.wire.catalog import builtin

from . import host_tools, ibdiagnet, ibnetdiscover, opensm_dumps, opensm_files, smpquery, virtual_lanes
from .file_facts import FileFact, PortFact
from .ibdissect_json import described
from .ibnetdiscover_cache import MAGIC, ibnetdiscover_cache
from .into_model import SubnetFile
from .lines import MOST_LINE, Lines
from .partitions_conf import partitions_conf
from .roce_toml import roce

HEAD, WIDTH = 400, 1000
"""Lines, and characters of each, that are examined to recognise a kind."""
MOST_BYTES = 1 << 30
"""Bytes read of a file; a device file may be endless."""
MOST_BINARY = 1 << 28
MOST_FILES = 100_000
MOST_FACTS = 1 << 22
TREE = tuple(["node_guid", *(f"ports/*/{name}" for name in ("pkeys/*", "gids/0", "lid", "lid_mask_count", "link_layer"))])
"""Files of a device in /sys/class/infiniband that are read."""
STAMP = re.compile(r"generated on (\w{3} \w{3} +\d+ \d+:\d+:\d+ \d{4})")
Parser = Callable[[Lines], Iterator[FileFact]]


class FileKind(Record, frozen=True):
    """A kind of file: the line by which it is recognised, and its parser."""

    sign: re.Pattern[str] | None
    """One of the first lines matches it; None: recognised only by name or by first bytes."""
    parse: Parser | None = None
    every: re.Pattern[str] | None = None
    """All of the first lines match it."""
    lasting: bool = False
    """Written by people, or whenever something changes, so its age does not matter."""


_sign = re.compile
GUID = "0x[0-9a-fA-F]{16}"
KINDS: dict[str, FileKind] = {
    "capture": FileKind(None),
    "json": FileKind(None),
    "ibnetdiscover": FileKind(_sign(r'(?:Switch|Ca|Rt)\s+\d+\s+"[SHR]-[0-9a-f]{16}"'), ibnetdiscover.ibnetdiscover),
    "ibnetdiscover-cache": FileKind(None),
    "ibnetdiscover-ports": FileKind(_sign(r"(?:CA|SW|RT)\s+\d+\s+\d+ 0x[0-9a-f]{16} "), ibnetdiscover.ports_of_ibnetdiscover),
    "nodes": FileKind(_sign(r"(?:Ca|Switch|Rt)\s*: 0x[0-9a-f]+ ports \d+ "), ibnetdiscover.nodes),
    "iblinkinfo": FileKind(_sign(r".*\d\[[^\]]*\] ==\(.*\)==>"), ibnetdiscover.iblinkinfo),
    "saquery": FileKind(_sign(r"\w[\w ]*(?:Record|member|group) dump:\s*$|PKeyTableRecord dump:"), smpquery.saquery),
    "smpquery": FileKind(_sign(r"# (?:Port|Node|Switch) info:|\s*0:(?: 0x[0-9a-f]{4}){8}\s*$"), smpquery.smpquery),
    "lanes": FileKind(_sign(r"# (?:SL2VL table|VLArbitration tables): Lid |#in out : 0 "), virtual_lanes.lanes),
    "node-name-map": FileKind(_sign(r'0x[0-9a-fA-F]{1,16}\s+"[^"#]'), ibnetdiscover.name_map, lasting=True),
    "sminfo": FileKind(_sign(r"sminfo: sm lid "), smpquery.sminfo),
    "subnet.lst": FileKind(_sign(r"\{ (?:CA|SW|Rt|\*\*)\S* Ports:"), opensm_dumps.subnet_lst),
    "lfts": FileKind(_sign(r"Unicast lids \[.*\] of switch "), opensm_dumps.forwarding),
    "fdbs": FileKind(_sign(r"dump_ucast_routes: Switch 0x"), opensm_dumps.fdbs),
    "mcfdbs": FileKind(_sign(r"LID    : Out Port"), opensm_dumps.mcfdbs),
    "mfts": FileKind(_sign(r"Multicast mlids \[.*\] of switch "), opensm_dumps.dump_mfts),
    "sa.dump": FileKind(_sign(r"MC Group 0x"), opensm_dumps.sa_dump),
    "db_csv": FileKind(_sign(r"START_(?:NODES|PORTS|LINKS)\s*$"), ibdiagnet.db_csv),
    "guid2lid": FileKind(_sign(rf"{GUID} 0x[0-9a-fA-F]{{4}} 0x[0-9a-fA-F]{{4}}\s*$"), opensm_files.guid2lid, lasting=True),
    "guid2mkey": FileKind(_sign(rf"{GUID} 0x[0-9a-fA-F]{{16}}\s*$"), opensm_files.guid2mkey, lasting=True),
    "neighbors": FileKind(_sign(rf"{GUID}:\d+ {GUID}:\d+\s*$"), opensm_files.neighbors, lasting=True),
    "opensm.log": FileKind(_sign(r".*\] 0x[0-9a-fA-F]+ -> OpenSM \d"), opensm_files.opensm_log),
    "opensm.conf": FileKind(
        _sign(r"(?:allow_both_pkeys|partition_config_file|sm_priority|part_enforce|m_key|sm_key|subnet_prefix|lmc|max_op_vls) "),
        opensm_files.opensm_conf, every=_sign(r"\s*(?:#.*|[a-z][a-z_0-9]*\s+\S.*)?$"), lasting=True,
    ),
    "sysfs": FileKind(_sign(r"(?:==> )?\S*/ports/\d+/(?:pkeys|gids|lid)|(?:==> )?\S*/infiniband/\S+/(?:node_guid|node_type)")),
    "ibstat": FileKind(_sign(r"\s*CA '\S+'\s*$"), host_tools.ibstat),
    "ibv_devinfo": FileKind(_sign(r"hca_id:"), host_tools.ibv_devinfo),
    "rdma-link": FileKind(_sign(r"link \S+/\d+ .*\blid \d"), host_tools.rdma_link),
    "show_gids": FileKind(_sign(r"DEV\s+PORT\s+INDEX\s+GID"), host_tools.show_gids),
    "roce": FileKind(_sign(r"\s*(?:\[+\s*roce\b|roce\s*[.=])"), roce, lasting=True),
    "partitions.conf": FileKind(
        _sign(r"[^#:;]*:\s*(?:0x[0-9a-fA-F]{6,16}|ALL|SELF|mgid)|[^#:;=]*=\s*0x[0-9a-fA-F]{1,4}\s*(?:,[^#:;]*)?:\s*(?:#|$)"),
        partitions_conf, lasting=True,
    ),
}  # fmt: skip
"""In the order in which they are tried."""
ALL_KINDS = f"kinds are {', '.join(KINDS)}"


class SubnetFiles(Record):
    """The files with their facts, and notes about reading them."""

    files: list[SubnetFile]
    """Oldest first."""
    notes: list[str]
    """Files and lines that could not be read."""

    @property
    def known(self) -> tuple[KnownFile, ...]:
        """The files as findings name them."""
        return tuple(file.known for file in self.files)

    @property
    def ports(self) -> set[int]:
        """GUIDs of the ports that the files list."""
        return {fact.end.guid for file in self.files for fact in file.facts if type(fact) is PortFact and fact.end.guid}


@uncollected()
def read_files(arguments: Iterable[str], taken: float | None = None, named: NamedFiles | None = None) -> SubnetFiles:
    """Read the files, directories and globs that `arguments` name; a leading `kind:` forces the kind.

    `taken`: when their contents held (seconds since 1970), instead of the files' own times. `named`: how they are opened. Raises
    SubnetFileError for a file that cannot be read, that opensm would refuse or that is not of the forced kind, and if no file is of a known
    kind; ConfigError for files that `named` refuses.
    """
    reader, arguments = _Reader(taken, named or NamedFiles()), list(arguments)
    for argument in arguments:
        kind, path = _split(argument)
        if os.path.isdir(path):
            reader.folder(path)
        elif glob.has_magic(path) and not os.path.lexists(path):
            matches = sorted(reader.named.matches(path))
            if not matches:
                raise SubnetFileError(path, 0, "matches no file")
            for match in matches:
                reader.folder(match) if os.path.isdir(match) else reader.take(match, kind)
        else:
            reader.take(path, kind)
    reader.hosts()
    if not reader.files:
        if not reader.unknown:
            raise SubnetFileError(", ".join(arguments), 0, "is empty")
        raise SubnetFileError(", ".join(arguments), 0, "is of an unknown kind", hint=f"force one with KIND:FILE; {ALL_KINDS}")
    if reader.skipped:
        reader.notes.append(f"{reader.skipped} files of no known kind were skipped")
    return SubnetFiles(sorted(reader.files, key=lambda one: (one.known.time_ns, one.known.path)), reader.notes)


def _split(argument: str) -> tuple[str, str]:
    """Split `kind:FILE`; a file may have a name that looks like it."""
    if is_url(argument):
        raise SubnetFileError(public_name(argument), 0, "is not a file of this machine; nothing else is read here", hint="copy it first")
    kind, _, path = argument.partition(":")
    if not path or os.path.lexists(argument):
        return "", argument
    if kind in KINDS:
        return kind, path
    if os.path.lexists(path):
        raise SubnetFileError(path, 0, f"{kind} is not a kind of file", hint=ALL_KINDS)
    return "", argument


class _Reader:
    def __init__(self, taken: float | None, named: NamedFiles) -> None:
        self.taken, self.named = taken, named
        self.files: list[SubnetFile] = []
        self.notes: list[str] = []
        self.skipped = 0
        """Number of files in directories that are not of a known kind."""
        self.unknown = False
        """Whether a non-empty file is not of a known kind."""
        self.folders = False
        """Whether any argument was a directory, which may contain other files."""
        self._seen: set[str] = set()
        self._sysfs: list[tuple[KnownFile, list[str]]] = []
        """Outputs of hosts and their lines; combined when all are read."""
        self._facts = 0

    def folder(self, path: str) -> None:
        """Read all files of known kinds below a directory, except captures; or the tree of /sys/class/infiniband."""
        self.folders = True
        self.named.enter(path)
        start = glob.escape(path)
        if tree := [file for device in ("", "*/") for name in TREE for file in self.named.matches(os.path.join(start, device + name))]:
            lines = [f"{file}:{self._first_line(file)}" for file in sorted(tree)[:MOST_FILES]]
            self._sysfs.append((self._known(path, "sysfs"), lines))
            return
        for file in self.named.below(path):
            if os.path.isfile(file):
                self.take(file, "", in_folder=True)

    def take(self, path: str, kind: str, *, in_folder: bool = False) -> None:
        """Read one file."""
        if os.path.abspath(path) in self._seen:
            return
        self._seen.add(os.path.abspath(path))
        try:
            with self.named.open(path) as file:
                head = file.read(1 << 16)
                found = kind or _kind(path, head)
                if found == "capture" and in_folder:
                    found = ""
                if not found:
                    self.skipped += in_folder
                    self.unknown |= bool(head.strip())
                    if not in_folder:
                        what = "of no known kind" if head.strip() else "empty"
                        self.notes.append(f"{path}: is {what} and was not used")
                    return
                self._parse(path, found, head, file, insisted=bool(kind))
        except SubnetFileError as error:
            if not in_folder or "partition" in os.path.basename(path):
                raise
            self.notes.append(f"{error}; it was not used")  # other text may look like a known kind
        except OSError as error:
            raise SubnetFileError(path, 0, f"cannot be read: {error.strerror}") from error

    def _parse(self, path: str, kind: str, head: bytes, file: IO[bytes], *, insisted: bool) -> None:
        strange = Lines(path, ())
        known = self._known(path, kind, head.decode("utf-8", "replace"))
        if kind == "capture":
            facts, last = _captured(path, self.named)
            known = changed(known, time_ns=last, exact=True)
        elif kind == "json":
            facts = list(islice(described(_loaded(path, head + file.read(MOST_BINARY))), MOST_FACTS - self._facts))
        elif kind == "ibnetdiscover-cache":
            facts = list(islice(ibnetdiscover_cache(path, head + file.read(MOST_BINARY)), MOST_FACTS - self._facts))
        else:
            strange = Lines(path, _lines(head, file))
            parse = KINDS[kind].parse
            if parse is None:
                self._sysfs.append((known, list(islice(strange, MOST_FACTS))))
                return
            facts = list(islice(parse(strange), MOST_FACTS - self._facts))
        self._add(known, kind, facts, strange, insisted=insisted)

    def _add(self, known: KnownFile, kind: str, facts: list[FileFact], lines: Lines, *, insisted: bool = False) -> None:
        path = known.path
        self._facts += len(facts)
        if self._facts >= MOST_FACTS:
            raise SubnetFileError(path, 0, f"the files say more than {MOST_FACTS} facts, which is more than a subnet has")
        if lines.strange:
            count = f"{lines.strange} lines" if lines.strange > 1 else "a line"
            self.notes.append(f"{path}:{lines.first_strange}: {count} not understood, expected {lines.why}")
        if insisted and not facts:
            raise SubnetFileError(
                path, lines.first_strange, f"is not a valid {kind} file: " + (f"expected {lines.why}" if lines.why else "it has no facts")
            )
        if not facts and not self.folders:
            self.notes.append(f"{path}: says nothing that is used ({kind})")
        self.files.append(SubnetFile(known, kind, facts))

    def _first_line(self, path: str) -> str:
        try:
            with self.named.open(path) as file:
                return file.readline(256).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def hosts(self) -> None:
        """Read the sysfs files. P_Key files do not name their port, so its GUID comes from other files of the same host, by name."""
        ports: dict[str, host_tools.Ports] = {}
        for known, text in self._sysfs:
            for key, values in host_tools.sysfs_ports(Lines(known.path, text)).items():
                ports.setdefault(_host(known.path), {}).setdefault(key, {}).update(values)
        for known, text in self._sysfs:
            lines = Lines(known.path, text)
            self._add(known, "sysfs", list(host_tools.sysfs(lines, ports.get(_host(known.path), {}))), lines)

    def _known(self, path: str, kind: str, head: str = "") -> KnownFile:
        """The file with its time: from the user, else from the file, else from the file system."""
        if self.taken is not None:
            return KnownFile(path, int(self.taken * 1e9), exact=True)
        stamp = STAMP.search(head)
        if stamp:
            try:
                return KnownFile(path, int(time.mktime(time.strptime(stamp[1]))) * 1_000_000_000, KINDS[kind].lasting, exact=True)
            except (ValueError, OverflowError):
                pass
        return KnownFile(path, os.stat(path).st_mtime_ns, KINDS[kind].lasting)


def _host(path: str) -> str:
    """`dir/gw01` of dir/gw01-pkeys.txt and of dir/gw01-port.txt."""
    folder, name = os.path.split(path)
    return os.path.join(folder, re.split(r"[-_.](?=[^-_.]*(?:\.\w+)?$)", name, maxsplit=1)[0]) if not os.path.isdir(path) else path


def _kind(path: str, head: bytes) -> str:
    """The kind of a file by its first lines; empty if unknown."""
    if head.startswith((*pcap.MAGICS, pcapng.MAGIC)) or path.lower().endswith(ENDINGS):
        return "capture"
    if head.startswith(MAGIC):
        return "ibnetdiscover-cache"
    if head.lstrip()[:1] == b"{" and b'"schema"' in head:
        return "json"
    if b"\0" in head:
        return ""
    lines = [line[:WIDTH] for line in head.decode("utf-8", "replace").splitlines()[:HEAD]]
    for name, kind in KINDS.items():
        if kind.sign is not None and any(map(kind.sign.match, lines)) and (kind.every is None or all(map(kind.every.match, lines))):
            return name
    return ""


def _lines(head: bytes, file: IO[bytes]) -> Iterator[str]:
    """Lines, without line ends, of a file whose first bytes were already read; a line longer than MOST_LINE is split."""
    *whole, cut = head.split(b"\n")
    left = MOST_BYTES
    for line in chain(whole, (cut + file.readline(MOST_LINE),), iter(lambda: file.readline(MOST_LINE), b"")):
        for at in range(0, len(line) or 1, MOST_LINE):
            yield line[at : at + MOST_LINE].rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        left -= len(line)
        if left <= 0:
            return


def _loaded(path: str, text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SubnetFileError(path, 0, f"is not valid JSON: {error}") from error


def _captured(path: str, named: NamedFiles) -> tuple[list[FileFact], int]:
    """The facts of a capture's management traffic, and the time of its last frame."""
    follower, services, last = FabricFollower(), Services(), 0
    try:
        reader = open_capture(path)
    except CaptureError as error:
        raise SubnetFileError(path, 0, error.reason) from error
    try:
        for chunk in reader.chunks():
            named.spend(len(chunk.data))
            table = ChunkTable(chunk, builtin(), services)
            services.placed.feed(table)
            for _ in follower.feed(table):
                pass
            last = int(chunk.time_ns[-1]) if len(chunk) else last
    except CaptureError as error:
        raise SubnetFileError(path, 0, error.reason) from error
    finally:
        reader.close()
    return list(described(describe(follower.subnet, lambda kind, value: None))), last
