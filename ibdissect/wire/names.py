"""Names of enumerated values that several structures share."""

from __future__ import annotations

from collections.abc import Mapping

NODE_TYPE: Mapping[int, str] = {1: "Channel Adapter", 2: "Switch", 3: "Router"}
"""NodeInfo.NodeType, and the producer types 1-3 of a generic notice (IBA 14.2.5.3)."""

PORT_STATE: Mapping[int, str] = {0: "No change", 1: "Down", 2: "Initialize", 3: "Armed", 4: "Active", 5: "ActiveDefer"}
"""PortInfo.PortState; 0 is valid in a Set only, 5 is from opensm only."""

PORT_PHYSICAL_STATE: Mapping[int, str] = {
    0: "No change", 1: "Sleep", 2: "Polling", 3: "Disabled", 4: "PortConfigurationTraining", 5: "LinkUp",
    6: "LinkErrorRecovery", 7: "Phy Test",
}  # fmt: skip
"""PortInfo.PortPhysicalState; only 0-3 may be written."""

LINK_DOWN_DEFAULT_STATE: Mapping[int, str] = {0: "No change", 1: "Sleep", 2: "Polling"}
"""PortInfo.LinkDownDefaultState."""

M_KEY_PROTECT: Mapping[int, str] = {
    0: "Get allowed, M_Key readable", 1: "Get allowed, M_Key hidden", 2: "Get needs M_Key", 3: "Get needs M_Key",
}  # fmt: skip
"""PortInfo.M_KeyProtectBits: what a requester without the key may do."""

MTU: Mapping[int, str] = {1: "256", 2: "512", 3: "1024", 4: "2048", 5: "4096"}
"""MTU codes of PortInfo, PathRecord, MCMemberRecord and CM, in bytes."""

VL_CAP: Mapping[int, str] = {1: "VL0", 2: "VL0-VL1", 3: "VL0-VL3", 4: "VL0-VL7", 5: "VL0-VL14"}
"""PortInfo.VLCap and OperationalVLs; OperationalVLs 0 in a Set means no change."""

LINK_WIDTH: Mapping[int, str] = {1: "1x", 2: "4x", 4: "8x", 8: "12x", 16: "2x"}
"""One bit of LinkWidthSupported, -Enabled and -Active (2x: opensm)."""

LINK_SPEED: Mapping[int, str] = {1: "2.5 Gb/s (SDR)", 2: "5 Gb/s (DDR)", 4: "10 Gb/s (QDR)"}
"""One bit of LinkSpeedSupported, -Enabled and -Active."""

LINK_SPEED_EXT: Mapping[int, str] = {1: "14.0625 Gb/s (FDR)", 2: "25.78125 Gb/s (EDR)", 4: "53.125 Gb/s (HDR)", 8: "106.25 Gb/s (NDR)"}
"""One bit of the LinkSpeedExt fields (opensm, libibmad)."""

LINK_SPEED_EXT2: Mapping[int, str] = {1: "212.5 Gb/s (XDR)"}
"""One bit of the LinkSpeedExt...2 fields (libibmad, trex-core ib_types.h)."""

SM_STATE: Mapping[int, str] = {0: "NotActive", 1: "Discovering", 2: "Standby", 3: "Master"}
"""SMInfo.SMState (IBA 14.2.5.13)."""

SM_CONTROL: Mapping[int, str] = {1: "HANDOVER", 2: "ACKNOWLEDGE", 3: "DISABLE", 4: "STANDBY", 5: "DISCOVER"}
"""Attribute modifier of Set(SMInfo)."""

DIAG_UNIVERSAL: Mapping[int, str] = {0: "Ready", 1: "Performing self test", 2: "Initializing", 3: "Soft error", 4: "Hard error"}
"""Bits 3:0 of PortInfo.DiagCode."""

MEMBERSHIP: Mapping[int, str] = {0: "Limited", 1: "Full"}
"""Most significant bit of a P_Key."""

NOTICE_TYPE: Mapping[int, str] = {0: "Fatal", 1: "Urgent", 2: "Security", 3: "Subnet Management", 4: "Informational", 0x7F: "Empty"}
"""Notice.Type."""

PRODUCER_TYPE: Mapping[int, str] = {1: "Channel Adapter", 2: "Switch", 3: "Router", 4: "Class Manager", 0xFFFFFF: "All"}
"""Producer of a generic notice; 0xFFFFFF in an InformInfo subscribes to all."""

TRAP_NUMBER: Mapping[int, str] = {
    64: "GID in service", 65: "GID out of service", 66: "Multicast group created", 67: "Multicast group deleted",
    68: "Path invalid", 69: "Path changed", 128: "Link state of a switch port changed", 129: "Local link integrity threshold reached",
    130: "Excessive buffer overrun threshold reached", 131: "Flow control update watchdog timer expired",
    144: "Local change", 145: "SystemImageGUID changed", 256: "Bad M_Key", 257: "Bad P_Key", 258: "Bad Q_Key",
    259: "Bad P_Key at switch external port", 0xFFFF: "All",
}  # fmt: skip
"""Trap numbers of the subnet management class (opensm)."""

OTHER_TRAP_NUMBER: Mapping[int, str] = {0: "Bad CC_Key", 259: "Bad B_Key"}
"""Trap numbers of congestion control (0) and baseboard management (259)."""

FEC_MODE: Mapping[int, str] = {0: "No FEC", 1: "Firecode FEC", 2: "RS-FEC", 3: "Low latency RS-FEC"}
"""PortInfoExtended.FECModeActive (opensm)."""
