"""Earlier names of modules and rules. Modules are found by theirs with a DeprecationWarning."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

NAMES = {
    "ibdissect.fabric": "ibdissect.subnet",
    "ibdissect.flow": "ibdissect.transport",
    "ibdissect.table": "ibdissect.decode",
}
"""Folders that docs/plugins.md and its pages told plugins to import from; a module in one of them has kept its own name."""

RULES = {
    "guidinfo-block": "guidinfo-block-range", "vlarb-selector": "vlarb-selects-nothing", "sminfo-set-control": "sminfo-set-no-change",
    "dm-slot": "dm-slot-range", "cc-switchport-block": "cc-switchport-block-range", "bth-tver": "bth-version-not-0",
    "mcast-dlid-dqp": "mcast-dlid-to-one-qp", "erf-lctr": "erf-packets-lost", "interface-direction": "interfaces-mixed",
    "erf-type": "erf-type-unknown", "cc-class-version": "cc-class-version-wrong", "cn-settings": "congestion-ignored",
    "cm-sequence": "cm-wrong-side", "cm-response-timeout": "cm-rep-late", "cm-mtu": "cm-mtu-exceeded",
    "cm-localack-timeout": "req-no-ack-timeout", "req-path-values": "req-path-impossible", "grh-ipver": "grh-version-not-6",
    "grh-nxthdr": "grh-no-transport-header", "grh-paylen": "grh-length-wrong", "mgid-signature-linklocal": "mgid-create-refused",
    "grh-unicast-loopback-gid": "sgid-prefix-wrong", "lrh-version": "lrh-version-not-0", "base-version": "base-version-unknown",
    "class-version": "class-version-unknown", "method-response-attr-mod": "answer-other-attribute", "opa-baseversion": "opa-seen",
    "pm-method": "pm-method-undefined", "qp1-qkey-value": "qp1-qkey-wrong", "qp0-srcqp": "smp-other-qp",
    "atomic-length": "atomic-with-payload", "roce-srcport-entropy": "roce-srcport-same", "roce-cnp-dqp": "roce-cnp-malformed",
    "roce-ud-qkey": "roce-qp1-qkey-wrong", "roce-pkey": "roce-pkey-nondefault", "roce-frag": "roce-fragmented",
    "rocev1-ethertype": "roce-v1-seen", "roce-source-address": "roce-source-address-impossible",
    "roce-source-mac": "roce-source-mac-impossible", "get-multiple-records": "sa-request-refused",
    "sa-attr-offset": "sa-attr-offset-wrong", "sa-status-vs-class": "sa-status-undefined", "path-hoplimit": "path-hoplimit-above-1",
    "service-lease": "service-lease-zero", "servicerecord-pkey": "service-outside-partition", "sm-redirect": "sa-redirect",
    "path-record-codes": "path-record-codes-impossible", "linkspeedext-enabled": "linkspeedext-enabled-wrong",
    "portstate-transition": "portstate-active-unarmed", "nodeinfo-version": "nodeinfo-version-not-1", "mcastfdbtop": "mcastfdbtop-range",
    "linearfdbtop": "linearfdbtop-range", "fdb-exclusive": "fdb-both-or-none",
    "linkspeedext2-enabled": "linkspeedext2-enabled-not-supported", "nodedescription-read-only": "nodedescription-not-settable",
    "sminfo-guid": "sminfo-guid-wrong", "smp-length": "smp-not-256-bytes", "dr-initialpath0": "dr-initialpath0-nonzero",
    "dr-lid-segment-lrh": "dr-sent-to-lid", "trap-dlid-mastersmlid": "trap-not-to-master",
    "getresp-lid-swap": "response-lids-not-swapped", "response-destqp0": "response-not-to-qp0",
    "sm-trap-repress-no-response": "trap-repress-answered", "sm-trap-repress-tid": "trap-repress-other-tid",
    "trap-retransmit-rate": "trap-repeated-early", "trap-issuerlid": "trap-issuer-wrong", "trap-producertype": "trap-producer-unknown",
    "trap128-lid": "trap128-not-a-switch", "trap129-port": "trap129-port-range", "trap144-flags": "trap144-without-change",
    "trap256-drpath": "trap256-cut-path-unmarked", "trap144-lid": "trap144-foreign-lid", "rmpp-payloadlength": "rmpp-length-wrong",
    "rmpp-abort-code": "rmpp-aborted", "rmpp-stop": "rmpp-stopped",
}  # fmt: skip
"""Earlier names of rules, which did not say what is wrong; options, configurations and filters take both."""


def rule_name(name: str) -> str:
    """The present name of a rule."""
    return RULES.get(name, name)


class Moved:
    """Finds modules by their earlier names, before Python looks for files."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module that has moved; None for all others."""
        if self.now(name) is None:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)  # type: ignore[arg-type] # a loader by its methods: importlib.abc takes long to import

    @staticmethod
    def now(name: str) -> str | None:
        """The new name of a module; None if it has not moved."""
        room = ".".join(name.split(".", 2)[:2])
        return NAMES[room] + name.removeprefix(room) if room in NAMES else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """None: Python makes an empty module, which `exec_module` replaces."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in place of an empty one."""
        import importlib
        import warnings

        new = self.now(module.__name__)
        assert new is not None
        warnings.warn(f"{module.__name__} is {new} now", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(new)


def follow_moves() -> None:
    """Let imports of earlier names find the modules."""
    if not any(isinstance(finder, Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, Moved())
