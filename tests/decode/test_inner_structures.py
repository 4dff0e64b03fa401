"""Structures inside others are found in order, and what they hold is known of those around them."""

from __future__ import annotations

from ibdissect.decode import inner_structures
from ibdissect.wire.catalog import Catalog, builtin_modules
from ibdissect.wire.cm import RTU
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.ulp.rpcrdma import RPCRDMA
from ibdissect.wire.vendor_mlnx import NeighborsInfo
from tests.decode import vault
from tests.decode.hidden.test_unreadable_fields import Middle, Outer, datagrams


def test_which_structures_hold_a_key() -> None:
    """Themselves, in a nested one, in one found inside one found inside them, or in private data."""
    catalog = Catalog([*builtin_modules(), vault])
    wanted = {vault.Vault: True, vault.VaultTlv: True, vault.VaultGroup: True, vault.VaultEntry: True, vault.VaultName: False,
              NeighborsInfo: True, RPCRDMA: True, RTU: True, NodeInfo: False}  # fmt: skip
    assert {struct: inner_structures.holds_key(catalog, struct) for struct in wanted} == wanted


def test_structures_that_begin_and_end_together_stay_in_order() -> None:
    table = datagrams(Middle, bytes(8), bytes(8))
    for structs in ((Outer, Middle), (Middle, Outer)):
        found = [(row, struct, i) for row, struct, i, _ in inner_structures.in_frame_order(table, structs)]
        assert found == [(row, struct, row) for row in (0, 1) for struct in structs]


def test_what_lies_in_data_of_several_segments_is_of_them_too() -> None:
    """At any depth; a datagram over UDP is whole."""
    found = inner_structures.of_streams(Catalog([*builtin_modules(), vault]))
    assert {vault.Vault, vault.VaultTlv, vault.VaultKey, vault.VaultName, vault.VaultGroup, vault.VaultEntry} <= found
    assert found.isdisjoint({vault.VaultDatagram, NodeInfo, RTU})
