"""Management keys in one packet: exposed, contradictory, unusual."""

from __future__ import annotations

from typing import Any, ClassVar

from ibdissect.lint.rule import INFO, WARNING, FaultDetails, Rule
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.attribute_rule import WRITTEN, AttributeRule
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT, READ
from ibdissect.rules.shared.site_forbids import also, foreign_keys_held
from ibdissect.subnet.attribute_smps import AttributeSmp
from ibdissect.subnet.nodes import NOBODY
from ibdissect.wire.sm import SMInfo
from ibdissect.wire.sm_port import PortInfo


class MKeyVisible(Rule):
    """An M_Key can be read in the capture.

    Whoever has the M_Key controls the ports that it protects: LIDs, partitions, link state. The capture is now as secret as the key.
    Protect bits 1 and 2 exist to keep it off the wire.

    Share the capture only after `ibdissect scrub`; change the key if the capture has already left your organisation.
    """

    code, name, severity = "MKY005", "mkey-plaintext", INFO
    reference = "opensm man page (m_key)"
    when = (PortInfo.m_key != 0) & HAS_CONTENT
    flow = (PortInfo.m_key,)
    message = "{m_key} of the port with LID {lid} is in the capture"
    example = "SubnSet(PortInfo) with an M_Key"


class MKeyProtect3(Rule):
    """A port's M_KeyProtectBits are 3.

    Level 3 protects exactly as level 2 does; whoever chose it may have expected more.

    Set level 2, which says the same without ambiguity.
    """

    code, name, severity = "MKY006", "mkey-protect-3", INFO
    reference = "opensm man page (m_key_protection_level)"
    when = (PortInfo.m_key_protect_bits == 3) & (PortInfo.is_m_key_protect_bits_ext_supported == 0) & HAS_CONTENT
    flow = (PortInfo.lid,)
    message = "M_KeyProtectBits of the port with LID {lid} are 3, which is the same as 2"
    example = "SubnSet(PortInfo) with M_KeyProtectBits 3"


class ProtectionWithoutKey(AttributeRule):
    """A Set of PortInfo asks for protection by an M_Key but sets none.

    An M_Key of 0 switches the check off: the port stays open to everybody, whatever the protect bits say.

    Set m_key in the configuration of the subnet manager, or the protection level to 0.

    One Set is enough, unless it repeats what the port showed: its key may be hidden. External ports of switches have no key of their own:
    a Set of one is not judged, nor is one without a LID to a node whose NodeInfo was not seen. With a site policy that names M_Keys, every
    Set that removes a port's key is reported.
    """

    code, name, severity = "MKY007", "mkey-zero-with-protection", WARNING
    reference = "IBA 14.2.4.1; opensm man page (M_Key 0 disables)"
    message = "M_KeyProtectBits {m_key_protect_bits} with M_Key 0: {port} is not protected"
    example = "SubnSet(PortInfo) with M_Key 0 and M_KeyProtectBits 2"
    at = PortInfo.m_key_protect_bits
    says: ClassVar = {"m_key_protect_bits": PortInfo.m_key_protect_bits}
    when = WRITTEN & (PortInfo.m_key == 0) & (at != 0) & ~((previous(at) == at) & (previous(PortInfo.m_key) == 0))

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        return {} if smp.node is not NOBODY else {"port": f"the port with LID {smp.now(PortInfo.lid)}"}, ()

    def flow_of(self, smp: AttributeSmp) -> Any:
        return smp.now(PortInfo.lid), smp.now(PortInfo.m_key_protect_bits)

    site = also(foreign_keys_held, zero=True)


class SMKeyRevealed(Rule):
    """A subnet manager reveals its SM_Key in an answer.

    The key authenticates managers to each other and trusted clients to the SA. It should be 0 unless the requester proved that it knows it.

    Check that the requester is one of your own managers; treat the capture as secret.
    """

    code, name, severity = "MKY014", "sm-key-in-smp-unexpected", INFO
    reference = "IBA 14.2.5.13"
    when = (SMInfo.sm_key != 0) & READ
    flow = (SMInfo.guid, SMInfo.sm_key)
    message = "SM 0x{guid:016x} reveals its key, {sm_key}"
    example = "SubnGetResp(SMInfo) with SM_Key 1"
