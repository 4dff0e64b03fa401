"""SMC-R's messages on queue pairs (LLC, CDC): links, keys of memory, and how far data was written and read."""

from __future__ import annotations

from collections.abc import Mapping

from ..places import CmPayload
from ..spec import Struct, array, bit, enum, gid, mac, nested, pad, part, qpn, raw, secret, uint

SERVICE = 0xFFFF_FFFF_534D_4352
"""Stands for a service id: the queue pairs of SMC-R are agreed over TCP, not by connection management (`table.services`)."""
SIZE, DATA_CONTROL, VERSION_2 = 44, 0xFE, 0x2
"""Bytes of each message of version 1; the type that holds no key; the upper half of the types of version 2, whose length has 16 bits."""
TYPES: Mapping[int, str] = {
    0x01: "Confirm Link", 0x02: "Add Link", 0x03: "Add Link Continuation", 0x04: "Delete Link", 0x05: "Request Add Link",
    0x06: "Confirm Rkey", 0x07: "Test Link", 0x08: "Confirm Rkey Continuation", 0x09: "Delete Rkey",
    DATA_CONTROL: "Connection Data Control",
}  # fmt: skip
"""Types of LLC messages (RFC 7609 A.6; kernel net/smc/smc_llc.h), and of CDC messages."""
_SOURCE = "kernel net/smc/smc_llc.c"


class SMCMessage(Struct):
    """What every message starts with."""

    prefix, key, section, size = "smc", "llc", f"RFC 7609 A.6; {_SOURCE} struct smc_llc_hdr", 2
    type = enum(8, TYPES, "LLC Message", at="0", base="hex", ws="smc.llc_msg")
    length = uint(8, "Length", at="1", unit="bytes", ws="smc.length")


class SMCConfirmLink(SMCMessage):
    """A side's addresses on a new link."""

    prefix, key, section, size, title = "smc", "confirm.link", f"RFC 7609 A.6.1; {_SOURCE}", SIZE, "SMC-R Confirm Link"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, 0x01)),)
    flags = uint(8, "Flags", at="..3", base="hex", ws="smc.confirm.link.flags")
    response = bit(flags, 7, "Response", ws="smc.confirm.link.response")
    mac = mac("Sender MAC Address", at="4", ws="smc.confirm.link.sender.mac")
    gid = gid("Sender GID", at="10", ws="smc.sender.gid")
    qpn = qpn("Sender QP Number", at="26", ws="smc.confirm.link.sender.qp.number")
    link = uint(8, "Link Number", at="29", base="hex", ws="smc.confirm.link.number")
    user_id = uint(32, "Sender Link User ID", at="30", base="hex", ws="smc.confirm.link.sender.link.userid")
    max_links = uint(8, "Max Links", at="34", base="hex", ws="smc.confirm.link.max.links")
    reserved2 = pad(72, at="35")


class SMCAddLink(SMCMessage):
    """A second link between the same hosts."""

    prefix, key, section, size, title = "smc", "add.link", f"RFC 7609 A.6.2; {_SOURCE}", SIZE, "SMC-R Add Link"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, 0x02)),)
    reason = uint(4, "Reject Reason", at="..2[4]", base="hex", ws="smc.add.link.response.reject_reason")
    flags = uint(8, "Flags", at="3", base="hex", ws="smc.add.link.flags")
    response = bit(flags, 7, "Add Link Response", ws="smc.add.link.response")
    rejected = bit(flags, 6, "Add Link Rejected", ws="smc.add.link.response.rejected")
    mac = mac("Sender MAC Address", at="4", ws="smc.add.link.sender.mac")
    gid = gid("Sender GID", at="..12", ws="smc.add.link.sender.gid")
    qpn = qpn("Sender QP Number", at="28", ws="smc.add.link.sender.qp.number")
    link = uint(8, "Link Number", at="31", base="hex", ws="smc.add.link.link.number")
    flags2 = uint(8, "Flags 2", at="32", base="hex", ws="smc.add.link.flags2")
    mtu = part(flags2, 3, 0, "QP MTU Value", ws="smc.add.link.qp.mtu.value")
    psn = uint(24, "Initial PSN", at="33", base="hex", ws="smc.add.link.initial.psn")
    reserved3 = pad(64, at="36")


