"""Device registers read and written in band by NVIDIA's tools, as words, or as a register behind two headers.

Layouts as in mstflint (GPL-2.0 or BSD), which sends these requests; its answers have the same form. The contents of registers stay bytes.
"""

from .places import Mad, smp
from .spec import Struct, enum, nested, pad, raw, secret, uint
from .vendor_mlnx import CLASS

ACCESS_REGISTER = 0xFF52
TLVS = {0: "end", 1: "operation", 2: "directed route", 3: "register", 4: "user data"}
METHODS = {1: "query", 2: "write"}
STATUS = {
    0: "ok", 1: "busy", 2: "version not supported", 3: "unknown TLV", 4: "register not supported", 5: "class not supported",
    6: "method not supported", 7: "bad parameter", 8: "no resource", 9: "message received", 0xE: "not supported by the secondary",
    0x22: "configuration corrupt",
}  # fmt: skip
REGISTERS = {
    0x5002: "PMLP", 0x5004: "PTYS", 0x5006: "PAOS", 0x5008: "PPCNT", 0x500A: "PLIB", 0x5012: "PMAOS", 0x5027: "SLTP", 0x5031: "PDDR",
    0x503E: "PPHCR", 0x5040: "PPAOS", 0x5066: "PGUID", 0x50E3: "PPSLS", 0x9009: "MTCAP", 0x9020: "MGIR", 0x902F: "MROQ", 0x904A: "MMHI",
    0x9056: "MPEGC", 0x9059: "MPIR", 0x907F: "MCAM", 0x9113: "MMTA", 0x9153: "MORD", 0x9700: "MPQD",
}  # fmt: skip
"""Names of registers (mstflint reg_ids.h)."""


class RegisterHeaders(Struct):
    """What is done with which register, and how many words it has with its header."""

    key, section, size = "mlnxregister", "mstflint packets_layout.h OperationTlv, reg_tlv", 20
    operation = enum(5, TLVS, "OperationTLV", at="0")
    operation_length = uint(11, "OperationLength", at="0[5]", unit="words of 4 bytes")
    directed_route = uint(1, "DirectedRoute", at="2")
    status = enum(7, STATUS, "RegisterStatus", at="2[1]", base="hex")
    register_id = enum(16, REGISTERS, "RegisterID", at="..4", base="hex")
    response = uint(1, "Response", at="6")
    method = enum(7, METHODS, "RegisterMethod", at="6[1]")
    register_class = uint(8, "RegisterClass", at="7")
    transaction = uint(64, "RegisterTransaction", at="8", base="hex")
    register = enum(5, TLVS, "RegisterTLV", at="16")
    register_length = uint(11, "RegisterLength", at="16[5]", unit="words of 4 bytes")
    reserved2 = pad(16, at="18")


class SMPAccessRegister(Struct):
    """Reads or writes a register of up to 44 bytes by SMP."""

    key, section, size, title = "mlnxregister", "mstflint mtcr_ib_ofed.c mib_acces_reg_mad", 64, "AccessRegister"
    carried_by = smp(ACCESS_REGISTER)
    headers = nested(RegisterHeaders, "Headers", at="0")
    register_data = raw(44, "RegisterData", at="20")


class KeyedAccessRegister(Struct):
    """Reads or writes a register of up to 204 bytes by a MAD of class 0x0A."""

    key, section, size, title = "mlnxregister", "mstflint mtcr_ib_ofed.c cls_a_query_via", 232, "AccessRegister"
    carried_by = (Mad(CLASS, ACCESS_REGISTER),)
    v_key = secret(64, "V_Key", at="0")
    headers = nested(RegisterHeaders, "Headers", at="8")
    register_data = raw(204, "RegisterData", at="28")


class SMPConfigSpaceAccess(Struct):
    """Reads or writes up to 14 words of a device's configuration space by SMP; the address is in the attribute modifier.

    Bits 23:22 of the modifier are the mode: in mode 2 the words are records of address, word and mask, as in class 0x0A.
    """

    key, section, size, title = "mlnxconfigspaceaccess", "mstflint mtcr_ib_ofed.c ibvsmad_craccess_rw_smp", 64, "ConfigSpaceAccess"
    carried_by = smp(0xFF50)
    m_key = secret(64, "M_Key", at="0")
    words = raw(56, "Words", at="8")
