"""Attributes with a name but no open layout, or no data. Data stay bytes, behind the header and the masked key of their class.

Names and ids as in the ibis_types.h that trex-core carries (NVIDIA, 2021-2025, OpenIB.org BSD licence). Its attributes of class 0x09
are left out: other products use that class, too. Device management's three (opensm ib_types.h) have no data. Those of subnet administration
and connection management: libibumad umad_sa.h, umad_cm.h.
"""

from __future__ import annotations

from collections.abc import Mapping

from .numbers import CC_CLASS, CM_CLASS, DM_CLASS, LID_ROUTED, PM_CLASS, SA_CLASS
from .vendor_mlnx import CLASS

SHARP_CLASS = 0x0B
UNDECODED: Mapping[tuple[int, int], str] = {
    (LID_ROUTED, 0xFF1A): "MulticastPrivateLFTInfo", (LID_ROUTED, 0xFF1B): "MulticastPrivateLFTDef",
    (LID_ROUTED, 0xFF1C): "MulticastPrivateLFTMap", (LID_ROUTED, 0xFF22): "ARLinearForwardingTable (before SX)",
    (LID_ROUTED, 0xFF8B): "EntryPlaneFilterConfig", (LID_ROUTED, 0xFF93): "NVLinkFECMode",
    (SA_CLASS, 0x3C): "HierarchyInfoRecord", (SA_CLASS, 0x3D): "CableInfoRecord",
    (CM_CLASS, 0x1B): "SuggestAlternatePath", (CM_CLASS, 0x1C): "SuggestPathResponse",
    (DM_CLASS, 0x21): "PrepareToTest", (DM_CLASS, 0x22): "TestDeviceOnce", (DM_CLASS, 0x23): "TestDeviceLoop",
    (PM_CLASS, 0x38): "PortXmitDataSLExt", (PM_CLASS, 0x39): "PortRcvDataSLExt",
    (CLASS, 0x18): "MirroringInfo", (CLASS, 0x1A): "MirroringAgent", (CLASS, 0x1C): "MirroringGlobalTrigger",
    (CLASS, 0x1D): "CongestionMirroring", (CLASS, 0x53): "SwitchNetworkInfo", (CLASS, 0x60): "PortRcvDataVL",
    (CLASS, 0x61): "PortXmitDataVL", (CLASS, 0x62): "PortRcvPktVL", (CLASS, 0x63): "PortXmitPktVL", (CLASS, 0x68): "PortLLRStatistics",
    (CLASS, 0x73): "PortRcvDataVLExt", (CLASS, 0x74): "PortXmitDataVLExt", (CLASS, 0x75): "PortRcvPktVLExt",
    (CLASS, 0x76): "PortXmitPktVLExt", (CLASS, 0x77): "PortXmitWaitVLExt", (CLASS, 0x78): "DiagnosticCounters",
    (CLASS, 0x7A): "PortRoutingDecisionCounters", (CLASS, 0x7B): "CreditWatchdogTimeoutCounters", (CLASS, 0x7C): "FastRecoveryCounters",
    (CLASS, 0x7E): "PortVLXmitTimeCongExt", (CLASS, 0x7F): "PortGeneralCounters", (CLASS, 0x80): "PortRecoveryPolicyCounters",
    (CLASS, 0x82): "PortRNCounters", (CLASS, 0xB5): "PerformanceHistogramInfo", (CLASS, 0xB6): "PerformanceHistogramBufferControl",
    (CLASS, 0xB7): "PerformanceHistogramBufferData", (CLASS, 0xB8): "PerformanceHistogramPortsControl",
    (CLASS, 0xB9): "PerformanceHistogramPortsData",
    (SHARP_CLASS, 0x10): "AMKeyInfo", (SHARP_CLASS, 0x20): "ANInfo", (SHARP_CLASS, 0x21): "QPAllocation", (SHARP_CLASS, 0x22): "QPCConfig",
    (SHARP_CLASS, 0x23): "TreeConfig", (SHARP_CLASS, 0x24): "QuotaConfig", (SHARP_CLASS, 0x25): "ANSemaphoreInfo",
    (SHARP_CLASS, 0x26): "ANSATQPInfo", (SHARP_CLASS, 0x40): "ResourceCleanup", (SHARP_CLASS, 0x50): "PerformanceCounters",
    (SHARP_CLASS, 0x56): "QPDatabase", (SHARP_CLASS, 0x59): "ANActiveJobs", (SHARP_CLASS, 0x5F): "PortCreditResourcesAllocation",
    (SHARP_CLASS, 0x60): "TreeToJobBind", (SHARP_CLASS, 0x62): "MulticastPrivateLFT",
    (CC_CLASS, 0xFF23): "CCHCAStatisticsQuery", (CC_CLASS, 0xFF26): "CCHCAAlgorithmCounters",
}  # fmt: skip
"""(class, attribute) -> name; directed route SMPs have the names of LID routed ones."""
