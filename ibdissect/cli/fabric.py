"""`ibdissect fabric`: the subnet as learnt from a capture."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from ibdissect.capture.chunk import SetMember
from ibdissect.capture.file_names import Unit
from ibdissect.cli.common_options import CommonOptions, common_options, refuse, say, without, write_json
from ibdissect.cli.console import echo
from ibdissect.cli.output import opened_capture, selection_of, set_option, source_of
from ibdissect.errors import ConfigError
from ibdissect.lint.set_members import members_object, with_files
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import Paint, counted, printable

if TYPE_CHECKING:
    from ibdissect.decode import ChunkTable
    from ibdissect.python_interface import Capture
    from ibdissect.subnet import Subnet
    from ibdissect.subnet.describe import KeyText
    from ibdissect.subnet.files import SubnetFiles

FORMATS = ("text", "json", "dot", "partitions.conf", "ibnetdiscover")


@click.command()
@click.argument("captures", nargs=-1, metavar="[CAPTURE...]")
@set_option
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True,
    help="The last two are files that opensm and infiniband-diags read.",
)  # fmt: skip
@click.option("--dot", is_flag=True, hidden=True, help="The same as --format dot, which came later.")
@click.option("--at", "at", type=click.IntRange(min=1), metavar="FRAME", help="What was known when this frame had been sent.")
@without("name_ports", reason="cannot be used here: nodes are always shown with their names")
@common_options
def command(captures: tuple[str, ...], as_set: bool, format_: str, dot: bool, at: int | None, common: CommonOptions) -> None:
    """Print nodes, ports, links, LIDs, partitions, keys, subnet managers and forwarding; `-` reads standard input.
    Without CAPTURE: what the files of --subnet say.

    -Y and --frames: learn from these frames only. Every fact is shown with the frame it was learnt from. Keys are masked unless
    --show-keys is given. docs/numbers.md defines each number.
    """
    if format_ not in ("text", "dot"):
        refuse("dot", reason=f"does nothing with --format {format_}")
    capture = source_of(captures, as_set, quiet=common.quiet) if captures else None
    if capture is None and common.subnet_files is None:
        raise ConfigError("CAPTURE", "--subnet", "one of them must be given")
    learnt, result, members = _read(capture, at, common)
    if format_ in ("partitions.conf", "ibnetdiscover"):
        from ibdissect.subnet.files.for_other_tools import ibnetdiscover, partitions_conf

        for one in learnt:
            echo("\n".join(ibnetdiscover(one.subnet) if format_ == "ibnetdiscover" else partitions_conf(one.subnet)))
    elif dot or format_ == "dot":
        echo("\n".join(graph(result)))
    elif format_ == "json":
        write_json(result)
    else:
        echo(with_files("\n".join(lines(result, common.paint(sys.stdout), quiet=common.quiet)), members))


class _LearntSubnet:
    """A subnet as learnt from a capture and from files, and what changed in it."""

    def __init__(self, files: SubnetFiles | None) -> None:
        from ibdissect.subnet import FabricFollower
        from ibdissect.subnet.changes import ChangeLog

        self.follower, self.changes, self.files = FabricFollower(), ChangeLog(), files
        if files is not None:
            from ibdissect.subnet.files import learn

            learn(self.subnet, files.files)

    @property
    def subnet(self) -> Subnet:
        return self.follower.subnet

    def feed(self, table: ChunkTable) -> None:
        """Process a chunk."""
        for event in self.follower.feed(table):
            self.changes.take(event)

    def described(self, key_text: KeyText) -> dict[str, Any]:
        """What is known, as JSON types."""
        from ibdissect.subnet.describe import describe

        events = [
            {"frame": one.frame, "time_ns": one.time_ns, "kind": one.kind, "text": one.text,
             **({"repressed": one.repressed} if one.kind == "trap" else {})}
            for one in self.changes.happened
        ]  # fmt: skip
        return {**describe(self.subnet, key_text, self.files.known if self.files is not None else ()), "events": events}


def _read(path: Unit | None, at: int | None, common: CommonOptions) -> tuple[Sequence[_LearntSubnet], dict[str, Any], Sequence[SetMember]]:
    """The subnet as learnt up to frame `at`, or the subnets that the capture holds; their description, and the files of a set."""
    from ibdissect.decode.hidden.key_numbers import KeyNumbering, is_secret

    whole, frames, masker = _LearntSubnet(common.subnet_files), 0, KeyNumbering()
    parts: dict[int, _LearntSubnet] = {}
    members: Sequence[SetMember] = ()
    if path is not None:
        with opened_capture(path, common, passes=1) as opened:
            selection = opened.selection
            for table in opened.tables(until=at, progress=opened.progress):
                whole.feed(table if selection is None else table.only_rows(selection.rows(table)))
                frames += len(table)
            if whole.follower.unreliable:
                parts = _each_subnet(opened, at, common)
        masker, members = opened.masker, opened.reader.members
        if at is not None and at > frames:
            say(f"note: {path} ends with frame {frames}, before --at {at}")

    def key_text(kind: str, value: int) -> str | None:
        return None if common.show_keys or not is_secret(kind, value) else masker.name(kind, value)

    result = {
        "schema": 1, "capture": None if path is None else public_name(str(path)), **members_object(members), "frame": frames,
        **whole.described(key_text),
    }  # fmt: skip
    if parts:
        result["subnets"] = [{"subnet": number, **part.described(key_text)} for number, part in parts.items()]
    return list(parts.values()) or [whole], result, members


def _each_subnet(opened: Capture, at: int | None, common: CommonOptions) -> dict[int, _LearntSubnet]:
    """The subnets that a capture mixes, by number, learnt in another pass; a note names them. Empty if they cannot be separated."""
    from ibdissect.pipeline.reading import division_of
    from ibdissect.subnet.mixed_subnets import ADVICE
    from ibdissect.subnet.separate_subnets import SubnetMap

    files = common.subnet_files
    division = division_of(opened, SubnetMap(), files.ports if files is not None else ())
    found = {number: _LearntSubnet(files if number == 1 else None) for number in division.subnets}
    selection = selection_of(opened, common)
    for table in opened.tables(keys=False, until=at) if found else ():
        numbers = division.of(table)
        chosen = selection.rows(table) if selection is not None else True
        for number, part in found.items():
            part.feed(table.only_rows((numbers == number) & chosen))
    say(f"note: {opened.path} " + (f"mixes packets of {len(found)} subnets, separated by {division.how}" if found else ADVICE))
    return found


def lines(result: dict[str, Any], paint: Paint, *, quiet: bool = False) -> Iterator[str]:
    """The subnet as text, or each of several; `quiet` omits ports."""
    if "subnets" in result:
        for one in result["subnets"]:
            yield paint(f"Subnet {one['subnet']}", "path")
            yield from (*lines({"capture": result["capture"], "frame": result["frame"], **one}, paint, quiet=quiet), "")
        return
    counts = result["counts"]
    unknown = f", {counted(counts['unknown_nodes'], 'node')} without NodeInfo" if counts["unknown_nodes"] else ""
    routers = f", {counted(counts['routers'], 'router')}" if counts["routers"] else ""
    yield (
        f"{counted(counts['switches'], 'switch')}, {counted(counts['channel_adapters'], 'channel adapter')}{routers}{unknown}, "
        f"{counted(counts['links'], 'link')}, {counted(counts['lids'], 'LID')}"
        + (f", as of frame {result['frame']}" if result["capture"] is not None else ", according to files")
    )
    if result["sms"]:
        yield from ("", paint("Subnet managers", "path"))
        for sm in result["sms"]:
            node = f"  {sm['node']}" if sm["node"] else ""
            yield f"  {sm['guid']}  LID {sm['lid']}  {'was ' * sm['former']}{sm['state']}, priority {sm['priority']}{node}  " + paint(
                f"[{sm['source']}]" if "source" in sm else f"[frame {sm['frame']}, last seen {sm['last_seen']}]", "faint"
            )
    if result["nodes"]:
        yield from ("", paint("Nodes", "path"))
        for node in result["nodes"]:
            yield from _node(node, paint, quiet)
    if result["partitions"]:
        yield from ("", paint("Partitions", "path"))
        for partition in result["partitions"]:
            yield f"  0x{partition['partition']:04x}  {_membership(partition)}"
    if result["groups"]:
        yield from ("", paint("Multicast groups", "path"))
        for group in result["groups"]:
            yield (
                f"  {group['mgid']}  LID {_hex(group['mlid'])}  P_Key {_hex(group['p_key'])}  "
                f"Q_Key {group['q_key']['text'] if group['q_key'] is not None else '?'}  "
                f"{counted(len(group['members']), 'member')}  {_frame(group, paint)}"
            )
            if not quiet:
                for member in group["members"]:
                    yield f"    {member['port_gid']}  {', '.join(member['join_state'])}  {_frame(member, paint)}"
    if "roce" in result:
        yield from ("", paint("RoCE", "path"))
        for setting in result["roce"]["settings"]:
            yield f"  {setting['name']} = {json.dumps(setting['value'])}  {_frame(setting, paint)}"
        for host in result["roce"]["hosts"]:
            vlans = f"  VLAN {', '.join(map(str, host['vlans']))}" if host["vlans"] else ""
            yield f"  {host['address']}  {printable(host['name'])}{vlans}  {_frame(host, paint)}"
    if result["events"]:
        yield from ("", paint("Events", "path"))
        for event in result["events"]:
            frame = event.get("repressed")
            answer = f", repressed in frame {frame}" if frame else ", not repressed" if "repressed" in event else ""
            yield f"  {event['text']}{answer}  {_frame(event, paint)}"


def _membership(partition: dict[str, Any]) -> str:
    """How many ports are members of a partition. Those whose tables hold both forms are full members."""
    forms: dict[bool, set[tuple[Any, ...]]] = {True: set(), False: set()}
    for member in partition["members"]:
        forms[member["full"]].add((member["node"], member["name"], member["port"]))
    both, limited = forms[True] & forms[False], forms[False] - forms[True]
    text = f"{len(forms[True])} full{f' ({len(both)} of them limited, too)' if both else ''}, {counted(len(limited), 'limited member')}"
    places = {(one["node"], one["port"]) for one in partition["enforced_at"]}
    return text + (f"; enforced at {counted(len(places), 'switch port')}" if places else "")


def _node(node: dict[str, Any], paint: Paint, quiet: bool) -> Iterator[str]:
    name = f'  "{node["name"]}"' if node["name"] else ""
    switch = node.get("switch")
    ports = counted(node["num_ports"], "port") if node["num_ports"] is not None else "? ports"
    tables = f"  linear table {switch['linear_fdb_cap']}, top {_text(switch['linear_fdb_top'])}" if switch else ""
    yield f"  {node['kind']} {node['guid'] or '(no NodeInfo)'}{name}  {ports}{tables}  {_frame(node, paint)}"
    if quiet:
        return
    for port in node["ports"]:
        yield "    " + _port(port, paint)
    forwarding = node.get("forwarding")
    if forwarding is not None:
        for entry in forwarding["linear"]:
            yield f"    forwards {counted(entry['count'], 'LID')} by port {entry['port']}: {entry['lids']}"
        if forwarding["random"]:
            yield f"    random forwarding table: {counted(len(forwarding['random']), 'block')}"
        for entry in forwarding["multicast"]:
            yield f"    forwards 0x{entry['lid']:04x} by ports {','.join(map(str, entry['ports']))}"


def _port(port: dict[str, Any], paint: Paint) -> str:
    parts = [f"port {_text(port['number'])}", "state unknown" if port["state"] == "unknown" else port["state"]]
    if "lid" in port:
        parts.append(f"LID {port['lid']}" + (f", LMC {port['lmc']}" if port["lmc"] else ""))
    if "m_key" in port and (port["m_key"]["value"] != 0):
        key = port["m_key"]
        shown = key["text"] if key["value"] is None else f"M_Key {key['text']}"
        parts.append(f"{shown} (protect bits {key['protect_bits']}, lease {key['lease_period']} s)")
    keys = [key for block in port.get("p_keys", ()) for key in block["keys"]] or [one["key"] for one in port.get("intended_p_keys", ())]
    if keys:
        parts.append("P_Keys " + " ".join(f"0x{key:04x}" for key in keys))
    if "peer" in port:
        peer = port["peer"]
        parts.append(f"→ {peer['name'] or peer['node'] or '?'} port {_text(peer['port'])}")
    return "  ".join([*parts, _frame(port, paint)]).rstrip()


def _text(value: int | None) -> str:
    return "?" if value is None else str(value)


def _hex(value: int | None) -> str:
    return "?" if value is None else f"0x{value:04x}"


def _frame(fact: dict[str, Any], paint: Paint) -> str:
    """The source of a fact: `[frame 7]`, `[guid2lid:3]`, or nothing."""
    source = printable(fact["source"]) if "source" in fact else f"frame {fact['frame']}" if fact.get("frame") else ""
    return paint(f"[{source}]", "faint") if source else ""


def graph(result: dict[str, Any]) -> Iterator[str]:
    """Nodes and links in Graphviz's language; switches are boxes."""
    subnets = result.get("subnets", [result])
    yield "graph fabric {"
    yield "  overlap=false;"
    for node in chain.from_iterable(one["nodes"] for one in subnets):
        label = _quoted("\n".join(part for part in (node["name"], node["guid"]) if part))
        yield f"  {_quoted(node['guid'] or '?')} [label={label}, shape={'box' if node['kind'] == 'switch' else 'ellipse'}];"
    for link in chain.from_iterable(one["links"] for one in subnets):
        near, far = link["ends"]
        ports = f'taillabel="{_text(near["port"])}", headlabel="{_text(far["port"])}"'
        yield f"  {_quoted(near['node'] or '?')} -- {_quoted(far['node'] or '?')} [{ports}];"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
