"""Mistakes in a plugin's declarations, found once, when it is loaded; the message says what to write instead."""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any, cast

from ibdissect.dissect.info_line_plugin import placeholders
from ibdissect.errors import PluginError, SpecError, defined_in, nearest
from ibdissect.lint.finding import Severity
from ibdissect.lint.handlers import MARKS, handler_methods
from ibdissect.lint.rule import REGISTRY, Rule
from ibdissect.lint.sequence import Sequence, is_sequence
from ibdissect.wire.catalog import Catalog, StructType, is_foreign
from ibdissect.wire.column import ComputedField
from ibdissect.wire.dialogue import Answer, Note, Summary, answers_of, notes_of, summary_of
from ibdissect.wire.encapsulation import ROCE_PORT
from ibdissect.wire.places import (
    Behind,
    CmPayload,
    CmService,
    DestQP,
    Ethertype,
    Inside,
    Mad,
    Parsed,
    Place,
    QKey,
    Stream,
    TcpPort,
    UdpPort,
    VendorOui,
)
from ibdissect.wire.spec import Field, Struct
from ibdissect.wire.tail import TailAttribute, length_of

ARGUMENTS = dict(zip(MARKS, (("view", "seen"), ("event", "context"), ("table", "context"), ("context",)), strict=True))
"""What a handler gets, by its mark."""
MOST_BYTES = 65536
"""Largest structure: more than a MAD or a datagram holds."""
MOST_DATA = 232
"""Bytes of a MAD behind its common header (IBA 13.4.2)."""
MOST_BITS = 64
"""Largest integer; `raw` and `gid` hold more."""
OUI_CLASSES = range(0x30, 0x50)
"""Vendor range 2 (IBA 16.5.2)."""
_NAME = re.compile(r"[a-z0-9_]+(?:[.-][a-z0-9_]+)*")
RANGES: Mapping[type[Place], Mapping[str, tuple[int, int, str]]] = {
    Mad: {"mgmt_class": (0, 0xFF, "8 bits"), "attr_id": (0, 0xFFFF, "16 bits")},
    VendorOui: {"oui": (0, 0xFFFFFF, "24 bits"), "attr_id": (0, 0xFFFF, "16 bits")},
    TcpPort: {"port": (1, 0xFFFF, "1 to 65535")},
    UdpPort: {"port": (1, 0xFFFF, "1 to 65535")},
    Ethertype: {"ethertype": (0x600, 0xFFFF, "0x0600 to 0xffff")},
    DestQP: {"qp": (0, 0xFFFFFF, "24 bits")},
    QKey: {"q_key": (0, 0xFFFFFFFF, "32 bits")},
    CmService: {"service_id": (0, (1 << 64) - 1, "64 bits"), "mask": (0, (1 << 64) - 1, "64 bits")},
    CmPayload: {"service_id": (0, (1 << 64) - 1, "64 bits"), "mask": (0, (1 << 64) - 1, "64 bits")},
}
"""What the numbers of a place may be, and how to say it."""


def check_modules(name: str, modules: Iterable[ModuleType]) -> None:
    """Raise PluginError for the first mistake in the structures and columns of a plugin's modules, or if they declare nothing."""
    modules = list(modules)
    own = {module.__name__ for module in modules}
    values = [value for module in modules for value in vars(module).values()]
    structs = [value for value in _classes(values, Struct) if value.__module__ in own and (value.fields or value.carried_by)]
    columns = [value for value in values if isinstance(value, ComputedField)]
    rules = [rule for rule in REGISTRY.values() if rule.__module__ in own]
    if not (structs or columns or rules or any(hasattr(module, "COLUMNS") for module in modules)):
        raise PluginError(name, "declares nothing: neither a structure (a class derived from Struct, with a key) nor a rule")
    used = set(chain.from_iterable(_used(struct) for struct in structs))
    for struct in structs:
        for wrong in chain(_struct(struct, used), *map(_field, struct.fields), *(_place(struct, place) for place in struct.carried_by)):
            raise PluginError(defined_in(struct), f"{struct.__name__}{wrong}")
    _columns(columns)


