"""The catalog: all structures and fields, by name and by place. Built once from modules, then immutable."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from functools import cache, cached_property
from itertools import chain
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

from ibdissect import wire
from ibdissect.errors import ConfigError, PluginError, defined_in

from .column import ComputedField
from .dialogue import VendorClass, answers_of, notes_of
from .encapsulation import ROCE_PORT
from .mad import COMMON_ATTRIBUTES, MAD, method_name, status_text
from .numbers import LID_ROUTED, SMP_CLASSES
from .places import Inside, Mad, MadFormat, Place, Stream, VendorOui
from .spec import BIT_KINDS, Field, Struct, field_named
from .tail import Laid
from .undecoded import UNDECODED

StructType = type[Struct]

K = TypeVar("K")
V = TypeVar("V")

SELDOM = frozenset({
    "bm", "iscsi", "iser", "nvidia_congestion", "nvidia_links", "nvidia_registers", "nvidia_routers", "nvidia_routing", "nvidia_traps",
    "nvme", "pm_congestion", "pm_details", "pm_samples", "rds", "rpcrdma", "rping", "sdp", "smc_v2", "snmp", "srp",
})  # fmt: skip
"""Modules whose structures few captures hold, and no other module needs. Importing them takes a tenth of the check of a small capture."""
BOTH = {
    "eth.addr": ("eth.dst", "eth.src"), "ip.addr": ("ip.src", "ip.dst"), "ipv6.addr": ("ipv6.src", "ipv6.dst"),
    "udp.port": ("udp.srcport", "udp.dstport"),
}  # fmt: skip
"""Names for two fields each, as in Wireshark."""


class Catalog:
    """All declared structures, by filter name, by MAD class and attribute, and by place."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self.structs: tuple[StructType, ...] = tuple(_declared(modules))
        self.roce_ports: tuple[int, ...] = (ROCE_PORT,)
        """UDP ports of RoCE v2."""
        formats: dict[tuple[int, int], list[StructType]] = {}
        attributes: dict[tuple[int, int], list[tuple[Mad, StructType]]] = {}
        inside: dict[StructType, list[tuple[Inside, StructType]]] = {}
        nesting: dict[StructType, list[Field[Any]]] = {}
        others: list[tuple[Place, StructType]] = []
        computed: dict[StructType, list[ComputedField]] = {}
        modules = list(modules)
        laid: dict[StructType, list[Laid]] = {}
        for struct in self.structs:
            for inner, there in struct.tail.places() if struct.tail is not None else ():
                laid.setdefault(inner, []).append(there)
        self.tail_parts = frozenset(chain.from_iterable(struct.tail.structs() for struct in self.structs if struct.tail is not None))
        """Structures made of the parts of others."""
        self.streams = tuple((place, struct) for struct in self.structs for place in struct.carried_by if isinstance(place, Stream))
        """The streams that structures declare as their places."""
        self._laid: Mapping[StructType, tuple[Laid, ...]] = {struct: tuple(found) for struct, found in laid.items()}
        self.of_plugins = tuple(filter(is_plugin, self.structs))
        """The structures of plugins."""
        self.answering = tuple(struct for struct in self.structs if answers_of(struct) is not None)
        """The structures that declare what they answer."""
        self.depending = tuple(struct for struct in self.structs if struct.tail is not None and struct.tail.depends())
        """The structures whose layout depends on what their conversation has shown."""
        for struct in self.structs:
            for field in struct.fields:
                if field.of is not None:
                    nesting.setdefault(field.of, []).append(field)
            for place in self.places(struct):
                if isinstance(place, MadFormat):
                    for mgmt_class in sorted(place.classes):
                        formats.setdefault((mgmt_class, place.base_version), []).append(struct)
                elif isinstance(place, Mad):
                    attributes.setdefault((place.mgmt_class, place.attr_id), []).append((place, struct))
                elif isinstance(place, Inside):
                    inside.setdefault(place.field.owner, []).append((place, struct))
                elif isinstance(place, Place):
                    others.append((place, struct))
                else:
                    raise PluginError(defined_in(struct), f"{struct.__name__}.carried_by: {place!r} is not a place")
        noted = (notes_of(struct) for struct in self.structs if is_plugin(struct))
        self._columns = (*_columns(modules), *(column for column in noted if column is not None))
        self.vendor_classes = tuple(value for module in modules for value in vars(module).values() if isinstance(value, VendorClass))
        """Names of vendors' management classes."""
        for column in self._columns:
            computed.setdefault(column.owner, []).append(column)
        _refuse_clashes(attributes)
        _refuse_equal_places(others)
        by_number = {number: tuple(sorted(found, key=is_plugin, reverse=True)) for number, found in formats.items()}
        self.formats: Mapping[tuple[int, int], tuple[StructType, ...]] = MappingProxyType(by_number)
        """The forms of whole MADs by class and base version, those of plugins first: their `data` is where attributes lie."""
        self.attributes: Mapping[tuple[int, int], tuple[tuple[Mad, StructType], ...]] = MappingProxyType(
            {place: tuple(found) for place, found in attributes.items()}
        )
        self.inside = MappingProxyType({owner: tuple(found) for owner, found in inside.items()})
        self.nesting: Mapping[StructType, tuple[Field[Any], ...]] = MappingProxyType(
            {struct: tuple(found) for struct, found in nesting.items()}
        )
        self.others = tuple(others)
        self.of_vendors = tuple((place, struct) for place, struct in others if isinstance(place, VendorOui))
        """The structures in vendor-class MADs. One may come in several RMPP segments: it belongs to the frame that completes it."""
        self.computed = MappingProxyType({struct: tuple(found) for struct, found in computed.items()})
        """Computed fields by structure."""
        if not all(module.__name__.startswith(f"{wire.__name__}.") for module in modules):
            _refuse_mixed_names(self.names)

    def places(self, struct: StructType) -> tuple[object, ...]:
        """Where a structure is found: at the places that it names, and in the lists and choices of others."""
        return (*struct.carried_by, *self._laid.get(struct, ()))

    def with_roce(self, ports: Iterable[int]) -> Catalog:
        """The same structures, with RoCE v2 on these UDP ports, too. Raises ConfigError for what is not a port."""
        made = copy(self)
        made.roce_ports = (*self.roce_ports, *ports)
        for port in made.roce_ports:
            if not 0 < port < 1 << 16:
                raise ConfigError("roce_ports", str(port), "is not a UDP port", hint="1 to 65535")
        return made

    @cached_property
    def names(self) -> Mapping[str, tuple[Field[Any], ...]]:
        """Fields by filter name, in order of declaration, computed ones last; built on first use."""
        names: dict[str, list[Field[Any]]] = {}
        for field in chain(*(struct.fields for struct in self.structs), self._columns):
            names.setdefault(field.filter_name, []).append(field)
        return MappingProxyType({name: tuple(fields) for name, fields in names.items()})

    def data_at(self, mgmt_class: int, base_version: int) -> int:
        """Offset of the attribute in a MAD of a class: the `data` field of the class format, else the end of the common header."""
        field = self.data_of(mgmt_class, base_version)
        return field.bit // 8 if field is not None else MAD.size

    def data_of(self, mgmt_class: int, base_version: int) -> Field[Any] | None:
        """The field of a class format that holds the attribute; None if none is declared."""
        found = (field_named(struct, "data") for struct in self.formats.get((mgmt_class, base_version), ()))
        return next((field for field in found if field is not None), None)

    def start_of(self, place: Mad) -> int:
        """Offset of an attribute in its MAD."""
        return place.data_at if place.data_at is not None else self.data_at(place.mgmt_class, place.base_version)

    def attribute(self, mgmt_class: int, attr_id: int, method: int, base_version: int = 1) -> StructType | None:
        """The structure of an attribute; None if none is declared."""
        found = self.attributes.get((mgmt_class, attr_id), ())
        return next((struct for place, struct in found if place.takes(method, base_version)), None)

    def attribute_name(self, mgmt_class: int, attr_id: int, method: int, base_version: int = 1, oui: int | None = None) -> str:
        """The name of an attribute, also of one that is not decoded; its number if unknown. `oui` of a vendor's MAD."""
        named = self.vendor_class(mgmt_class, oui) if self.vendor_classes else None
        if named is not None and attr_id in named.attributes:
            return named.attributes[attr_id]
        struct = self.attribute(mgmt_class, attr_id, method, base_version)
        if struct is None and named is not None:  # a vendor's structure for this attribute alone
            structs = (one for place, one in self.of_vendors if place.attr_id is not None and place.takes(mgmt_class, attr_id, oui, method))
            struct = next(structs, None)
        if struct is not None:
            return struct.title
        subnet = mgmt_class in SMP_CLASSES
        known = UNDECODED.get((LID_ROUTED if subnet else mgmt_class, attr_id)) if base_version == 1 else None
        return known or ({} if subnet else COMMON_ATTRIBUTES).get(attr_id, f"attribute 0x{attr_id:04x}")

    def request_text(self, mgmt_class: int, method: int, attr_id: int, base_version: int = 1, oui: int | None = None) -> str:
        """`PerfGet(PortCounters)`; `oui` of a vendor's MAD."""
        named = self.vendor_class(mgmt_class, oui)
        name = self.attribute_name(mgmt_class, attr_id, method, base_version, oui)
        if named is None:
            return f"{method_name(mgmt_class, method)}({name})"
        known = named.methods.get(method)
        said = method_name(mgmt_class, method) if known is None else f"{named.name}{known}"
        return f"{said.replace('Vend', named.name, 1) if named.name else said}({name})"

    def vendor_class(self, mgmt_class: int, oui: int | None) -> VendorClass | None:
        """What a plugin calls a management class; `oui` of the MAD, None where it has none."""
        named = (one for one in self.vendor_classes if one.mgmt_class == mgmt_class and one.oui in (None, oui))
        return next(named, None)

    def status_text(self, status: int, mgmt_class: int, oui: int | None = None) -> str:
        """The text of a MAD's status; `ok` if no bit is set."""
        named = self.vendor_class(mgmt_class, oui) if self.vendor_classes else None
        return status_text(status, mgmt_class, named.status if named is not None else None)

    def of_vendor(self, mgmt_class: int, attr_id: int, oui: int | None, method: int) -> StructType | None:
        """The structure in the data of a vendor-class MAD; None if none is declared."""
        return next((struct for place, struct in self.of_vendors if place.takes(mgmt_class, attr_id, oui, method)), None)

    def fields(self, name: str) -> tuple[Field[Any], ...]:
        """All fields with a filter name, `infiniband.` optional; empty if there is none."""
        return self.names.get(name) or self.names.get(f"infiniband.{name}") or ()

    def nearest(self, name: str) -> list[str]:
        """Up to three known filter names similar to `name`."""
        short = name.removeprefix("infiniband.")
        known = {n.removeprefix("infiniband."): n for n in self.names}
        import difflib

        return [known[n] for n in difflib.get_close_matches(short, known, 3, 0.6)]


