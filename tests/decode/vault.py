"""A plugin whose keys lie in TLVs, in a list within a list, and at fixed places: of a vendor's class, of a UDP port."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.words import Inside, Parsed, Struct, UdpPort, VendorOui, rest, secret, uint

OUI, PORT = 0x00ACE3, 5556


class Vault(Struct):
    """A vendor's attribute: a fixed key, then TLVs."""

    prefix, key, section, size = "vault", "head", "VAULT 1", 8
    carried_by = (VendorOui(OUI, 0x32, 0x0200),)
    mode = uint(32, "Mode", at="0", holds="number")
    fixed = secret(32, "Vault_Key", "Fixed Key", at="4")
    body = rest("Vault Body", at="8")


def find_tlvs(data: bytes) -> Iterator[tuple[int, int]]:
    """Type and length of two bytes each; type 0 ends the list, type 99 is a bug of the plugin."""
    at = 0
    while at + 4 <= len(data):
        kind, length = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 4], "big")
        if kind == 0:
            return
        if kind == 99:
            raise ValueError(data.hex())
        yield at, at + 4 + length
        at += 4 + length


class VaultTlv(Struct):
    """One TLV."""

    prefix, key, section, size = "vault", "tlv", "VAULT 2", 4
    carried_by = (Parsed(Vault.body, find_tlvs),)
    type = uint(16, "Vault Type", at="0", holds="number")
    length = uint(16, "Vault Length", at="2", unit="bytes")
    value = rest("Vault Value", at="4")


class VaultKey(Struct):
    """TLV of type 1."""

    prefix, key, section, size = "vault", "key", "VAULT 2.1", 8
    carried_by = (Inside(VaultTlv.value, ((VaultTlv.type, (1,)),)),)
    since = uint(32, "Since", at="0", holds="number")
    secret_ = secret(32, "Vault_Key", "Vault Key", at="4")


class VaultName(Struct):
    """TLV of type 2."""

    prefix, key, section, size = "vault", "name", "VAULT 2.2", 0
    carried_by = (Inside(VaultTlv.value, ((VaultTlv.type, (2,)),)),)
    name = rest("Vault Name")


class VaultGroup(Struct):
    """TLV of type 3: a count, and that many entries of a length and its bytes."""

    prefix, key, section, size = "vault", "group", "VAULT 2.3", 1
    carried_by = (Inside(VaultTlv.value, ((VaultTlv.type, (3,)),)),)
    count = uint(8, "Group Size", at="0", holds="number")
    entries = rest("Group Entries", at="1")


def find_entries(data: bytes) -> Iterator[tuple[int, int]]:
    """Entries of a group."""
    at = 0
    while at < len(data):
        yield at, at + 1 + data[at]
        at += 1 + data[at]


class VaultEntry(Struct):
    """An entry of a group, which ends with a key."""

    prefix, key, section, size = "vault", "entry", "VAULT 2.4", 6
    carried_by = (Parsed(VaultGroup.entries, find_entries),)
    length = uint(8, "Entry Length", at="0", unit="bytes")
    number = uint(8, "Entry Number", at="1", holds="number")
    secret_ = secret(32, "Vault_Key", "Entry Key", at="2")


class VaultDatagram(Struct):
    """A UDP datagram."""

    prefix, key, section, size = "vault", "udp", "VAULT 3", 12
    carried_by = (UdpPort(PORT),)
    number = uint(32, "Datagram Number", at="0", holds="number")
    secret_ = secret(64, "Vault_Key", "Datagram Key", at="4")
