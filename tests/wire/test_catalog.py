"""The catalog finds structures by name, attribute and place, and refuses what would be ambiguous."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ibdissect.errors import ConfigError, PluginError
from ibdissect.wire.catalog import SELDOM, Catalog, PackageCatalog, builtin, builtin_modules
from ibdissect.wire.dialogue import is_notes, notes_of
from ibdissect.words import Inside, Mad, MadFormat, Struct, UdpPort, VendorClass, VendorOui, column, note, raw, rest, uint
from tests.cases import every

OUI = 0xACE2
CAPTURE = Path(__file__).parents[2] / "captures" / "pkey-lab.pcap"


def module(**values: Any) -> ModuleType:
    """A plugin with these values at its top level."""
    made = ModuleType("acme")
    for name, value in values.items():
        if isinstance(value, type):
            value.__module__ = "acme"
        setattr(made, name, value)
    return made


def struct(name: str, *places: object, **more: Any) -> type[Struct]:
    body = {"prefix": "acme", "key": name.lower(), "carried_by": places, "a": uint(8, "A"), "b": uint(8, "B"), **more}
    made: type[Struct] = type(Struct)(name, (Struct,), body)
    return made


def catalog(*structs: type[Struct], **more: Any) -> Catalog:
    return Catalog([module(**{one.__name__: one for one in structs}, **more)])


@every(
    ("first", "second", "clash"),
    [
        (Mad(4, 0x12), Mad(4, 0x12), True), (Mad(4, 0x12, (1,)), Mad(4, 0x12), True), (Mad(4, 0x12), Mad(4, 0x12, (1,)), True),
        (Mad(4, 0x12, (1, 2)), Mad(4, 0x12, (2, 3)), True), (Mad(4, 0x12, (1,)), Mad(4, 0x12, (2,)), False),
        (Mad(4, 0x12), Mad(4, 0x12, base_version=0x80), False), (Mad(4, 0x12), Mad(4, 0x13), False), (Mad(4, 0x12), Mad(3, 0x12), False),
    ],
)  # fmt: skip
def test_one_attribute_has_one_structure(first: Mad, second: Mad, clash: bool) -> None:
    """Also where one of both takes all methods."""
    structs = struct("One", first), struct("Two", second)
    if not clash:
        assert sum(map(len, catalog(*structs).attributes.values())) == 2
        return
    with pytest.raises(PluginError, match=r"class 0x04 attribute 0x0012 is claimed by Two \(.*\) and by One \("):
        catalog(*structs)


def test_places_and_columns_are_found_by_their_structure() -> None:
    data = rest("Data")
    outer = struct("Outer", UdpPort(7), data=data)
    inner = struct("Inner", Inside(data, ((outer.a, (1,)),)))
    twice = column(outer, "twice", outer.a * 2, "Twice")
    more = column(outer, "more", outer.b + 1, "More")
    found = catalog(outer, inner, twice=twice, more=more)
    assert found.computed[outer] == (twice, more) and found.fields("acme.outer.twice") == (twice,)
    assert [place.when for place, one in found.inside[outer] if one is inner] == [((outer.a, (1,)),)]
    assert found.places(outer) == (UdpPort(7),) and found.fields("acme.outer.none") == ()
    assert set(builtin().computed) and all(one.owner is owner for owner, columns in builtin().computed.items() for one in columns)


def test_a_remark_is_a_column_of_its_structure() -> None:
    of = struct("Heat", UdpPort(7))
    of.notes = note(of.a > 70, "too hot"), note(of.b == 0, "stopped")  # type: ignore[attr-defined]
    said = notes_of(of)
    assert said is not None and said.filter_name == "acme.heat.note" and is_notes(said)
    assert [said.read(of(bytes(data)), 0) for data in ((70, 1), (71, 1), (71, 0), (0, 0))] == ["", "too hot", "too hot; stopped", "stopped"]
    assert [one.filter_name for one in catalog(of, struct("None", UdpPort(9))).computed[of]] == ["acme.heat.note"]


def test_names_of_attributes() -> None:
    """Those of a vendor's class first, then those of structures, then what is known without a structure."""
    near = VendorClass(0x32, OUI, name="Near", methods={1: "Ask"}, attributes={0x100: "Lamp"}, status={1: "dark"})
    found = catalog(struct("Fan", VendorOui(OUI, 0x32, 0x200)), near=near)
    asked = [(0x100, OUI), (0x200, OUI), (0x201, OUI), (0x100, OUI + 1), (0x200, OUI + 1)]
    assert [found.attribute_name(0x32, one, 0x81, oui=oui) for one, oui in asked] == [
        "Lamp", "Fan", "attribute 0x0201", "attribute 0x0100", "attribute 0x0200",
    ]  # fmt: skip
    assert found.request_text(0x32, 1, 0x100, oui=OUI) == "NearAsk(Lamp)" and found.request_text(0x32, 2, 0x100, oui=OUI) == "NearSet(Lamp)"
    assert found.request_text(0x32, 1, 0x100, oui=OUI + 1) == "VendGet(attribute 0x0100)"
    assert [found.status_text(0x100, 0x32, oui) for oui in (OUI, OUI + 1)] == ["dark", "class-specific status 1"]
    names = [builtin().attribute_name(*asked) for asked in ((1, 0x15, 1), (0x81, 0x15, 1), (4, 1, 1), (9, 1, 1), (1, 1, 1))]
    assert names == ["PortInfo", "PortInfo", "ClassPortInfo", "ClassPortInfo", "attribute 0x0001"]