def check_nesting(catalog: Catalog, own: Collection[str]) -> None:
    """Raise PluginError if a structure of the modules `own` may lie in itself, through fields, lists and choices."""
    around: dict[StructType, set[StructType]] = {
        struct: {field.owner for place in catalog.places(struct) if isinstance(field := getattr(place, "field", None), Field)}
        | {field.owner for field in catalog.nesting.get(struct, ())}
        for struct in catalog.structs
    }
    for struct in catalog.structs:
        waiting, seen = [*around[struct]], set[StructType]()
        while waiting and struct.__module__ in own and struct not in catalog.tail_parts:
            one = waiting.pop()
            if one is struct:
                name = next((each.__name__ for each in seen if struct in around.get(each, ())), struct.__name__)
                reason = f"may lie in itself, through {name}; declare another structure for the inner one"
                raise PluginError(defined_in(struct), f"{struct.__name__}: {reason}")
            waiting += around.get(one, set()) - seen
            seen |= around.get(one, set()) | {one}


def check_names(catalog: Catalog, own: Collection[str]) -> None:
    """Raise PluginError if a structure of the modules `own` has a filter name of another structure, or twice the same."""
    first: dict[str, Field[Any]] = {}
    keys = {(struct.prefix, struct.key): struct for struct in catalog.structs if struct.__module__.startswith("ibdissect.")}
    places: dict[Place, StructType] = {}
    for struct in catalog.structs:
        if struct.__module__ in own:
            if (ours := keys.get((struct.prefix, struct.key))) is not None:
                reason = f"{struct.prefix}.{struct.key} is the name of {ours.__name__}; give {struct.__name__} another prefix or key"
                raise PluginError(defined_in(struct), f"{struct.__name__}.key: {reason}")
            for place in struct.carried_by:
                if isinstance(place, Place) and not place.shared and places.setdefault(place, struct) is not struct:
                    reason = f"{place} is that of {places[place].__name__}, too: the same bytes cannot be both"
                    raise PluginError(defined_in(struct), f"{struct.__name__}.carried_by: {reason}")
        for field in struct.fields:
            if field.kind == "pad" or not field.filter_name:
                continue
            other = first.setdefault(field.filter_name, field)
            if other is field or struct.__module__ not in own:
                continue
            if (other.owner.__module__, other.owner.__name__) == (struct.__module__, struct.__name__):  # itself, or another part of it
                reason = f"has the filter name of {other.name}, {field.filter_name}: give it another label, or a name with ws="
            elif not is_foreign(other) or (other.owner.__module__ in own and not _related(struct, other.owner)):
                theirs = f"{other.owner.__name__}.{other.name}"
                reason = f"has the filter name of {theirs}, {field.filter_name}: give {struct.__name__} another key"
            else:
                continue
            raise PluginError(defined_in(struct), f"{struct.__name__}.{field.name}: {reason}")


def _related(one: StructType, other: StructType) -> bool:
    """Whether one structure is derived from the other, or both from a third: such structures share their names on purpose."""
    return bool({*one.__mro__} & {*other.__mro__} - {Struct, object})


def check_rules(rules: Iterable[type[Rule]], catalog: Catalog) -> None:
    """Raise PluginError for the first mistake in the rules of a plugin."""
    names = {rule.name: rule for rule in REGISTRY.values() if rule.__module__.startswith("ibdissect.")}
    for rule in rules:
        for wrong in _rule(rule, names):
            raise PluginError(defined_in(rule), f"rule {rule.code}: {wrong}")
        _check_message(rule, catalog)
        names[rule.name] = rule


def _classes(values: Iterable[object], kind: type) -> Iterator[Any]:
    return (value for value in values if isinstance(value, type) and issubclass(value, kind))


def _used(struct: StructType) -> Iterator[StructType]:
    """Structures that are found through another one: its bases, and what is nested in it."""
    yield from cast("tuple[StructType, ...]", struct.__mro__[1:])
    yield from (field.of for field in struct.fields if field.of is not None)
    if struct.tail is not None:
        yield from (inner for inner, _ in struct.tail.places())
        yield from chain.from_iterable(map(_used, struct.tail.structs()))