def _declared(modules: Iterable[ModuleType]) -> Iterator[StructType]:
    kind = type(Struct)
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, kind) and value.__module__ == module.__name__ and value.fields and value.key:
                yield value
                if value.tail is not None:
                    yield from value.tail.structs()


def _refuse_clashes(attributes: dict[tuple[int, int], list[tuple[Mad, StructType]]]) -> None:
    for (mgmt_class, attr_id), found in attributes.items():
        for i, (place, struct) in enumerate(found):
            for other_place, other in found[:i]:
                if place.base_version == other_place.base_version and (
                    place.methods is None or other_place.methods is None or set(place.methods) & set(other_place.methods)
                ):
                    raise PluginError(
                        defined_in(struct),
                        f"class 0x{mgmt_class:02x} attribute 0x{attr_id:04x} is claimed by {said(struct)} and by {said(other)}",
                    )


def _columns(modules: Iterable[ModuleType]) -> Iterator[ComputedField]:
    for module in modules:
        yield from (value for value in vars(module).values() if isinstance(value, ComputedField))


def _refuse_equal_places(others: list[tuple[Place, StructType]]) -> None:
    """Refuse two files that claim the same payload, because the output could not show which one is right."""
    first: dict[Place, StructType] = {}
    for place, struct in others:
        if place.shared:
            continue
        other = first.setdefault(place, struct)
        if defined_in(other) != defined_in(struct):
            raise PluginError(defined_in(struct), f"{place} is claimed by {said(struct)} and by {said(other)}")


