"""partitions.conf, and the P_Keys that OpenSM makes of it for each port.

Format and meaning: osm_prtn_config.c and osm_prtn.c of opensm 3.3. Keywords may be abbreviated (`limi` is limited).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibdissect.errors import SubnetFileError
from ibdissect.subnet import CA, ROUTER, SWITCH
from ibdissect.subnet.file_lines import doubtful
from ibdissect.subnet.p_keys import Membership
from ibdissect.wire.numbers import BASE, FULL

from .file_facts import DefinitionFact, FileFact
from .lines import GUIDS, Lines, number

DEFAULT = 0x7FFF
"""Number of the default partition."""
KEYWORDS = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF", "NONE")
"""In the order in which opensm compares them."""
MEMBERSHIPS = ("full", "limited", "both")
KINDS = {"ALL_CAS": CA, "ALL_SWITCHES": SWITCH, "ALL_ROUTERS": ROUTER}


def partitions_conf(lines: Lines) -> Iterator[FileFact]:
    """One fact per definition. Raises SubnetFileError for a syntax error, for which opensm discards the whole file."""
    yield from list(_definitions(lines))


def _definitions(lines: Lines) -> Iterator[DefinitionFact]:
    head: tuple[int, str, int, str] | None = None
    entries: list[tuple[int, int | str, str]] = []
    for raw in lines:
        text = raw.split("#")[0].strip()
        while text:
            if head is None:
                before, colon, text = text.partition(":")
                if not colon:
                    raise _error(lines, "a definition with its colon on one line")
                head, entries = (lines.number, *_head(before, lines)), []
                text = text.strip()
                continue
            stop = text.find(";")
            piece, ends = (text, False) if stop < 0 else (text[:stop], True)
            text = "" if stop < 0 else text[stop + 1 :].strip()
            for one in filter(None, map(str.strip, piece.split(","))):
                if one.startswith("mgid"):
                    break  # a group and its flags, up to the end of the line
                entry = _entry(one, lines)
                if entry is not None:
                    entries.append(entry)
            if ends:
                yield DefinitionFact(*head, tuple(entries))
                head = None
    if head is not None:
        raise _error(lines, "a semicolon at the end of the definition")


def _head(text: str, lines: Lines) -> tuple[str, int, str]:
    """Name, P_Key (0: none is written) and default membership of a definition."""
    first, *flags = [part.strip() for part in text.split(",")]
    name, equals, key = (part.strip() for part in first.partition("="))
    if not equals and name[:1].isdigit():
        name, key = "", name
    p_key = number(key, range(1 << 16), 0) if key else 0
    if p_key is None:
        raise _error(lines, "a P_Key of 16 bits")
    default = "limited"
    for flag in flags:
        word, _, value = (part.strip() for part in flag.partition("="))
        if word and "defmember".startswith(word) and value:
            default = _membership(value)
    return name, p_key & BASE, default


def _membership(word: str) -> str:
    """An unknown word means limited, and so does `FULL`, since case matters."""
    return next((one for one in MEMBERSHIPS if one.startswith(word)), "limited")


def _entry(text: str, lines: Lines) -> tuple[int, int | str, str] | None:
    name, equals, word = (part.strip() for part in text.partition("="))
    if not name:
        raise _error(lines, "a port GUID or a keyword")
    membership = _membership(word) if equals and word else ""
    if name[:1].isdigit():
        port = number(name, GUIDS, 0)
        if port is None:
            raise _error(lines, "a port GUID of 64 bits")
        return lines.number, port, membership
    keyword = next((one for one in KEYWORDS if one.startswith(name)), None)
    if keyword is None:
        raise _error(lines, f"a port GUID or one of {', '.join(KEYWORDS)}")
    return (lines.number, keyword, membership) if keyword != "NONE" else None


def _error(lines: Lines, expected: str) -> SubnetFileError:
    return SubnetFileError(lines.path, lines.number, f"expected {expected}; opensm ignores the whole file and makes all ports full members")


def numbered(definitions: Iterable[DefinitionFact]) -> Iterator[tuple[int, DefinitionFact]]:
    """The partition of each definition: as written, that of the same name above, or the next number unused so far in the file."""
    by_name, used, following = {"Default": DEFAULT}, {DEFAULT}, 1
    for one in definitions:
        p_key = one.p_key or by_name.get(one.name, 0)
        if not p_key:
            while following in used:
                following += 1
            p_key = following
        used.add(p_key)
        if one.name:
            by_name.setdefault(one.name, p_key)
        yield p_key, one


def memberships(
    definitions: list[DefinitionFact], ports: Iterable[tuple[int, int]], self_guid: int, *, both: bool | None, whole: int
) -> dict[int, Membership]:
    """The P_Keys of ports, by GUID. `ports`: (GUID, NodeType or 0) of all ports with a LID; `both`: allow_both_pkeys; None: unknown.

    Lines and `whole` are numbers of `file_lines`. If it is unknown whether a port is SELF or a switch, the line is doubtful; if it is
    unknown whether both forms are allowed, the port gets the P_Keys that it would hold in either case.
    """
    defined: dict[int, int] = {}
    entries: list[tuple[int, int, int | str, str]] = [(DEFAULT, whole, "ALL", "limited"), (DEFAULT, whole, "SELF", "full")]
    for p_key, one in numbered(definitions):
        defined.setdefault(p_key, one.line)
        entries += [(p_key, line, who, membership or one.default) for line, who, membership in one.entries]
    named: dict[int, list[int]] = {}
    general = [i for i, entry in enumerate(entries) if isinstance(entry[2], str)]
    for i, entry in enumerate(entries):
        if isinstance(entry[2], int):
            named.setdefault(entry[2], []).append(i)
    found = {}
    for guid, kind in ports:
        keys: dict[int, int] = {}
        full = set[int]()
        for i in sorted(named[guid] + general) if guid in named else general:
            p_key, line, who, membership = entries[i]
            applies = True if isinstance(who, int) else _applies(who, guid, kind, self_guid)
            if applies is False:
                continue
            forms = {"full": (FULL,), "limited": (0,), "both": (FULL,) if both is False else (FULL, 0)}[membership]
            if applies is None:
                keys = {p_key | form: doubtful(line) for form in forms} | keys
                continue
            keys |= {p_key | form: line for form in forms}
            if both and len(forms) == 1:
                keys.pop(p_key | (FULL ^ forms[0]), None)  # the later entry wins
            elif FULL in forms:
                full.add(p_key)
        if both is False:  # full wins, whatever the order
            for p_key in full:
                keys.pop(p_key, None)
        found[guid] = Membership(keys, defined, whole)
    return found


def _applies(who: str, guid: int, kind: int, self_guid: int) -> bool | None:
    """Whether a keyword names a port; None: unknown."""
    if who == "ALL":
        return True
    if who == "SELF":
        return guid == self_guid if self_guid else (None if kind != SWITCH else False)
    return KINDS[who] == kind if kind else None