def test_the_data_of_a_class_is_where_its_format_says() -> None:
    of_class = struct("Format", MadFormat(0x0A, 0x0B), data=raw(8, "Data"))
    found = catalog(of_class, struct("Own", Mad(0x0A, 0x20)), struct("Else", Mad(0x0A, 0x21, data_at=40)))
    assert [found.data_at(one, version) for one, version in ((0x0A, 1), (0x0B, 1), (0x0C, 1), (0x0A, 0x80))] == [2, 2, 24, 24]
    assert [found.start_of(place) for _, both in sorted(found.attributes.items()) for place, _ in both] == [2, 40]
    assert found.data_of(0x0A, 1) is of_class.data and found.data_of(0x0C, 1) is None  # type: ignore[attr-defined]


@every(("port", "is_one"), [(0, False), (1, True), (65535, True), (65536, False), (-1, False)])
def test_ports_of_roce(port: int, is_one: bool) -> None:
    if is_one:
        assert builtin().with_roce([port]).roce_ports == (4791, port) and builtin().roce_ports == (4791,)
        return
    with pytest.raises(ConfigError, match=f"{port}"):
        builtin().with_roce([port])


def test_a_name_is_a_number_everywhere_or_nowhere() -> None:
    text = struct("Lrh", UdpPort(7), prefix="infiniband", key="lrh", slid=raw(2, "SLID", ws="infiniband.lrh.slid"))
    with pytest.raises(PluginError, match=r"infiniband\.lrh\.slid is a number in one but not in the other: Lrh "):
        Catalog([*builtin_modules(), module(Lrh=text)])


@pytest.mark.slow
def test_similar_names() -> None:
    assert builtin().nearest("bth.destqpp")[0] == "infiniband.bth.destqp" and len(builtin().nearest("portinfo.lidd")) <= 3
    assert builtin().nearest("zzzzzzzzzzzz") == []


def test_the_packages_catalog_answers_as_one_of_all_modules() -> None:
    """Of what it knows without the modules that are seldom needed, and of what it must look for in these."""
    every, package = Catalog(builtin_modules()), PackageCatalog()
    assert {module.__name__.rpartition(".")[2] for module in builtin_modules()} >= SELDOM
    assert package.structs == every.structs and package.names == every.names
    for name in sorted(vars(package).keys() - {"_laid"}):
        mine, theirs = getattr(package, name), getattr(every, name)
        assert dict(mine) == dict(theirs) if isinstance(theirs, Mapping) else mine == theirs, name
        for key in theirs if isinstance(theirs, Mapping) else ():
            assert key in mine and mine[key] == mine.get(key) == theirs[key], (name, key)
    assert (1, 0xFFFF) not in package.attributes and not package.attributes.get((1, 0xFFFF), ())
    assert len(package.formats) == len(every.formats)
    for struct in every.structs:  # those laid by others are made anew for each catalog
        assert list(map(repr, package.places(struct))) == list(map(repr, every.places(struct))), struct
    assert package.with_roce([9]).roce_ports == (4791, 9) and package.roce_ports == (4791,)


@pytest.mark.slow
def test_a_check_imports_no_structures_that_the_capture_cannot_hold() -> None:
    code = (
        "import sys; from ibdissect.cli import run; from ibdissect.wire.catalog import SELDOM;"
        f"assert run(['lint', '-q', '--config', {os.devnull!r}, {str(CAPTURE)!r}]) == 1;"
        "sys.exit(str([name for name in sys.modules if name.startswith('ibdissect.wire.') and name.split('.')[-1] in SELDOM] or 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "0\n"
