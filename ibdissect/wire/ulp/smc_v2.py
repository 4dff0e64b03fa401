"""What do version 2 of SMC and SMC-D (memory of one machine, ISM) add to the handshake over TCP?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..places import Inside, Parsed
from ..spec import Field, Struct, bit, enum, gid, pad, part, raw, secret, text, uint
from .smc import ACCEPT, CONFIRM, SMC_D, SMC_R, SYSTEMS, SMCAccept, SMCHandshake, SMCProposal, SMCSubnet, messages

KERNEL = "kernel net/smc/smc_clc.h"
EID = 32
"""Bytes of the name of a group of systems."""


def _two(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


# -- Proposal


class SMCProposalSMCD(Struct):
    """The client's device for SMC-D, and where the offer of version 2 is; the IP Area follows."""

    prefix, key, section, size = "smc", "proposal.smcd", f"{KERNEL} struct smc_clc_msg_smcd", 40
    title = "SMC-D and Version 2"
    carried_by = (Inside(SMCProposal.area, ((SMCProposal.area_offset, frozenset({40})),)),)
    ism_gid = uint(64, "ISM GID", at="0", base="hex", ws="smc.proposal.ism.gid")
    chid = uint(16, "ISMv2 CHID", at="8", base="hex", ws="smc.proposal.smc.chid")
    extension = uint(16, "SMCv2 Extension Offset", at="10", unit="bytes", ws="smc.proposal.smcv2_ext_offset")
    vendor = raw(3, "Vendor OUI", at="12")
    options = raw(5, "Vendor Options", at="15")
    reserved = pad(160, at="20")


def find_prefixes(area: bytes, *, at: int) -> list[int]:
    """Offsets of the IPv6 prefixes behind the IP Area at an offset."""
    start = at + SMCSubnet.size
    return list(range(start, start + area[start - 1] * SMCPrefix.size, SMCPrefix.size)) if start <= len(area) else []


class SMCPrefix(Struct):
    """An IPv6 prefix of the interface."""

    prefix, key, section, size = "smc", "proposal.ipv6", f"RFC 7609 A.2; {KERNEL} struct smc_clc_ipv6_prefix", 17
    title = "IPv6 Prefix"
    carried_by = tuple(
        Parsed(SMCProposal.area, partial(find_prefixes, at=at), ((SMCProposal.area_offset, frozenset({at})),)) for at in (0, 40)
    )
    value = gid("IPv6 Prefix Value", at="0", ws="smc.proposal.ipv6.prefix.value")
    length = uint(8, "IPv6 Prefix Length", at="16", ws="smc.proposal.ipv6.prefix.length")


def find_offer(area: bytes) -> list[int]:
    """Where the offer of version 2 is: as many bytes behind its offset as that says."""
    return [12 + offset] if (offset := _two(area, 10)) and 12 + offset + SMCProposalV2.size <= len(area) else []


def find_eids(area: bytes) -> list[int]:
    """Offsets of the enterprise ids behind the offer."""
    return [at for offer in find_offer(area) for at in range(offer + 40, offer + 40 + area[offer] * EID, EID)]


def find_smcd(area: bytes) -> list[int]:
    """Where the offer of SMC-D is: as many bytes behind its offset as that says."""
    return [offer + 8 + _two(area, offer + 6) for offer in find_offer(area) if _two(area, offer + 6)]


def find_devices(area: bytes) -> list[int]:
    """Offsets of the devices behind the offer of SMC-D."""
    counts = [area[offer + 1] for offer in find_offer(area)]
    starts = [start + SMCProposalSMCDV2.size for start in find_smcd(area)]
    return [at for start in starts for at in range(start, start + counts[0] * SMCDevice.size, SMCDevice.size)]


_OFFERED = ((SMCProposal.area_offset, frozenset({40})),)


