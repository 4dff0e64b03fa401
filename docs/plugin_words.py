"""Every word of a plugin's declarations, with its arguments. The text of docs/plugin-words.md, from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import ModuleType
from typing import Any

from ibdissect.decode import connection_events
from ibdissect.lint import rule, sequence, setting
from ibdissect.rules.shared import attribute_rule
from ibdissect.subnet import events as fabric_events
from ibdissect.transport import events as flow_events
from ibdissect.wire import column, dialogue, expr, field_kinds, kept, places, spec, tail

FIELDS = (
    "uint", "enum", "flag", "pad", "lid", "qpn", "pkey", "guid", "gid", "mac", "ip4", "secret", "text", "raw", "rest", "hole", "nested",
    "array", "part", "bit",
)  # fmt: skip
VARIABLE = ("repeat", "choice", "optional", "text_until", "case")
HELD = """\
# Every word of a plugin

Made from the code; a test keeps it current. [Plugins](plugins.md) explains how they are used together. All words can be imported
from `ibdissect.words`, or from the modules named below.

"""
AT = """\
## `at`

`at="12"` is byte 12 of the structure, `at="12[3]"` its bit 3: bit 0 is the most significant bit of the byte, as in the standard's
tables. It repeats the offset of the manual and is checked against the widths of the fields before. A `part` or `bit` has none: it counts
from the least significant bit of its whole. Fields behind a part of variable size have none either.

`at="..12"`: the field is at byte 12, and all bits before it that no field declares are reserved. It replaces a `pad`.

"""
FAMILY = (
    "They are written in the class, or in its first line: `class Lane(Acme, section=\"ACME 4\", size=8)`.",
    "",
    "A class without fields is a family: `class Acme(Struct, prefix=\"acme\")`. Structures derived from it have its prefix, and by default",
    "the name of their class as `key`: `acme.lane.errors`.",
)
HOLDS = """\
## `holds`

"""


def first_sentence(documented: object) -> str:
    """What a docstring says, in one line of a table."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.split()).replace("|", "\\|")


def default(value: object) -> str:
    """A default as an author writes it."""
    if isinstance(value, int) and value >= 1 << 32:
        return f"{value:#x}"
    if isinstance(value, frozenset):
        return "{" + ", ".join(f"0x{one:02x}" for one in sorted(value)) + "}"
    if isinstance(value, Mapping):
        return repr(dict(value))
    return str(value) if isinstance(value, Enum) else repr(value)


def signature(function: Callable[..., Any]) -> str:
    arguments = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            arguments.append(f"**{'common' if 'Common' in str(one.annotation) else 'options'}")
            continue
        star = "*" if one.kind is one.VAR_POSITIONAL else ""
        given = "" if one.default is one.empty else f"={default(one.default)}"
        arguments.append(f"{star}{one.name}{given}")
    return ", ".join(arguments)


def functions(module: ModuleType, names: tuple[str, ...]) -> Iterator[str]:
    yield "| word | what it is |"
    yield "|---|---|"
    for name in names:
        found = getattr(module, name)
        yield f"| `{name}({signature(found)})` | {first_sentence(found)} |"
    yield ""


def attributes(owner: type) -> Iterator[tuple[str, str]]:
    """The annotated attributes of a class, each with the text behind it."""
    lines = inspect.getsource(owner)
    for found in re.finditer(r'^    (\w+): [^\n]+\n(?:    """(.*?)""")?', lines, re.M | re.S):
        if not found[1].startswith("_"):
            yield found[1], " ".join((found[2] or "").split()).replace("|", "\\|")


def options() -> Iterator[str]:
    said = dict(attributes(spec.Field))
    for title, words in (("common", spec.Common), ("options, besides common", spec.Options)):
        yield f"`**{title}`"
        yield ""
        own = [name for name in words.__annotations__ if title == "common" or name not in spec.Common.__annotations__]
        yield "| word | what it says |"
        yield "|---|---|"
        yield from (f"| `{name}` | {said[name]} |" for name in own)
        yield ""


def classes(module: ModuleType, base: type = object) -> Iterator[type]:
    own = (value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__)
    return (value for value in own if issubclass(value, base) and not value.__name__.startswith("_"))


def place_rows() -> Iterator[str]:
    yield "| place | where |"
    yield "|---|---|"
    for one in classes(places, places.Place):
        if one.__name__ not in ("Place", "SaPiece"):
            yield f"| `{one.__name__}({signature(one)})` | {first_sentence(one)} |"
    yield ""
    for one in (each for each in classes(places, places.Place) if each is not places.Place):
        yield from (f"- `{one.__name__}`, `{name}`: {text}" for name, text in attributes(one) if text)
    yield ""


