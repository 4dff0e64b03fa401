"""The linter for a capture: its rules, and a part for each subnet if there are several."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from ibdissect.decode.networks import Networks
from ibdissect.decode.reassembled import JoinedRecords
from ibdissect.decode.services import Services
from ibdissect.failures import Failures
from ibdissect.lint.finding import Finding
from ibdissect.lint.findings_from_hits import OnOccurrence
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import Rule, family
from ibdissect.lint.sequence import is_stateless
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.separate_subnets import SubnetMap

from .check_options import CheckOptions
from .reading import Reading


def linter_of(
    options: CheckOptions, reading: Reading, failures: Failures, *, on_finding: Callable[[Finding], None],
    on_occurrence: OnOccurrence | None = None,
) -> Linter:  # fmt: skip
    """The linter for a capture with the given options; with one part for each subnet, if the options tell several apart."""

    def make_linter(rules: Iterable[type[Rule]], causes: Sequence[type[Rule]] = ()) -> Linter:
        linter = Linter(
            rules, max_findings=options.max_findings, timing=options.timing, on_finding=on_finding, on_occurrence=on_occurrence,
            failures=failures, causes=causes,
        )  # fmt: skip
        for rule in linter.rules if options.settings else ():
            vars(rule).update(options.settings.get(rule.code, {}))
        linter.context.sources.update({Services: reading.services, Networks: reading.networks, SubnetMap: options.division})
        linter.context.sources[JoinedRecords] = reading.joined_messages
        linter.context.states = (*linter.context.states, reading.services.kept)
        if options.policy is not None:
            linter.context.sources[type(options.policy)] = options.policy
        return linter

    rules, subnets = options.rules_for(reading.path), options.division.subnets
    if not subnets:
        linter = make_linter(rules, options.causes)
        if any(family(rule.code) != "CAP" for rule in rules):
            linter.follow(FabricFollower)  # whichever rules are selected, it notices that subnets are mixed
    else:
        linter = make_linter([rule for rule in rules if family(rule.code) == "CAP"])
        others = [rule for rule in rules if family(rule.code) != "CAP"]
        stateless, causes = ([rule for rule in some if is_stateless(rule)] for some in (others, options.causes))
        linter.parts = {0: make_linter(stateless, causes), **{number: make_linter(others, options.causes) for number in subnets}}
    if options.subnet is not None:
        from ibdissect.subnet.files import learn

        known = linter.parts.get(1, linter)
        known.know(options.subnet.known)
        learn(known.context.get(FabricFollower).subnet, options.subnet.files)
    return linter


def listed_ports(options: CheckOptions) -> Collection[int]:
    """GUIDs of the ports that files list."""
    return options.subnet.ports if options.subnet is not None else ()


def is_mixed(linter: Linter) -> bool:
    """Whether the packets so far are those of two subnets."""
    return getattr(linter.context.sources.get(FabricFollower), "unreliable", False)
