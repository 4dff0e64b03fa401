"""Baseboard management MADs (class 0x05).

Only section 16.2 of the standard has the layouts of the commands; no public source repeats them, so their data is shown as
raw bytes.
"""

from __future__ import annotations

from .convert import lease_text
from .places import Mad, MadFormat
from .spec import Struct, flag, hole, made, pad, raw, secret, uint

SENDS = frozenset({0x03})
"""Commands are sent as BMSend; bit 0 of the attribute modifier marks the response (kernel ib_mad.h)."""


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


def _command(number: int, name: str, about: str) -> type[Struct]:
    place = Mad(0x05, number, SENDS)
    data = raw(192, "CommandData", at="0")
    about_it = {"__module__": __name__, "__doc__": about, "key": name.lower(), "section": "attribute id: libibmad mad.h"}
    return made(name, {**about_it, "size": 192, "carried_by": place, "command_data": data})


WriteVPD = _command(0x0020, "WriteVPD", "Writes vital product data.")
ReadVPD = _command(0x0021, "ReadVPD", "Reads vital product data.")
ResetIBML = _command(0x0022, "ResetIBML", "Resets an InfiniBand management link.")
SetModulePMControl = _command(0x0023, "SetModulePMControl", "Sets the power management of a module.")
GetModulePMControl = _command(0x0024, "GetModulePMControl", "Asks for the power management of a module.")
SetUnitPMControl = _command(0x0025, "SetUnitPMControl", "Sets the power management of a unit.")
GetUnitPMControl = _command(0x0026, "GetUnitPMControl", "Asks for the power management of a unit.")
SetIOCPMControl = _command(0x0027, "SetIOCPMControl", "Sets the power management of an I/O controller.")
GetIOCPMControl = _command(0x0028, "GetIOCPMControl", "Asks for the power management of an I/O controller.")
SetModuleState = _command(0x0029, "SetModuleState", "Sets the state of a module.")
SetModuleAttention = _command(0x002A, "SetModuleAttention", "Sets a module's attention indicator.")
GetModuleStatus = _command(0x002B, "GetModuleStatus", "Asks for the status of a module.")
IB2IBML = _command(0x002C, "IB2IBML", "Forwards a command to a baseboard management link.")
IB2CME = _command(0x002D, "IB2CME", "Forwards a command to the chassis management entity.")
IB2MME = _command(0x002E, "IB2MME", "Forwards a command to a module management entity.")
OEM = _command(0x002F, "OEM", "A command that the manufacturer defines.")
