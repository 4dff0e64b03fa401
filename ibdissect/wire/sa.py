"""Subnet administration MADs (class 0x03) besides their records, and the fields that a ComponentMask selects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .mad import BASE_VERSION_OPA, RMPP
from .places import MadFormat, SaPiece
from .spec import Field, Struct, field_named, hole, nested, pad, rest, secret, uint


def offset_text(words: int) -> str:
    """AttributeOffset as bytes from one record of a table to the next."""
    return f"{words} ({words * 8} bytes)"


class SAFormat(Struct):
    """The format of every SA MAD: RMPP header, SM_Key, size and selected components of the records that follow.

    In a table that RMPP carries, the fields from SM_Key to ComponentMask belong to the first segment; the others repeat them.
    """

    key, section, size = "sa", "IBA 15.2.1.1; python-rdma SAFormat", 256
    carried_by = (MadFormat(0x03),)
    header = hole(24, "MAD header", at="0")
    rmpp = nested(RMPP, "RMPP", at="24")
    sm_key = secret(64, "SM_Key", at="36", ws="smkey")
    attribute_offset = uint(16, "AttributeOffset", at="44", show=offset_text)
    reserved_368 = pad(16, at="46")
    component_mask = uint(64, "ComponentMask", at="48", base="hex")
    data = hole(200, "SA Data", at="56", ws="subnetadmindata")


class STLSAFormat(SAFormat):
    """The format of every SA MAD of Omni-Path: as in InfiniBand, with room for more data."""

    key, section, size = "sa", "opa-ff ib_sa_records.h SA_MAD", 56
    carried_by = (MadFormat(0x03, base_version=BASE_VERSION_OPA),)
    data = rest("SA Data", at="56", ws="subnetadmindata")


class SARecordPiece(Struct):
    """The part of a record in one segment of a table, if the record begins in an earlier segment or ends in a later one."""

    key, section, title = "sa", "IBA 13.6.3.1: segments are cut without regard to records", "Piece of a record"
    carried_by = (SaPiece(),)
    piece = rest("Piece of a record", at="0", ws="recordpiece")


def components_of(record: type[Struct]) -> tuple[str, ...]:
    """The record's components in the order of their mask bits, bit 0 first; "" for a reserved bit, () for a record without any.

    A component inside a nested attribute is written with dots (`port_info.lid`), an entry of an array with its index.
    """
    return getattr(record, "components", ())


def components_set(record: type[Struct], mask: int) -> list[str]:
    """The components that a ComponentMask selects, in bit order; `bit N` for a reserved or undefined component."""
    known = components_of(record)
    chosen = []
    for number in range(mask.bit_length()):
        if mask >> number & 1:
            chosen.append((known[number] if number < len(known) else "") or f"bit {number}")
    return chosen


def component_fields(record: type[Struct], name: str) -> list[Field[Any]]:
    """The fields that lead to a component, outermost first; none if there is no such field."""
    found: list[Field[Any]] = []
    for step in name.partition("[")[0].split("."):
        field = field_named(record, step)
        if field is None:
            return []
        found.append(field)
        record = field.of or Struct
    return found


def mask_for(record: type[Struct], names: Iterable[str]) -> int:
    """The ComponentMask that selects the named components of a record; raises ValueError for an unknown name."""
    known = components_of(record)
    mask = 0
    for name in names:
        if not name or name not in known:
            raise ValueError(f"{record.__name__} has no component {name!r}")
        mask |= 1 << known.index(name)
    return mask
