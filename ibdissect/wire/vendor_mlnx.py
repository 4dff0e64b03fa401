"""NVIDIA/Mellanox MADs of vendor class 0x0A, as far as open tools show.

Sources: infiniband-diags vendstat, python-rdma vend_mlx.xml, mstflint mtcr_ib_ofed.c. SwReset (0x0012) has its timer in the
attribute modifier and no data. SMPs of the vendor range (0xFFxx) are subnet management, not this class.
"""

from .places import Inside, Mad
from .spec import Struct, array, flag, hole, lid, nested, pad, raw, secret, text, uint

CLASS, NODE_TO_NODE = 0x0A, 0x0C

PLAIN_FIRMWARE_DEVICES = (range(0x5A00, 0x6800), range(0xB900, 0xC000))
"""PCI device ids of HCAs before ConnectX-3 and switches before SwitchX, whose GeneralInfo has only the short firmware version."""

EXTENDED_FIRMWARE_DEVICES = (range(0, 0x5A00), range(0x6800, 0xB900), range(0xC000, 0x10000))
"""All later and future devices also have the extended version (vendstat names 50 of them)."""


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
    carried_by = tuple(Inside(GeneralInfo.rest_info, ((GeneralInfo.device_id, ids),)) for ids in EXTENDED_FIRMWARE_DEVICES)
    ext_major = uint(32, "ExtMajor", at="0")
    ext_minor = uint(32, "ExtMinor", at="4")
    ext_sub_minor = uint(32, "ExtSubMinor", at="8")
    reserved_96 = pad(136, at="12")
    sw_major = uint(8, "SWMajor", at="29")
    sw_minor = uint(8, "SWMinor", at="30")
    sw_sub_minor = uint(8, "SWSubMinor", at="31")
    reserved_256 = pad(224, at="32")


class SoftwareInfo(Struct):
    """The software version of older devices, directly after the firmware's."""

    key, section, size = "mlnxgeneralinfo", "infiniband-diags vendstat; python-rdma MlxGeneralInfo", 32
    carried_by = tuple(Inside(GeneralInfo.rest_info, ((GeneralInfo.device_id, ids),)) for ids in PLAIN_FIRMWARE_DEVICES)
    reserved_0 = pad(8, at="0")
    sw_major = uint(8, "SWMajor", at="1")
    sw_minor = uint(8, "SWMinor", at="2")
    sw_sub_minor = uint(8, "SWSubMinor", at="3")
    reserved_32 = pad(224, at="4")


class ConfigSpaceRecord(Struct):
    """One word of a device's configuration space, and the mask of its valid bits."""

    key, section, size = "mlnxconfigspaceaccess", "infiniband-diags vendstat", 12
    address = uint(32, "Address", at="0", base="hex", holds="data")
    record_data = uint(32, "RecordData", at="4", base="hex", holds="data")
    mask = uint(32, "Mask", at="8", base="hex", holds="data")


class ConfigSpaceAccess(Struct):
    """Reads or writes a device's configuration space.

    Laid out for mode 2 (bits 23:22 of the attribute modifier), up to 18 records, their number in bits 21:16; in mode 0 the bytes after the
    key are consecutive words from an address in the attribute modifier (mstflint).
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


class VendorKeyInfo(Struct):
    """The key that protects a device's vendor MADs, and for how long."""

    key, section, size = "mlnxvendorkeyinfo", "trex-core ib_types.h ib_vend_key_info_t", 22
    carried_by = (Mad(CLASS, 0x000F),)
    mad_key = secret(64, "V_Key", "MADKey", at="0")
    v_key = secret(64, "V_Key", at="8")
    v_key_protect_bit = flag("V_KeyProtectBit", at="16")
    v_key_lease_period = uint(16, "V_KeyLeasePeriod", at="..18", unit="s")
    v_key_violations = uint(16, "V_KeyViolations", at="20")


class NodeKeyInfo(Struct):
    """The key of the manager of node-to-node MADs, and for how long."""

    key, section, size = "mlnxn2nkeyinfo", "trex-core ib_types.h ib_n2n_key_info_t", 24
    carried_by = (Mad(NODE_TO_NODE, 0x000F),)
    mad_key = secret(64, "N2N_Key", "MADKey", at="0")
    n2n_manager_key = secret(64, "N2N_Key", "N2NManagerKey", at="8")
    n2n_key_protect_bit = flag("N2NKeyProtectBit", at="16")
    n2n_key_lease_period = uint(16, "N2NKeyLeasePeriod", at="..18", unit="s")
    n2n_key_violations = uint(16, "N2NKeyViolations", at="20")
    node_key_violations = uint(16, "NodeKeyViolations", at="22")


class Neighbor(Struct):
    """A neighbour with which a node exchanges routing notifications, and the key for it."""

    key, section, size = "mlnxneighbors", "trex-core ib_types.h ib_neighbor_record_t", 16
    node_type = uint(3, "NodeType", at="0")
    lid = lid("LID", at="..2")
    n2n_key = secret(64, "N2N_Key", at="..8")


class NeighborsInfo(Struct):
    """14 neighbours of a node."""

    key, section, size = "mlnxneighbors", "trex-core ib_types.h ib_neighbors_info_t", 232
    carried_by = (Mad(NODE_TO_NODE, 0x0010),)
    mad_key = secret(64, "N2N_Key", "MADKey", at="0")
    neighbor = array(14, nested(Neighbor, "Neighbor", at="8"))