class SMCProposalV2(Struct):
    """The offer of version 2; the names of groups follow."""

    prefix, key, section, size, title = "smc", "proposal.v2", f"{KERNEL} struct smc_clc_v2_extension", 40, "SMC Version 2"
    carried_by = (Parsed(SMCProposal.area, find_offer, _OFFERED),)
    eids = uint(8, "EID Count", at="0", ws="smc.proposal.eid.count")
    devices = uint(8, "ISMv2 GID Count", at="1", ws="smc.proposal.ismv2_gid_count")
    reserved1 = pad(8, at="2")
    flags = uint(8, "Flag 2", at="3", base="hex", ws="smc.proposal.extflags.2")
    release = part(flags, 7, 4, "SMC Version Release Number", ws="smc.proposal.smc.version.relnum")
    system_eid = bit(flags, 0, "SEID Indicator", ws="smc.proposal.smc.seid")
    reserved2 = pad(16, at="4")
    smcd = uint(16, "SMC-Dv2 Extension Offset", at="6", unit="bytes", ws="smc.proposal.smcdv2_ext_offset")
    gid = gid("RoCEv2 GID", at="8", ws="smc.proposal.rocev2.gid.ipv6")
    connections = uint(8, "Max Connections", at="24")
    links = uint(8, "Max Links", at="25")
    features = uint(16, "Feature Mask", at="26", base="hex")
    reserved3 = pad(96, at="28")


class SMCEid(Struct):
    """The name of a group of systems that use version 2 with each other."""

    prefix, key, section, size, title = "smc", "proposal.eids", f"{KERNEL} struct smc_clc_v2_extension", EID, "Enterprise ID"
    carried_by = (Parsed(SMCProposal.area, find_eids, _OFFERED),)
    eid = text(EID, "EID", at="0", ws="smc.proposal.eid")


class SMCProposalSMCDV2(Struct):
    """The offer of version 2 of SMC-D; devices follow."""

    prefix, key, section, size = "smc", "proposal.smcd.v2", f"{KERNEL} struct smc_clc_smcd_v2_extension", 48
    title = "SMC-D Version 2"
    carried_by = (Parsed(SMCProposal.area, find_smcd, _OFFERED),)
    system_eid = text(EID, "SEID", at="0", ws="smc.proposal.system.eid")
    reserved = pad(128, at="32")


class SMCDevice(Struct):
    """A device for SMC-D."""

    prefix, key, section, size, title = "smc", "proposal.device", f"{KERNEL} struct smc_clc_smcd_gid_chid", 10, "ISMv2 Device"
    carried_by = (Parsed(SMCProposal.area, find_devices, _OFFERED),)
    gid = uint(64, "ISM GID", at="0", base="hex", ws="smc.proposal.ism.gid")
    chid = uint(16, "ISMv2 CHID", at="8", base="hex", ws="smc.proposal.smc.chid")


# -- Accept and Confirm


class SMCDAccept(Struct):
    """A side's memory, of Accept and Confirm of SMC-D."""

    prefix, key, section, size = "smc", "smcd", f"{KERNEL} struct smcd_clc_msg_accept_confirm_common", 24
    title = "SMC-D Accept or Confirm"
    carried_by = (Inside(SMCHandshake.body, messages(SMC_D, ACCEPT, CONFIRM)),)
    gid = uint(64, "Sender ISM GID", at="0", base="hex")
    token = secret(64, "DMB Token", at="8")
    index = uint(8, "DMBE Connection Index", at="16")
    buffer_size = uint(4, "DMBE Buffers Size", at="17")
    reserved1 = pad(20, at="17[4]")
    link = uint(32, "Link Identifier", at="20", base="hex")


VERSION_2 = (SMCHandshake.version, frozenset({2}))


def in_version_2(find: Callable[[bytes], list[int]], *conditions: tuple[Field[Any], frozenset[int]]) -> Parsed:
    """In the body of messages of version 2, where a function finds it."""
    return Parsed(SMCHandshake.body, find, (*conditions, VERSION_2))


def at_in_version_2(at: int, *conditions: tuple[Field[Any], frozenset[int]]) -> Inside:
    """In the body of messages of version 2, at an offset."""
    return Inside(SMCHandshake.body, (*conditions, VERSION_2), at=at)


class SMCDAcceptV2(Struct):
    """What version 2 adds to Accept and Confirm of SMC-D."""

    prefix, key, section, size = "smc", "smcd.v2", f"{KERNEL} struct smc_clc_msg_accept_confirm d1", 42
    title = "SMC-D Accept or Confirm, Version 2"
    carried_by = (at_in_version_2(SMCDAccept.size, *messages(SMC_D, ACCEPT, CONFIRM)),)
    chid = uint(16, "ISMv2 CHID", at="0", base="hex")
    eid = text(EID, "Negotiated EID", at="2")
    gid_extension = uint(64, "GID Extension", at="34", base="hex")