def _struct(struct: StructType, used: Collection[StructType]) -> Iterator[str]:
    for name, value in vars(struct).items():
        said = isinstance(value, (Answer, Note, Summary)) or (isinstance(value, tuple) and all(isinstance(one, Note) for one in value))
        known = (TailAttribute, Field, FunctionType, staticmethod, classmethod, property, type)
        plain = said or name.startswith("_") or isinstance(value, known)
        if not (plain or hasattr(Struct, name)):
            yield ", ".join(filter(None, (f".{name}: a structure has no such attribute", nearest(name, _ATTRIBUTES, ""))))
    for name, value in (("prefix", struct.prefix), ("key", struct.key)):
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            yield f".{name}: {value!r} is no part of a filter name: small letters, digits, dots, hyphens and underscores"
    yield from _said(struct)
    if struct.size > MOST_BYTES:
        yield f": has {struct.size} bytes, a structure has at most {MOST_BYTES}"
    if not struct.carried_by and struct not in used:
        yield ".carried_by: is missing, so the structure is found nowhere: name its place, for example `carried_by = UdpPort(5555)`"


def _said(struct: StructType) -> Iterator[str]:
    """Mistakes in what a structure says of itself."""
    for name in placeholders(summary_of(struct)):
        if not isinstance(vars(struct).get(name), (Field, TailAttribute)) and not isinstance(getattr(struct, name, None), Field):
            yield f": its summary names {name!r}, which is none of its fields"
    try:
        notes_of(struct)
    except SpecError as error:
        yield str(error).removeprefix(struct.__name__)
    answers = answers_of(struct)
    if answers is None:
        return
    if answers.to is None and (answers.asks is None or answers.when is None):
        yield ": answer() of one structure needs both: `asks`, which ones are requests, and `when`, which ones are answers"
    for mine, theirs in answers.pairs:
        for field, of in ((mine, struct), (theirs, answers.request(struct))):
            inside = of.tail is not None and isinstance(field, Field) and field.owner in tuple(of.tail.structs())
            if not isinstance(field, Field) or not (field.owner is of or inside):
                yield f": answer(by=...): {field!r} is no field of {of.__name__}; write pairs (own field, field of the request)"


_ATTRIBUTES = ("prefix", "key", "title", "section", "size", "carried_by")


def _field(field: Field[Any]) -> Iterator[str]:
    if field.kind not in ("pad", "hole") and not field.label.strip():
        yield f".{field.name}: its label is empty; it names the field in the tree"
    elif field.filter_name and not _NAME.fullmatch(field.filter_name.removeprefix(f"{field.owner.prefix}.")):
        yield f".{field.name}: {field.filter_name!r} is no filter name; give it one with ws="
    if field.kind == "uint" and field.bits > MOST_BITS:
        yield f".{field.name}: an integer has 1 to {MOST_BITS} bits, not {field.bits}; raw({field.bits // 8}, ...) holds more"
    if field.values is None:
        return
    if not isinstance(field.values, Mapping):
        yield f".{field.name}: its values must be a table {{number: name}}, not {field.values!r}"
        return
    for number, name in field.values.items():
        if type(number) is not int or not 0 <= number < 1 << field.bits or not isinstance(name, str):
            yield f".{field.name}: {number!r}: {name!r} is no name of a value of {field.bits} bits"


def _place(struct: StructType, place: object) -> Iterator[str]:
    if not isinstance(place, Place):
        yield f".carried_by: {place!r} is not a place: write for example UdpPort(5555)"
        return
    for attribute, (low, high, said) in RANGES.get(type(place), {}).items():
        value = getattr(place, attribute)
        if value is not None and not (isinstance(value, int) and low <= value <= high):
            yield f".carried_by: {type(place).__name__}: {attribute} {value!r} is out of range: {said}"
    if isinstance(place, (Mad, VendorOui)) and getattr(place, "base_version", 1) == 1 and struct.size > MOST_DATA:
        yield f".size: {struct.size} bytes do not fit into a MAD, whose data has at most {MOST_DATA}; declare the rest as a list (`repeat`)"
    if isinstance(place, VendorOui) and place.mgmt_class not in OUI_CLASSES:
        yield f".carried_by: VendorOui: only classes 0x30 to 0x4f have an OUI, not 0x{place.mgmt_class:02x}; use Mad(class, attribute)"
    if isinstance(place, UdpPort) and place.port == ROCE_PORT:
        yield f".carried_by: UdpPort({ROCE_PORT}) is RoCE v2's own port; say how the payload of a queue pair is found: DestQP, CmPayload"
    if isinstance(place, Stream):
        if not isinstance(place.over, CmPayload | TcpPort):
            yield f".carried_by: Stream: {place.over!r} has no stream of bytes; write Stream(CmPayload(...), length=...) or TcpPort(...)"
        elif isinstance(place.over, TcpPort):
            yield from _place(struct, place.over)
        try:
            length_of(struct, place.length)
        except SpecError as error:
            yield f".carried_by: Stream: length {str(error).partition(': ')[2]}"
    conditions = place.when if isinstance(place, (Inside, Behind, Parsed)) else ()
    for condition in conditions:
        pair = isinstance(condition, tuple) and len(condition) == 2
        if not pair or not isinstance(condition[0], Field) or not isinstance(condition[1], (set, frozenset, tuple, list, range)):
            yield f".carried_by: {type(place).__name__}: when {condition!r} must be (field, (value, value, ...))"
        elif condition[0].is_key:
            yield f".carried_by: {type(place).__name__}: when: {condition[0].name} is a key: what lies where would tell it"
    for measure in (getattr(place, "skip", None), getattr(place, "length", None)) if isinstance(place, (Inside, Behind)) else ():
        if isinstance(measure, tuple) and isinstance(measure[0], Field) and measure[0].is_key:
            yield f".carried_by: {type(place).__name__}: {measure[0].name} is a key: what lies where would tell it"
    field = getattr(place, "field", None)
    if isinstance(place, (Inside, Parsed)) and not isinstance(field, Field):
        yield f".carried_by: {type(place).__name__}: {field!r} is no field of a structure"


