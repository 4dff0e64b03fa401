"""Version 2 of SMC and SMC-D (memory of one machine, ISM): what they add to the handshake over TCP."""

from __future__ import annotations

from typing import Any

from ..places import Inside
from ..spec import Field, Struct, bit, enum, gid, nested, pad, part, raw, secret, text, uint
from ..tail import optional, repeat
from .smc import ACCEPT, CONFIRM, SMC_D, SMC_R, SYSTEMS, SMCAccept, SMCHandshake, SMCProposal, messages

KERNEL = "kernel net/smc/smc_clc.h"
EID = 32
"""Bytes of the name of a group of systems."""


# -- Proposal


class SMCEid(Struct):
    """The name of a group of systems that use version 2 with each other."""

    prefix, key, section, size, title = "smc", "proposal.eids", f"{KERNEL} struct smc_clc_v2_extension", EID, "Enterprise ID"
    eid = text(EID, "EID", at="0", ws="smc.proposal.eid")


class SMCProposalSMCDV2(Struct):
    """The offer of version 2 of SMC-D; devices follow."""

    prefix, key, section, size = "smc", "proposal.smcd.v2", f"{KERNEL} struct smc_clc_smcd_v2_extension", 48
    title = "SMC-D Version 2"
    system_eid = text(EID, "SEID", at="0", ws="smc.proposal.system.eid")
    reserved = pad(128, at="32")


class SMCDevice(Struct):
    """A device for SMC-D."""

    prefix, key, section, size, title = "smc", "proposal.device", f"{KERNEL} struct smc_clc_smcd_gid_chid", 10, "ISMv2 Device"
    gid = uint(64, "ISM GID", at="0", base="hex", ws="smc.proposal.ism.gid")
    chid = uint(16, "ISMv2 CHID", at="8", base="hex", ws="smc.proposal.smc.chid")


class SMCProposalV2(Struct):
    """The offer of version 2; the names of groups and the offer of SMC-D follow."""

    prefix, key, section, size, title = "smc", "proposal.v2", f"{KERNEL} struct smc_clc_v2_extension", 40, "SMC Version 2"
    eid_count = uint(8, "EID Count", at="0", ws="smc.proposal.eid.count")
    device_count = uint(8, "ISMv2 GID Count", at="1", ws="smc.proposal.ismv2_gid_count")
    flags = uint(8, "Flag 2", at="..3", base="hex", ws="smc.proposal.extflags.2")
    release = part(flags, 7, 4, "SMC Version Release Number", ws="smc.proposal.smc.version.relnum")
    system_eid = bit(flags, 0, "SEID Indicator", ws="smc.proposal.smc.seid")
    smcd_offset = uint(16, "SMC-Dv2 Extension Offset", at="..6", unit="bytes", ws="smc.proposal.smcdv2_ext_offset")
    gid = gid("RoCEv2 GID", at="8", ws="smc.proposal.rocev2.gid.ipv6")
    connections = uint(8, "Max Connections", at="24")
    links = uint(8, "Max Links", at="25")
    features = uint(16, "Feature Mask", at="26", base="hex")
    reserved3 = pad(96, at="28")
    eids = repeat(nested(SMCEid, "Enterprise ID"), count=eid_count)
    smcd = optional(smcd_offset > 0, repeat(nested(SMCProposalSMCDV2, "SMC-D Version 2"), count=1, at=smcd_offset + 8))
    devices = optional(smcd_offset > 0, repeat(nested(SMCDevice, "ISMv2 Device"), count=device_count))


class SMCProposalSMCD(Struct):
    """The client's device for SMC-D; the IP Area and, where `extension` says, the offer of version 2 follow."""

    prefix, key, section, size = "smc", "proposal.smcd", f"{KERNEL} struct smc_clc_msg_smcd", 40
    title = "SMC-D and Version 2"
    carried_by = (Inside(SMCProposal.area, ((SMCProposal.area_offset, frozenset({40})),)),)
    ism_gid = uint(64, "ISM GID", at="0", base="hex", ws="smc.proposal.ism.gid")
    chid = uint(16, "ISMv2 CHID", at="8", base="hex", ws="smc.proposal.smc.chid")
    extension = uint(16, "SMCv2 Extension Offset", at="10", unit="bytes", ws="smc.proposal.smcv2_ext_offset")
    vendor = raw(3, "Vendor OUI", at="12")
    options = raw(5, "Vendor Options", at="15")
    reserved = pad(160, at="20")
    offer = optional(extension > 0, repeat(nested(SMCProposalV2, "SMC Version 2"), count=1, at=extension + 12))


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
    link = uint(32, "Link Identifier", at="..20", base="hex")


VERSION_2 = (SMCHandshake.version, frozenset({2}))


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


class SMCContact(Struct):
    """The sender, at the first contact of two systems."""

    prefix, key, section, size = "smc", "first.contact", f"{KERNEL} struct smc_clc_first_contact_ext", 36
    title = "Sender"
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
    connections = uint(8, "Max Connections", at="0")
    links = uint(8, "Max Links", at="1")
    features = uint(16, "Feature Mask", at="2", base="hex")
    options = uint(32, "Vendor Options", at="4", base="hex")
    reserved = pad(64, at="8")


class SMCGid(Struct):
    """A GID for links."""

    prefix, key, section, size, title = "smc", "gids.entry", f"{KERNEL} struct smc_clc_fce_gid_ext", 16, "GID List Entry"
    gid = gid("RoCEv2 GID List Entry", at="0", ws="smc.confirm.gid.list.entry")


class SMCGidList(Struct):
    """The client's GIDs for links."""

    prefix, key, section, size, title = "smc", "gids", f"{KERNEL} struct smc_clc_fce_gid_ext", 4, "GID List"
    count = uint(8, "GID List Entry Count", at="0", ws="smc.confirm.gid.list.entry_count")
    reserved = pad(24, at="1")
    entries = repeat(nested(SMCGid, "GID List Entry"), count=count)


class SMCFirstContact(Struct):
    """What follows at the first contact of two systems."""

    prefix, key, section = "smc", "first.extension", f"{KERNEL} struct smc_clc_first_contact_ext"
    title = "First Contact Extension"
    carried_by = (
        at_in_version_2(EXTENSION_R, *messages(SMC_R, ACCEPT), FIRST_CONTACT),
        at_in_version_2(EXTENSION_D, *messages(SMC_D, ACCEPT, CONFIRM), FIRST_CONTACT),
    )
    sender = nested(SMCContact, "Sender", at="0")
    features = optional(SMCContact.release > 0, nested(SMCFeatures, "Features"))


class SMCClientContact(Struct):
    """What follows in a client's Confirm at the first contact of two systems."""

    prefix, key, section = "smc", "first.confirm", f"{KERNEL} struct smc_clc_fce_gid_ext"
    title = "First Contact Extension"
    carried_by = (at_in_version_2(EXTENSION_R, *messages(SMC_R, CONFIRM), FIRST_CONTACT),)
    sender = nested(SMCContact, "Sender", at="0")
    features = optional(SMCContact.release > 0, nested(SMCFeatures, "Features"))
    gids = nested(SMCGidList, "GID List")