def _refuse_mixed_names(names: Mapping[str, tuple[Field[Any], ...]]) -> None:
    """Refuse a filter name that is a number in one file and bytes in another."""
    for name, fields in names.items():
        for field in fields[1:]:
            numbers = [f.kind in BIT_KINDS for f in (field, fields[0])]
            if numbers[0] != numbers[1] and is_foreign(field) != is_foreign(fields[0]):
                raise PluginError(
                    defined_in(field.owner),
                    f"{name} is a number in one but not in the other: {said(field.owner)}, {said(fields[0].owner)}",
                )


def is_plugin(struct: StructType) -> bool:
    """Whether a structure comes from a plugin."""
    return not struct.__module__.startswith(f"{wire.__name__}.")


def is_foreign(field: Field[Any]) -> bool:
    """Whether a field comes from a plugin."""
    return not field.owner.__module__.startswith(f"{wire.__name__}.")


def said(struct: type) -> str:
    """`AcmeBuffers (docs/examples/acme.py)`: a class and its file, for messages."""
    return f"{struct.__name__} ({defined_in(struct)})"


class PackageCatalog(Catalog):
    """The package's own structures. Asked for what only modules in `SELDOM` declare, or for all structures, it imports those, too.

    So it answers as a catalog of all modules does, which a test compares.
    """

    def __init__(self) -> None:
        usual = Catalog(modules_of(wire, SELDOM))
        known = frozenset(usual.structs)
        self.roce_ports, self.streams, self.computed = usual.roce_ports, usual.streams, usual.computed
        self.of_vendors, self.vendor_classes, self.of_plugins = usual.of_vendors, usual.vendor_classes, usual.of_plugins
        self.answering, self.depending = usual.answering, usual.depending
        self.attributes = _Sought(usual.attributes, usual.attributes.keys(), lambda: _whole().attributes)
        self.formats = _Sought(usual.formats, usual.formats.keys(), lambda: _whole().formats)
        self.nesting = _Sought(usual.nesting, known, lambda: _whole().nesting)
        self._laid = _Sought(usual._laid, known, lambda: _whole()._laid)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_whole(), name)