def event_rows() -> Iterator[str]:
    for module in (connection_events, flow_events, fabric_events):
        yield f"From `{module.__name__}`:"
        yield ""
        yield "| event | its attributes | when |"
        yield "|---|---|---|"
        for one in classes(module):
            names = [name for name in getattr(one, "__struct_fields__", ()) if not name.startswith("_")]
            if names:
                yield f"| `{one.__name__}` | {', '.join(f'`{name}`' for name in names)} | {first_sentence(one)} |"
        yield ""


def rule_rows() -> Iterator[str]:
    yield "| word | what it is |"
    yield "|---|---|"
    for one in (rule.on_struct, rule.on_event, rule.on_chunk, rule.on_end):
        yield f"| `@{one.__name__}` | {first_sentence(one)} |"
    for one in (rule.Hit, rule.Moment, rule.Seen, rule.fault, setting.Setting):
        yield f"| `{one.__name__}({signature(one)})` | {first_sentence(one)} |"
    yield ""
    yield "| attribute of a `Rule` | what it says |"
    yield "|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in attributes(rule.Rule) if text)
    yield ""


def page() -> str:
    """The text of the page."""
    lines = ["## Fields", "", "From `ibdissect.wire.spec`. Numbers are big-endian.", "", *functions(spec, FIELDS), *options()]
    lines += ["## Parts of variable size", "", "From `ibdissect.wire.tail`. `text` and `raw` take a size of a field, too.", ""]
    lines += functions(tail, VARIABLE)
    lines += ["From `ibdissect.wire.kept`:", "", *functions(kept, ("kept",))]
    lines += ["## Attributes of a structure", "", "| attribute | what it says |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in attributes(spec.Struct) if text and name not in ("fields", "tail")]
    lines += ["", *FAMILY, "", "## Places", "", "From `ibdissect.wire.places`, for `carried_by`.", "", *place_rows()]
    lines += ["## Conditions and arithmetic", "", "Of fields: `== != < <= > >=`, `+ - * & << >>`, and these.", ""]
    lines += ["| word | what it is |", "|---|---|"]
    for each in (expr.Value.isin, expr.Value.between):
        lines.append(f"| `field.{each.__name__}({signature(each).removeprefix('self, ')})` | {first_sentence(each)} |")
    lines += [
        f"| `present({signature(expr.present)})` | {first_sentence(expr.present)} |",
        "| `a & b`, `a \\| b`, `~a` | conditions together |",
        "",
    ]
    lines += ["## Computed columns", "", *functions(column, ("column",))]
    lines += ["## Beside bytes", "", "From `ibdissect.wire.dialogue`: attributes of a structure, whatever their names.", ""]
    lines += functions(dialogue, ("summary", "answer", "note"))
    lines += ["At the top level of a plugin:", "", "| word | what it is |", "|---|---|"]
    lines += [f"| `VendorClass({signature(dialogue.VendorClass)})` | {first_sentence(dialogue.VendorClass)} |", ""]
    lines += [f"- `{name}`: {text}" for name, text in attributes(dialogue.VendorClass) if text]
    lines += ["", "## Sequences", "", "From `ibdissect.lint.sequence`, in the `when` of a rule.", ""]
    lines += functions(sequence, ("previous", "within", "unless"))
    lines += ["## Rules about what a port showed before", "", "From `ibdissect.rules.shared.attribute_rule`.", ""]
    lines += [f"`AttributeRule`: {first_sentence(attribute_rule.AttributeRule)}", ""]
    lines += [f"`Fault({signature(attribute_rule.Fault)})`: {first_sentence(attribute_rule.Fault)}", ""]
    lines += [f"- `{name}`: {text}" for name, text in attributes(attribute_rule.Fault) if text]
    lines += ["", "| attribute of an `AttributeRule` | what it says |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in attributes(attribute_rule.AttributeRule) if text]
    lines.append("")
    lines += ["## Rules", "", "From `ibdissect.lint.rule` and `ibdissect.lint.setting`.", "", *rule_rows()]
    lines += ["## Events", "", "For `@on_event`.", "", *event_rows()]
    held = ", ".join(f"`{word}`" for word in sorted(field_kinds.HOLDS))
    said = dict(attributes(spec.Field))["holds"]
    return HELD + AT + HOLDS + f"One of {held}. {said}\n\n" + "\n".join(lines).rstrip() + "\n"