def _columns(columns: Iterable[ComputedField]) -> None:
    for column in columns:
        same = [field for field in column.owner.fields if field.filter_name == column.filter_name]
        if same:
            reason = f"{column.owner.__name__}: column {column.name!r} has the filter name of field {same[0].name}; give it another name"
            raise PluginError(defined_in(column.owner), reason)


def _rule(rule: type[Rule], names: Mapping[str, type[Rule]]) -> Iterator[str]:
    if not isinstance(rule.severity, Severity):
        yield f"severity {rule.severity!r} is none of ERROR, WARNING, INFO (import them from ibdissect.rules)"
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", getattr(rule, "name", "")):
        yield f"name {getattr(rule, 'name', '')!r} must be small letters, digits and hyphens: lane-dark"
    elif (other := names.get(rule.name)) is not None and other is not rule:
        yield f"{rule.name} is the name of {other.code} already"
    if not (rule.__doc__ or "").strip() or rule.__doc__ == Rule.__doc__:
        yield "its docstring must say what the fault is, why it matters and what to do"
    if rule.when is not None and is_sequence(rule.when) and not rule.by_answers:
        if rule.on is None:
            yield "its condition names no field of the structure that it is about: write `on = ...`"
        else:
            try:
                Sequence(rule.on, rule.when)
            except SpecError as error:
                yield str(error)
    handlers = handler_methods(rule)
    if rule.when is None and not handlers:
        yield "has neither a condition (`when`) nor a handler (@on_struct, @on_event, @on_chunk, @on_end), so it never reports anything"
    for mark, listens, method in handlers:
        for kind in listens if isinstance(listens, tuple) else ():
            if not isinstance(kind, type):
                yield f"{method.__name__} handles {kind!r}, which is no class; import the class of the event or structure and name it"
        given = ARGUMENTS[mark]
        try:
            inspect.signature(method).bind(None, *given)
        except TypeError:
            yield f"{method.__name__} must take ({', '.join(('self', *given))})"


def _check_message(rule: type[Rule], catalog: Catalog) -> None:
    """A stateless rule's message names an unknown field: said on loading rather than at the first finding."""
    try:
        words = [name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(rule.message) if name]
    except ValueError as error:
        raise PluginError(defined_in(rule), f"rule {rule.code}: its message is not a format string: {error}") from error
    if rule.on is None or rule.when is None or (rule.by_answers and rule.message_words is None):
        return
    parts = {name for name, value in vars(rule.on).items() if isinstance(value, TailAttribute)}
    fields = {field.name for field in (*rule.on.fields, *catalog.computed.get(rule.on, ()))}
    known = rule.message_words or {struct.__name__ for struct in catalog.structs} | fields | parts
    for word in words:
        if word not in known:
            what = "a word of `says` nor one of AttributeRule" if rule.message_words else "a field nor a structure"
            reason = f"rule {rule.code}: its message names {word!r}, which is neither {what}"
            raise PluginError(defined_in(rule), ", ".join(filter(None, (reason, nearest(word, known, "")))))