class SMCNewToken(Struct):
    """The key and address of memory on the new link."""

    prefix, key, section, size = "smc", "add.link.cont.rmb", f"RFC 7609 A.6.3; {_SOURCE} struct smc_llc_msg_add_link_cont_rt", 16
    r_key = secret(32, "R_Key", "Rkey as known on this link", at="0")
    new_r_key = secret(32, "R_Key", "Rkey on the new link", at="4")
    virtual_address = uint(64, "Virtual Address", at="8", base="hex")


class SMCAddLinkContinuation(SMCMessage):
    """Keys of memory on the new link. Wireshark 4.0 leaves out the two reserved bytes before them."""

    prefix, key, section, size = "smc", "add.link.cont", f"RFC 7609 A.6.3; {_SOURCE} struct smc_llc_msg_add_link_cont", SIZE
    title = "SMC-R Add Link Continuation"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, 0x03)),)
    flags = uint(8, "Flags", at="..3", base="hex", ws="smc.add.link.cont.flags")
    response = bit(flags, 7, "Response", ws="smc.add.link.cont.response")
    link = uint(8, "Link Number", at="4", base="hex", ws="smc.add.link.cont.link.number")
    tokens = uint(8, "Number of Rkeys", at="5", ws="smc.add.link.cont.rkey.number")
    token = array(2, nested(SMCNewToken, "RMB RToken Pair", at="..8"))
    reserved3 = pad(32, at="40")


class SMCDeleteLink(SMCMessage):
    """A link ends."""

    prefix, key, section, size, title = "smc", "delete.link", f"RFC 7609 A.6.4; {_SOURCE}", SIZE, "SMC-R Delete Link"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, 0x04)),)
    flags = uint(8, "Flags", at="..3", base="hex", ws="smc.delete.link.flags")
    response = bit(flags, 7, "Response", ws="smc.delete.link.response")
    all_links = bit(flags, 6, "Terminate All Links In The Link Group", ws="smc.delete.link.all")
    orderly = bit(flags, 5, "Terminate Links Orderly", ws="smc.delete.link.orderly")
    link = uint(8, "Link Number For The Failed Link", at="4", base="hex", ws="smc.delete.link.number")
    reason = uint(32, "Reason Code", at="5", base="hex", ws="smc.delete.link.reason.code")
    reserved2 = pad(280, at="9")


class SMCToken(Struct):
    """The key and address of memory on a link."""

    prefix, key, section, size = "smc", "confirm.rkey", f"RFC 7609 A.6.5; {_SOURCE} struct smc_rmb_rtoken", 13
    link = uint(8, "Link Number", at="0", base="hex", ws="smc.confirm.rkey.link.number")
    r_key = secret(32, "R_Key", "New Rkey for this link", at="1", ws="smc.confirm.rkey.new.rkey")
    virtual_address = uint(64, "New RMB virtual address for this link", at="5", base="hex", ws="smc.confirm.rkey.new.virt")


class SMCConfirmRkey(SMCMessage):
    """New memory: its key on this link, and on others."""

    prefix, key, section, size, title = "smc", "confirm.rkey", f"RFC 7609 A.6.5; {_SOURCE}", SIZE, "SMC-R Confirm Rkey"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, 0x06)),)
    flags = uint(8, "Flags", at="..3", base="hex", ws="smc.confirm.rkey.flags")
    response = bit(flags, 7, "Response", ws="smc.confirm.rkey.response")
    negative = bit(flags, 5, "Negative Response", ws="smc.confirm.rkey.negative.response")
    retry = bit(flags, 4, "Retry Rkey Set", ws="smc.confirm.rkey.retry.rkey.set")
    others = uint(8, "Number of other QP", at="4", ws="smc.confirm.rkey.number.qp")
    r_key = secret(32, "R_Key", "New Rkey for this link", at="5", ws="smc.confirm.rkey.new.rkey")
    virtual_address = uint(64, "New RMB virtual address for this link", at="9", base="hex", ws="smc.confirm.rkey.new.virt")
    token = array(2, nested(SMCToken, "Other Link", at="17"))
    reserved2 = pad(8, at="43")


class SMCConfirmRkeyContinuation(SMCMessage):
    """New memory: its keys on further links."""

    prefix, key, section, size = "smc", "confirm.rkey", f"RFC 7609 A.6.6; {_SOURCE}", SIZE
    title = "SMC-R Confirm Rkey Continuation"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, 0x08)),)
    flags = uint(8, "Flags", at="..3", base="hex", ws="smc.confirm.rkey.flags")
    response = bit(flags, 7, "Response", ws="smc.confirm.rkey.response")
    negative = bit(flags, 5, "Negative Response", ws="smc.confirm.rkey.negative.response")
    retry = bit(flags, 4, "Retry Rkey Set", ws="smc.confirm.rkey.retry.rkey.set")
    others = uint(8, "Number of other QP", at="4", ws="smc.confirm.rkey.number.qp")
    token = array(3, nested(SMCToken, "Other Link", at="5"))


