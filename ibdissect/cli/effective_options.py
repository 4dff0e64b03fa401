"""A check's options, combined from configuration file and command line. For `lint`, `annotate`, `export` and pytest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ibdissect.errors import ConfigError
from ibdissect.lint.rule import Rule
from ibdissect.lint.rule_selection import causes_of, matches, nearest_rule, select, split_codes
from ibdissect.lint.site_severities import site_severities
from ibdissect.pipeline.check import CheckOptions
from ibdissect.report import Followed

from .common_options import CommonOptions, say
from .config import OPTION, Config

if TYPE_CHECKING:
    from .frame_selection import FrameSelection

select_option = click.option(
    "--select", "selected", multiple=True, metavar="CODES", help="Only these rules: codes, prefixes or names, comma-separated."
)
ignore_option = click.option("--ignore", "ignored", multiple=True, metavar="CODES", help="Not these rules.")
extend_select_option = click.option(
    "--extend-select", "more", multiple=True, metavar="CODES", help="These rules, too, beside those of --select or the configuration."
)
extend_ignore_option = click.option(
    "--extend-ignore", "more_ignored", multiple=True, metavar="CODES", help="The same as --ignore, which adds."
)
no_crc_option = click.option("--no-crc", is_flag=True, help="Do not check ICRC and VCRC; damaged packets then count like others.")


def followed(common: CommonOptions, **overruled: object) -> Followed | None:
    """The configuration that decided about findings or status; None if none did. `overruled`: what was given instead of its keys."""
    keys = common.settings.followed(*(name for name, given in overruled.items() if given))
    return Followed(common.settings.shown, keys) if keys else None


def say_followed(configuration: Followed | None, common: CommonOptions, named: bool) -> None:
    """Say on standard error whose rules were followed, if no report `named` it; with --quiet only of a file that nobody named."""
    given = (common.config,) if isinstance(common.config, str) else common.config or ()
    if configuration is not None and not named and not (common.quiet and common.settings.source in (OPTION, *given)):
        say(f"By {configuration.text}.")


def say_whose_rules(common: CommonOptions) -> None:
    """The same of a command that prints findings among other things: nothing fails it, and it hides none that are known."""
    say_followed(followed(common, fail_on=True, baseline=True), common, named=False)


def check_options(
    common: CommonOptions,
    *,
    selected: str | Iterable[str] = (),
    ignored: str | Iterable[str] = (),
    more: str | Iterable[str] = (),
    crc: bool = True,
    points: bool = False,
    **others: Any,
) -> CheckOptions:
    """The options of a check; `others` are fields of `CheckOptions`. `selected` replaces the file's selection; `more` and `ignored` add to
    it.

    `points`: only rules about several captures (the family PTS) run; otherwise all but these. Codes in the file that name no rule of the
    command are ignored. ConfigError, PluginError.
    """
    from ibdissect.rules import load

    config = common.settings
    catalog, plugin_rules = common.loaded()
    everything = [*load(), *plugin_rules]
    _known(config, everything)
    without = [*split_codes(ignored), *config.ignore]
    rules = _chosen(everything, config, split_codes(selected), split_codes(more), without, crc=crc, points=points)
    options = CheckOptions(
        rules=rules,
        causes=[] if points else causes_of(rules, everything, without, crc=crc),
        plugins=common.plugin_names,
        catalog=catalog,
        declared=(config.rule, config.source if config.rule else ""),
        show_keys=common.show_keys,
        max_unpacked=common.max_unpacked,
        roce_ports=common.roce_ports,
        severities=site_severities(config.severity, everything),
        subnet=common.subnet_files,
        names=common.name_ports is not False,
        **others,
    )
    if config.options:
        from ibdissect.lint.setting import checked_settings

        options.settings = checked_settings(config.options, {rule.code: rule for rule in everything}, config.source)
    if config.site is not None:
        from ibdissect.lint.site_policy import SitePolicy, subnets_of

        options.policy = SitePolicy.of(config.site, config.source)
        options.division = subnets_of(config.site, config.source)
    if config.per_path_ignores:
        from ibdissect.lint.path_ignores import PathIgnores

        options.ignored = PathIgnores(config.folder, config.per_path_ignores, config.source)
    return options


def checked_selection(common: CommonOptions, options: CheckOptions) -> FrameSelection | None:
    """The frames that -Y and --frames select for a check, which knows neither its own findings nor later answers yet. ConfigError."""
    selection = common.selection(options.catalog)
    only = selection.filter if selection is not None else None
    if only is not None and only.codes:
        raise ConfigError("-Y", "ibdissect.code", "needs the findings of this check itself", hint="choose rules with --select")
    if only is not None and only.ahead:
        raise ConfigError("-Y", only.text, "needs answers that come later", hint="use ibdissect.request_frame")
    return selection


def _chosen(
    rules: list[type[Rule]], config: Config, chosen: list[str], more: list[str], ignored: list[str], *, crc: bool, points: bool
) -> list[type[Rule]]:  # fmt: skip
    from ibdissect.lint.point_faults import PointRule

    mine = [rule for rule in rules if issubclass(rule, PointRule) == points]
    of_file = [code for code in config.select if any(matches(rule, code) for rule in mine)]
    wanted = chosen or of_file
    found = select(rules, [*wanted, *more] if wanted else [], ignored, crc=crc)
    if not wanted:
        select(rules, more)  # all run; a code that no rule has is a mistake all the same
    ours = set(mine)
    left = [rule for rule in found if rule in ours]
    if chosen and not left and (points or found):
        reason = "leaves no rule of the family PTS" if points else "needs several captures"
        raise ConfigError("--select", ",".join(chosen), reason, hint="add PTS" if points else "run `ibdissect points`")
    return left


def _known(config: Config, rules: list[type[Rule]]) -> None:
    """Raise ConfigError, naming the key, for a code in the file that no rule has."""
    places = [("select", config.select), ("ignore", config.ignore), ("severity", tuple(config.severity))]
    places += [(f'per-path-ignores."{glob}"', codes) for glob, codes in config.per_path_ignores]
    for key, codes in places:
        for code in codes:
            if not any(matches(rule, code) for rule in rules):
                raise ConfigError(config.source, key, f"no rule has the code or name {code}", hint=nearest_rule(code, rules))