class _Sought(Mapping[K, V]):
    """What the usual modules say of their own keys, and all modules of other keys."""

    def __init__(self, usual: Mapping[K, V], known: Collection[K], whole: Callable[[], Mapping[K, V]]) -> None:
        self.usual, self.known, self.whole = usual, known, whole

    def get(self, key: K, default: Any = None) -> Any:  # Any: of `Mapping.get`
        return (self.usual if key in self.known else self.whole()).get(key, default)

    def __getitem__(self, key: K) -> V:
        return (self.usual if key in self.known else self.whole())[key]

    def __contains__(self, key: object) -> bool:
        return key in (self.usual if key in self.known else self.whole())

    def __iter__(self) -> Iterator[K]:
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())


def builtin_modules() -> list[ModuleType]:
    """Every module of `ibdissect.wire` (and `wire.ulp`), in name order."""
    return modules_of(wire)


def modules_of(package: ModuleType, but: Collection[str] = ()) -> list[ModuleType]:
    """Every module of a package and of its folders, in name order, without those named in `but`; `pkgutil` does the same in 10 ms more."""
    found: list[ModuleType] = []
    for name in sorted(os.listdir(package.__path__[0])):
        stem, kind = os.path.splitext(name)
        if stem.startswith("__") or kind not in ("", ".py") or stem in but:
            continue
        module = importlib.import_module(f"{package.__name__}.{stem}")
        found += [module] if kind else [module, *modules_of(module, but)]
    return found


@cache
def builtin() -> Catalog:
    """The catalog of the package's own structures."""
    return PackageCatalog()


@cache
def _whole() -> Catalog:
    return Catalog(builtin_modules())
