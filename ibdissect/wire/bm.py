"""What do baseboard management MADs (class 0x05) contain?

Only section 16.2 of the standard has the layouts of the commands; no public source repeats them, so their data is shown as
raw bytes.
"""

from __future__ import annotations

from .convert import lease_text
from .places import Mad, MadFormat
from .spec import Struct, flag, hole, pad, raw, secret, uint

SENDS = frozenset({0x03})
"""Commands are sent as BMSend; bit 0 of the attribute modifier marks the response (kernel ib_mad.h)."""

SECTION = "attribute id: libibmad mad.h"


class BaseboardMgtFormat(Struct):
    """The format of every baseboard management MAD: B_Key, 32 reserved bytes, then 192 for the attribute."""

    key, section, size = "bm", "IBA 16.2.1; libibmad bm.c", 256
    carried_by = (MadFormat(0x05),)
    header = hole(24, "MAD header", at="0")
    b_key = secret(64, "B_Key", at="24")
    reserved_256 = pad(256, at="32")
    data = hole(192, "BM Data", at="64")


class BKeyInfo(Struct):
    """The key that protects a node's baseboard, how strictly, for how long.

    No public source has the layout; this is that of CongestionKeyInfo (A10.4.3.4), which the standard modelled on it.
    """

    key, section, size = "bkeyinfo", "attribute id: libibmad; layout by analogy with IBA A10.4.3.4", 14
    carried_by = (Mad(0x05, 0x0010),)
    b_key = secret(64, "B_Key", at="0")
    b_key_protect_bit = flag("B_KeyProtectBit", at="8")
    reserved_65 = pad(15, at="8[1]")
    b_key_lease_period = uint(16, "B_KeyLeasePeriod", at="10", show=lease_text)
    b_key_violations = uint(16, "B_KeyViolations", at="12")


class WriteVPD(Struct):
    """Writes vital product data."""

    key, section, size = "writevpd", SECTION, 192
    carried_by = (Mad(0x05, 0x0020, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class ReadVPD(Struct):
    """Reads vital product data."""

    key, section, size = "readvpd", SECTION, 192
    carried_by = (Mad(0x05, 0x0021, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class ResetIBML(Struct):
    """Resets an InfiniBand management link."""

    key, section, size = "resetibml", SECTION, 192
    carried_by = (Mad(0x05, 0x0022, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class SetModulePMControl(Struct):
    """Sets the power management of a module."""

    key, section, size = "setmodulepmcontrol", SECTION, 192
    carried_by = (Mad(0x05, 0x0023, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class GetModulePMControl(Struct):
    """Asks for the power management of a module."""

    key, section, size = "getmodulepmcontrol", SECTION, 192
    carried_by = (Mad(0x05, 0x0024, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class SetUnitPMControl(Struct):
    """Sets the power management of a unit."""

    key, section, size = "setunitpmcontrol", SECTION, 192
    carried_by = (Mad(0x05, 0x0025, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class GetUnitPMControl(Struct):
    """Asks for the power management of a unit."""

    key, section, size = "getunitpmcontrol", SECTION, 192
    carried_by = (Mad(0x05, 0x0026, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class SetIOCPMControl(Struct):
    """Sets the power management of an I/O controller."""

    key, section, size = "setiocpmcontrol", SECTION, 192
    carried_by = (Mad(0x05, 0x0027, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class GetIOCPMControl(Struct):
    """Asks for the power management of an I/O controller."""

    key, section, size = "getiocpmcontrol", SECTION, 192
    carried_by = (Mad(0x05, 0x0028, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class SetModuleState(Struct):
    """Sets the state of a module."""

    key, section, size = "setmodulestate", SECTION, 192
    carried_by = (Mad(0x05, 0x0029, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class SetModuleAttention(Struct):
    """Sets a module's attention indicator."""

    key, section, size = "setmoduleattention", SECTION, 192
    carried_by = (Mad(0x05, 0x002A, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class GetModuleStatus(Struct):
    """Asks for the status of a module."""

    key, section, size = "getmodulestatus", SECTION, 192
    carried_by = (Mad(0x05, 0x002B, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class IB2IBML(Struct):
    """Forwards a command to a baseboard management link."""

    key, section, size = "ib2ibml", SECTION, 192
    carried_by = (Mad(0x05, 0x002C, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class IB2CME(Struct):
    """Forwards a command to the chassis management entity."""

    key, section, size = "ib2cme", SECTION, 192
    carried_by = (Mad(0x05, 0x002D, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class IB2MME(Struct):
    """Forwards a command to a module management entity."""

    key, section, size = "ib2mme", SECTION, 192
    carried_by = (Mad(0x05, 0x002E, SENDS),)
    command_data = raw(192, "CommandData", at="0")


class OEM(Struct):
    """A command that the manufacturer defines."""

    key, section, size = "oem", SECTION, 192
    carried_by = (Mad(0x05, 0x002F, SENDS),)
    command_data = raw(192, "CommandData", at="0")