class SMCDeleteRkey(SMCMessage):
    """Memory that the sender no longer offers."""

    prefix, key, section, size, title = "smc", "delete.rkey", f"RFC 7609 A.6.7; {_SOURCE}", SIZE, "SMC-R Delete Rkey"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, 0x09)),)
    flags = uint(8, "Flags", at="..3", base="hex", ws="smc.delete.rkey.flags")
    response = bit(flags, 7, "Response", ws="smc.delete.rkey.response")
    negative = bit(flags, 5, "Negative Response", ws="smc.delete.rkey.negative.response")
    count = uint(8, "Rkey Count", at="4", ws="smc.delete.rkey.count")
    error_mask = uint(8, "Error Mask", at="5", base="hex", ws="smc.delete.rkey.error.mask")
    r_key = array(8, secret(32, "R_Key", "RMB Rkey to be deleted", at="..8", ws="smc.delete.rkey.deleted"))
    reserved3 = pad(32, at="40")


class SMCTestLink(SMCMessage):
    """Is the link alive?"""

    prefix, key, section, size, title = "smc", "test.link", f"RFC 7609 A.6.8; {_SOURCE}", SIZE, "SMC-R Test Link"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, 0x07)),)
    flags = uint(8, "Flags", at="..3", base="hex", ws="smc.test.link.flags")
    response = bit(flags, 7, "Response", ws="smc.test.link.response")
    user_data = raw(16, "User Data", at="4")
    reserved2 = pad(192, at="20")


class SMCDataControl(SMCMessage):
    """How far data of a TCP connection was written and read, and whether it ends. Wireshark has one name for both cursors."""

    prefix, key, section, size = "smc", "rmbe.ctrl", "RFC 7609 A.7; kernel net/smc/smc_cdc.h struct smc_cdc_msg", SIZE
    title = "SMC-R Connection Data Control"
    carried_by = (CmPayload(SERVICE, starts=(0xFF, DATA_CONTROL)),)
    sequence = uint(16, "Sequence Number", at="2", base="hex", ws="smc.rmbe.ctrl.seqno")
    alert_token = uint(32, "Alert Token", at="4", base="hex", ws="smc.rmbe.ctrl.alert.token")
    producer_wrap = uint(16, "Producer window wrap sequence number", at="..10", base="hex", ws="smc.rmbe.ctrl.prod.wrap.seq")
    producer = uint(32, "Peer Producer Cursor", at="12", base="hex", ws="smc.rmbe.ctrl.peer.prod.curs")
    consumer_wrap = uint(16, "Consumer window wrap sequence number", at="..18", base="hex", ws="smc.rmbe.ctrl.prod.wrap.seq")
    consumer = uint(32, "Peer Consumer Cursor", at="20", base="hex", ws="smc.rmbe.ctrl.peer.prod.curs")
    flags = uint(8, "Connection read/write status flags", at="24", base="hex", ws="smc.rmbe.ctrl.conn.rw.status.flags")
    write_blocked = bit(flags, 7, "Write Blocked", ws="smc.rmbe.ctrl.write.blocked")
    urgent_pending = bit(flags, 6, "Urgent Data Pending", ws="smc.rmbe.ctrl.urgent.pending")
    urgent_present = bit(flags, 5, "Urgent Data Present", ws="smc.rmbe.ctrl.urgent.present")
    update_requested = bit(flags, 4, "Consumer Cursor Update Requested", ws="smc.rmbe.ctrl.cons.update.requested")
    failover = bit(flags, 3, "Failover Validation Indicator", ws="smc.rmbe.ctrl.failover.validation")
    state = uint(8, "Peer Connection State Flags", at="25", base="hex", ws="smc.rmbe.ctrl.peer.conn.state.flags")
    sending_done = bit(state, 7, "Peer Sending Done", ws="smc.rmbe.ctrl.peer.sending.done")
    closed = bit(state, 6, "Peer Closed Connection", ws="smc.rmbe.ctrl.peer.closed.conn")
    aborted = bit(state, 5, "Peer Abnormal Close", ws="smc.rmbe.ctrl.peer.abnormal.close")
    reserved3 = pad(144, at="26")
