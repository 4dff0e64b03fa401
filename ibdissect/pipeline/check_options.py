"""`CheckOptions`: the options of a check, which also reach worker processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct as Record
from msgspec import field

from ibdissect.lint.finding import Severity
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY, Rule
from ibdissect.lint.site_severities import severity_at_site
from ibdissect.rules import load
from ibdissect.subnet.separate_subnets import SubnetMap
from ibdissect.wire.catalog import Catalog, builtin

from .reading import Selection

if TYPE_CHECKING:
    from ibdissect.lint.path_ignores import PathIgnores
    from ibdissect.lint.point_faults import PointFaults
    from ibdissect.lint.site_policy import SitePolicy
    from ibdissect.subnet.files import SubnetFiles

Stop = Callable[[], bool]
"""Called after every window; True ends the check and keeps the findings so far."""


class CheckOptions(Record, kw_only=True, dict=True):
    """The options of a check. They are pickled as names; worker processes import rules and plugins themselves.

    ConfigError if a user's rule compares keys that are hidden.
    """

    rules: list[type[Rule]]
    causes: list[type[Rule]] = field(default_factory=list)
    """Rules that run beside them and report nothing: they explain what these find (`lint.rule_selection.causes_of`)."""
    plugins: tuple[str, ...] = ()
    """Names of the plugins that contributed to `rules` and `catalog`."""
    catalog: Catalog | None = None
    roce_ports: tuple[int, ...] = ()
    """UDP ports of RoCE v2 in `catalog`, beside the usual one."""
    declared: tuple[tuple[dict[str, Any], ...], str] = (), ""
    """Those `rules` that a configuration file declares, and its name; every worker process makes them again."""
    max_findings: int | None = 100
    show_keys: bool = False
    timing: bool = False
    max_unpacked: int | None = None
    """Most bytes that a compressed capture may unpack to; None: `Unpacking.usual`."""
    threads: int = 1
    """If more than one, a second thread reads ahead."""
    selection: Selection | None = None
    """Which frames are reported; None: all."""
    severities: dict[str, Severity] = field(default_factory=dict)
    """By rule code, where they differ from the rule's own."""
    policy: SitePolicy | PointFaults | None = None
    """What the site allows, or what captures of other points say of this one's packets; None: neither."""
    division: SubnetMap = SubnetMap()
    """Which addresses belong to which subnet, if captures may hold packets of several."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Values of rule settings, by code and attribute (`lint.setting`)."""
    subnet: SubnetFiles | None = None
    """What files say about the subnet; None: no files."""
    names: bool = True
    """Whether messages name nodes by their NodeDescription, as far as capture and files show it; False: LIDs and GUIDs only."""
    ignored: PathIgnores | None = None
    """Which rules do not check captures at certain paths."""

    def __post_init__(self) -> None:
        for rule in (*self.rules, *self.causes):
            rule.use_keys(self.show_keys)

    def __reduce__(self) -> tuple[Any, ...]:
        rest = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("rules", "causes", "catalog")}
        return _options, ([rule.code for rule in self.rules], [rule.code for rule in self.causes], rest)

    @cached_property
    def by_code(self) -> dict[str, type[Rule]]:
        """All rules by code."""
        return {rule.code: rule for rule in self.rules}

    def rules_for(self, path: str) -> list[type[Rule]]:
        return self.rules if self.ignored is None else self.ignored.rules_for(path, self.rules)

    def severity_of(self, rule: Rule | type[Rule], own: Severity | None = None) -> Severity:
        """The severity of a rule's findings (`lint.site_severities`); `own` is that which it gave to one finding."""
        return severity_at_site(rule, own, self.severities)

    def totals(self, linter: Linter) -> Counter[Severity]:
        """Exact number of findings so far, by severity."""
        totals, rules = Counter[Severity](), self.by_code
        for code, tally in ((code, tally) for code, tally in linter.tally.items() if code in rules):
            totals[self.severity_of(rules[code])] += tally.count - tally.lowered.total()
            for own, count in tally.lowered.items():
                totals[self.severity_of(rules[code], own)] += count
        return totals


def _options(codes: list[str], causes: list[str], rest: dict[str, Any]) -> CheckOptions:
    """Rebuild the options in a worker process."""
    from ibdissect.plugins import load as load_plugins

    load()
    catalog = load_plugins(rest["plugins"]).catalog if rest["plugins"] else None
    if rest["roce_ports"]:
        catalog = (catalog or builtin()).with_roce(rest["roce_ports"])
    tables, where = rest["declared"]
    if tables:
        from ibdissect.lint.toml_rules import rules_of

        rules_of(tables, where, catalog)
    rules, beside = ([REGISTRY[code] for code in some] for some in (codes, causes))
    return CheckOptions(rules=rules, causes=beside, catalog=catalog, **rest)
