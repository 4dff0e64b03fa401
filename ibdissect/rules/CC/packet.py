"""Which congestion control MADs are wrong by themselves?"""

from __future__ import annotations

from ibdissect.lint.rule import ERROR, Rule
from ibdissect.wire.mad import CLASS_VERSION, MAD
from ibdissect.wire.numbers import CC_CLASS


class CCVersion(Rule):
    """A congestion control MAD has a class version other than 2.

    Version 2 is the one in use; agents answer others with status 1 (bad version), and the switch keeps its old settings.

    Update the tool: old versions of libibmad sent version 1.
    """

    code, name, severity = "CC002", "cc-class-version", ERROR
    reference = "IBA A10.4.1; opensm"
    when = (MAD.mgmt_class == CC_CLASS) & (MAD.class_version != CLASS_VERSION[CC_CLASS]) & (MAD.base_version == 1)
    at = MAD.class_version
    message = "class version {class_version}, congestion control has 2"
    example = "a CCGet(CongestionInfo) with ClassVersion 1"