class SMCAcceptV2(Struct):
    """What version 2 adds to Accept and Confirm of SMC-R."""

    prefix, key, section, size = "smc", "accept.v2", f"{KERNEL} struct smc_clc_msg_accept_confirm r1", 40
    title = "SMC Accept or Confirm, Version 2"
    carried_by = (at_in_version_2(SMCAccept.size, *messages(SMC_R, ACCEPT, CONFIRM)),)
    eid = text(EID, "Negotiated EID", at="0")
    reserved = pad(64, at="32")


FIRST_CONTACT = (SMCHandshake.first_contact, frozenset({1}))
EXTENSION_R, EXTENSION_D = SMCAccept.size + SMCAcceptV2.size, SMCDAccept.size + SMCDAcceptV2.size
"""Where in the body the extension of a first contact is."""


def find_features(where: int, body: bytes) -> list[int]:
    """Where the features of release 1 and later are: behind the extension at an offset."""
    after = where + SMCFirstContact.size
    return [after] if after <= len(body) and body[where + 1] & 15 else []


def find_gid_list(body: bytes) -> list[int]:
    """Where the list of GIDs is."""
    found = find_features(EXTENSION_R, body)
    return [found[0] + SMCFeatures.size if found else EXTENSION_R + SMCFirstContact.size]


def find_gids(body: bytes) -> list[int]:
    """Offsets of the GIDs."""
    return [at for start in find_gid_list(body) if start < len(body) for at in range(start + 4, start + 4 + body[start] * 16, 16)]


class SMCFirstContact(Struct):
    """The sender, at the first contact of two systems."""

    prefix, key, section, size = "smc", "first.contact", f"{KERNEL} struct smc_clc_first_contact_ext", 36
    title = "First Contact Extension"
    carried_by = (
        at_in_version_2(EXTENSION_R, *messages(SMC_R, ACCEPT, CONFIRM), FIRST_CONTACT),
        at_in_version_2(EXTENSION_D, *messages(SMC_D, ACCEPT, CONFIRM), FIRST_CONTACT),
    )
    flags = uint(8, "Flags", at="0", base="hex")
    direct = bit(flags, 7, "No Routing (v2 Direct)")
    system = enum(4, SYSTEMS, "OS Type", at="1")
    release = uint(4, "SMC Version Release Number", at="1[4]")
    reserved = pad(16, at="2")
    host = text(32, "Peer Host Name", at="4")


class SMCFeatures(Struct):
    """What the sender can do, since release 1 of version 2; the maxima are of SMC-R only."""

    prefix, key, section, size = "smc", "features", f"{KERNEL} struct smc_clc_first_contact_ext_v2x", 16
    title = "Features"
    carried_by = (
        in_version_2(partial(find_features, EXTENSION_R), *messages(SMC_R, ACCEPT, CONFIRM), FIRST_CONTACT),
        in_version_2(partial(find_features, EXTENSION_D), *messages(SMC_D, ACCEPT, CONFIRM), FIRST_CONTACT),
    )
    connections = uint(8, "Max Connections", at="0")
    links = uint(8, "Max Links", at="1")
    features = uint(16, "Feature Mask", at="2", base="hex")
    options = uint(32, "Vendor Options", at="4", base="hex")
    reserved = pad(64, at="8")


class SMCGidList(Struct):
    """How many GIDs the client has for links; they follow."""

    prefix, key, section, size, title = "smc", "gids", f"{KERNEL} struct smc_clc_fce_gid_ext", 4, "GID List"
    carried_by = (in_version_2(find_gid_list, *messages(SMC_R, CONFIRM), FIRST_CONTACT),)
    count = uint(8, "GID List Entry Count", at="0", ws="smc.confirm.gid.list.entry_count")
    reserved = pad(24, at="1")


class SMCGid(Struct):
    """A GID for links."""

    prefix, key, section, size, title = "smc", "gids.entry", f"{KERNEL} struct smc_clc_fce_gid_ext", 16, "GID List Entry"
    carried_by = (in_version_2(find_gids, *messages(SMC_R, CONFIRM), FIRST_CONTACT),)
    gid = gid("RoCEv2 GID List Entry", at="0", ws="smc.confirm.gid.list.entry")
