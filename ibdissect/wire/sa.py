"""What does a subnet administration MAD (class 0x03) contain besides its record?"""

from __future__ import annotations

from .mad import BASE_VERSION_OPA, RMPP
from .places import MadFormat, SaPiece
from .spec import Struct, hole, nested, pad, rest, secret, uint


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
