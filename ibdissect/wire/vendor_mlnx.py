"""What do NVIDIA/Mellanox MADs of vendor class 0x0A contain, as far as open tools show?

Sources: infiniband-diags vendstat, python-rdma vend_mlx.xml, mstflint mtcr_ib_ofed.c. SwReset (0x0012) has its timer in the
attribute modifier and no data. SMPs of the vendor range (0xFFxx) are subnet management, not this class.
"""

from __future__ import annotations

from .places import Inside, Mad
from .spec import Struct, array, hole, nested, pad, raw, secret, text, uint

CLASS = 0x0A

EXTENDED_FIRMWARE_DEVICES = frozenset({
    0x0245, *range(0xC738, 0xC73C), 0xCB20, 0xCF08, 0xD2F0, 0x01B3, *range(0x1003, 0x101C), 0xA2D2, 0x1B02, 0x1B50, 0x1BA0,
    *range(0x1BD0, 0x1BD6), 0x1BF0, 0x1B33, 0x1B73, 0x1B40, 0x1B41, 0x1B60, 0x1B61, 0x1B83, 0x1B93, 0x1B94, 0x1BB4, 0x1BB5,
    0x1BC4, 0x1BC5, 0x1BC6,
})  # fmt: skip
"""Devices whose GeneralInfo has the extended firmware version (vendstat; SwitchX and ConnectX-3 onwards)."""

PLAIN_FIRMWARE_DEVICES = frozenset({0xB924})
"""Devices known to lack it (vendstat: InfiniScale III, 47396)."""


class GeneralInfo(Struct):
    """Hardware, firmware and software of a device; what follows the firmware depends on DeviceID."""

    key, section, size = "mlnxgeneralinfo", "infiniband-diags vendstat; python-rdma MlxGeneralInfo", 224
    carried_by = (Mad(CLASS, 0x0017),)
    v_key = secret(64, "V_Key", at="0")
    hw_revision = uint(16, "HWRevision", at="8", base="hex")
    device_id = uint(16, "DeviceID", at="10", base="hex")
    reserved_96 = pad(192, at="12")
    uptime = uint(32, "Uptime", at="36", unit="s")
    reserved_320 = pad(8, at="40")
    fw_major = uint(8, "FWMajor", at="41")
    fw_minor = uint(8, "FWMinor", at="42")
    fw_sub_minor = uint(8, "FWSubMinor", at="43")
    fw_build_id = uint(32, "FWBuildID", at="44", base="hex")
    fw_month = uint(8, "FWMonth", at="48", base="hex")
    fw_day = uint(8, "FWDay", at="49", base="hex")
    fw_year = uint(16, "FWYear", at="50", base="hex")
    reserved_416 = pad(16, at="52")
    fw_hour = uint(16, "FWHour", at="54", base="hex")
    fw_psid = text(16, "FWPSID", at="56")
    fw_ini_file_version = uint(32, "FWIniFileVersion", at="72")
    rest_info = hole(148, "General Info Rest", at="76")


class ExtendedFirmwareInfo(Struct):
    """The long firmware version, then the software version, of newer devices."""

    key, section, size = "mlnxgeneralinfo", "infiniband-diags vendstat", 60
    carried_by = (Inside(GeneralInfo.rest_info, ((GeneralInfo.device_id, EXTENDED_FIRMWARE_DEVICES),)),)
    ext_major = uint(32, "ExtMajor", at="0")
    ext_minor = uint(32, "ExtMinor", at="4")
    ext_sub_minor = uint(32, "ExtSubMinor", at="8")
    reserved_96 = pad(136, at="12")
    sw_major = uint(8, "SWMajor", at="29")
    sw_minor = uint(8, "SWMinor", at="30")
    sw_sub_minor = uint(8, "SWSubMinor", at="31")
    reserved_256 = pad(224, at="32")


class SoftwareInfo(Struct):
    """The software version of older devices, right behind the firmware's."""

    key, section, size = "mlnxgeneralinfo", "infiniband-diags vendstat; python-rdma MlxGeneralInfo", 32
    carried_by = (Inside(GeneralInfo.rest_info, ((GeneralInfo.device_id, PLAIN_FIRMWARE_DEVICES),)),)
    reserved_0 = pad(8, at="0")
    sw_major = uint(8, "SWMajor", at="1")
    sw_minor = uint(8, "SWMinor", at="2")
    sw_sub_minor = uint(8, "SWSubMinor", at="3")
    reserved_32 = pad(224, at="4")


class ConfigSpaceRecord(Struct):
    """One word of a device's configuration space, and the bits of it that count."""

    key, section, size = "mlnxconfigspaceaccess", "infiniband-diags vendstat", 12
    address = uint(32, "Address", at="0", base="hex", holds="data")
    record_data = uint(32, "RecordData", at="4", base="hex", holds="data")
    mask = uint(32, "Mask", at="8", base="hex", holds="data")


class ConfigSpaceAccess(Struct):
    """Reads or writes a device's configuration space.

    Laid out for mode 2 (bits 23:22 of the attribute modifier), up to 18 records, their number in bits 21:16; in mode 0 the
    bytes behind the key are consecutive words from an address in the attribute modifier (mstflint).
    """

    key, section, size = "mlnxconfigspaceaccess", "infiniband-diags vendstat; mstflint", 224
    carried_by = (Mad(CLASS, 0x0050),)
    v_key = secret(64, "V_Key", at="0")
    record = array(18, nested(ConfigSpaceRecord, "Record", at="8"))


class AccessRegister(Struct):
    """Reads or writes 220 bytes of a device register, whose id is the attribute modifier."""

    key, section, size = "mlnxaccessregister", "mstflint mtcr_ib_ofed.c", 232
    carried_by = (Mad(CLASS, 0x0051),)
    v_key = secret(64, "V_Key", at="0")
    block_number = uint(16, "BlockNumber", at="8")
    block_control = uint(16, "BlockControl", at="10", base="hex")
    register_data = raw(220, "RegisterData", at="12")


class CounterGroupInfo(Struct):
    """How many groups of counters a port has, and which of them each may hold."""

    key, section, size = "mlnxcountergroupinfo", "infiniband-diags vendstat", 20
    carried_by = (Mad(CLASS, 0x0090),)
    v_key = secret(64, "V_Key", at="0")
    reserved_64 = pad(24, at="8")
    num_of_counter_groups = uint(8, "NumOfCounterGroups", at="11")
    group_mask = array(2, uint(32, "GroupMask", at="12", base="hex"))


class CounterGroupSelect(Struct):
    """Which counters one group counts."""

    key, section, size = "mlnxconfigcountergroup", "infiniband-diags vendstat", 4
    reserved_0 = pad(24, at="0")
    group_select = uint(8, "GroupSelect", at="3")


class ConfigCounterGroup(Struct):
    """Chooses the counters of each group of a port."""

    key, section, size = "mlnxconfigcountergroup", "infiniband-diags vendstat", 20
    carried_by = (Mad(CLASS, 0x0091),)
    v_key = secret(64, "V_Key", at="0")
    reserved_64 = pad(32, at="8")
    group = array(2, nested(CounterGroupSelect, "Group", at="12"))
