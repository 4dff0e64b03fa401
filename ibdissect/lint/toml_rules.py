"""Rules from `[[rule]]` tables in TOML: the condition is a display filter, the message shows fields by filter name."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from ibdissect.decode.computed_fields import value_in
from ibdissect.dfilter.compile import Filter, compile_filter
from ibdissect.engine.offsets import MALFORMED
from ibdissect.errors import ConfigError, FilterError, PluginError, nearest
from ibdissect.wire.catalog import Catalog, builtin
from ibdissect.wire.column import ComputedField
from ibdissect.wire.expr import Where
from ibdissect.wire.spec import BIT_KINDS, Field
from ibdissect.wire.text import value_text

from .finding import Severity, Span, value_of
from .rule import Hit, Rule, Seen

KEYS = ("code", "name", "severity", "when", "message", "docs", "reference", "example", "since")
NEEDED = ("code", "name", "when", "message")
COMMANDS = ("::", "##[")
"""What lines begin with that GitHub and Azure take for commands."""
MOST_SHOWN = 32
"""Most fields in a message; each may be written up to 999 characters wide."""
OF_FRAME = ("frame.number", "frame.len", "frame.cap_len", "frame.interface_id", "_ws.malformed")
"""Names that a message may use although they are not fields of a structure."""
_WORD = re.compile(r"[A-Za-z_][\w.-]*")
_STRING = re.compile(r'[rR]?"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'")


class DeclaredRule(Rule):
    """A rule whose condition is a display filter: one finding for each frame that the filter selects."""

    of_code = False

    filter: ClassVar[Filter]
    shown: ClassVar[Mapping[str, tuple[Field[Any], ...]]]
    """Placeholder name -> its fields; empty for a name of the frame itself."""
    marked: ClassVar[tuple[Field[Any], ...]]
    """Fields of the first name in the filter: their bytes are reported."""

    @classmethod
    def use_keys(cls, shown: bool) -> None:
        """Compile the filter anew, so that it hides keys or not."""
        where = cls.__module__.partition(":")[2]
        cls.filter = _filter(cls.filter.text, where, f"rule {cls.code}", cls.filter.catalog, hide_keys=not shown)
        cls.when = Where(None, cls.filter.rows)

    def of_frame(self, seen: Seen) -> Hit:
        """The hit for one frame that the filter selects."""
        arguments = {_placeholder(name): _value(seen, name, fields) for name, fields in self.shown.items()}
        found = next(_occurrences(seen, self.marked), None)
        if found is None:
            return Hit(frame=seen.frame, time_ns=seen.time_ns, arguments=arguments)
        at, view = found
        low, high = at.span
        stop = view.stop - view.offset if at.kind == "rest" else high
        spans = (Span(seen.frame, view.offset + low, stop - low),)
        value = None if _is_bytes(at) else _field_value(at, view)
        return Hit(frame=seen.frame, time_ns=seen.time_ns, arguments=arguments, spans=spans, field=at, value=value)


def rules_of(tables: Sequence[Any], where: str, catalog: Catalog | None = None) -> list[type[Rule]]:
    """Rules from the `[[rule]]` tables of the file `where`, in order. ConfigError names the file and the wrong key."""
    found: list[type[Rule]] = []
    for number, table in enumerate(tables, 1):
        key = f"rule {number}"
        if not isinstance(table, dict):
            raise ConfigError(where, key, "must be a table: [[rule]]")
        if any(rule.code == table.get("code") for rule in found):
            raise ConfigError(where, f"{key}, code", f"{table['code']} is declared twice")
        found.append(_rule(table, where, key, catalog if catalog is not None else builtin()))
    return found


def _rule(table: dict[str, Any], where: str, key: str, catalog: Catalog) -> type[Rule]:
    for name, value in table.items():
        if name not in KEYS:
            raise ConfigError(where, f"{key}, {name}", "there is no such key", hint=nearest(name, KEYS))
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(where, f"{key}, {name}", f"must be a text, not {value!r}")
        lines = value.split("\n") if name == "docs" else [value]
        if not all(line.isprintable() for line in lines):
            raise ConfigError(where, f"{key}, {name}", f"holds what cannot be printed: {ascii(value)[:80]}")
        if any(line.lstrip().startswith(COMMANDS) for line in lines):
            raise ConfigError(where, f"{key}, {name}", f"a line begins as commands to a CI job do: {' or '.join(COMMANDS)}")
    for name in NEEDED:
        if name not in table:
            raise ConfigError(where, f"{key}, {name}", "is missing")
    severity = table.get("severity", "warning")
    if severity not in tuple(Severity):
        raise ConfigError(where, f"{key}, severity", f"{severity!r} is none of {', '.join(Severity)}")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", table["name"]):
        raise ConfigError(where, f"{key}, name", f"{table['name']!r} is not a name", hint="small letters, digits and hyphens: wrong-dscp")
    made = _filter(table["when"], where, key, catalog)
    (message, shown), words = _message(table["message"], where, key, catalog), table["name"].replace("-", " ")
    facts = {
        "__module__": f"{__name__}:{where}", "__qualname__": table["code"], "__doc__": table.get("docs", f"{words.capitalize()}."),
        "code": table["code"], "name": table["name"], "severity": Severity(severity), "reference": table.get("reference", where),
        "since": table.get("since", Rule.since), "message": message,
        "example": table.get("example", f"a frame that matches {table['when']}"),
        "when": Where(None, made.rows), "filter": made, "shown": shown,
        "marked": _first_named(made, catalog),
    }  # fmt: skip
    try:
        return cast("type[Rule]", type(table["code"], (DeclaredRule,), facts))
    except PluginError as error:
        raise ConfigError(where, f"{key}, code", error.reason) from error


def _filter(text: str, where: str, key: str, catalog: Catalog, *, hide_keys: bool = False) -> Filter:
    try:
        made = compile_filter(text, catalog, hide_keys=hide_keys)
    except FilterError as error:
        raise ConfigError(where, f"{key}, when", str(error)) from error
    later = sorted(name for name in made.names if name.startswith("ibdissect."))
    if later:
        raise ConfigError(where, f"{key}, when", f"{later[0]} is known only when all rules have run")
    return made


def _message(text: str, where: str, key: str, catalog: Catalog) -> tuple[str, dict[str, tuple[Field[Any], ...]]]:
    """The message with placeholders that Python accepts, and the fields of each name."""
    shown: dict[str, tuple[Field[Any], ...]] = {}
    parts: list[str] = []
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ConfigError(where, f"{key}, message", f"{error}; write {{{{ for a brace") from error
    if len(pieces) > MOST_SHOWN:
        raise ConfigError(where, f"{key}, message", f"shows more than {MOST_SHOWN} fields")
    for literal, name, spec, conversion in pieces:
        parts.append(literal.replace("{", "{{").replace("}", "}}"))
        if name is None:
            continue
        if conversion not in (None, "t"):
            raise ConfigError(where, f"{key}, message", f"there is no conversion !{conversion}", hint="!t is the value in words")
        fields = tuple(field for field in catalog.fields(name) if field.kind not in ("nested", "hole"))
        if not fields and name not in OF_FRAME:
            near = catalog.nearest(name)
            hint = f"did you mean {' or '.join(near)}?" if near else ""
            raise ConfigError(where, f"{key}, message", f'there is no field "{name}"', hint=hint)
        if any(map(_is_bytes, fields)):
            raise ConfigError(where, f"{key}, message", f"{name} is raw bytes, which may hold keys: they cannot be shown")
        shown[name] = fields
        parts.append("{" + _placeholder(name) + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "") + "}")
        _try(where, key, name, fields, spec or "")
    return "".join(parts), shown


def _try(where: str, key: str, name: str, fields: tuple[Field[Any], ...], spec: str) -> None:
    """Reject a format that does not suit the field's values now, rather than at the first finding. Raises ConfigError."""
    if re.search("[0-9]{4}", spec):
        raise ConfigError(where, f"{key}, message", f"{name} cannot be written as {spec!r}: too wide")
    numbers = all(field.kind in BIT_KINDS and field.count == 1 for field in fields) and name != "_ws.malformed"
    try:
        format(1 if numbers else "", spec)
    except ValueError as error:
        raise ConfigError(where, f"{key}, message", f"{name} cannot be written as {spec!r}: {error}") from error


def _placeholder(name: str) -> str:
    """A filter name turned into a Python placeholder name."""
    return re.sub(r"\W", "_", name)


def _first_named(made: Filter, catalog: Catalog) -> tuple[Field[Any], ...]:
    """The fields of the first name in the filter that names any."""
    for word in _WORD.findall(_STRING.sub(" ", made.text)):
        fields = tuple(field for field in catalog.fields(word) if field.kind not in ("nested", "hole"))
        if fields and fields[0].filter_name in made.names:
            return fields
    return ()


def _occurrences(seen: Seen, fields: tuple[Field[Any], ...]) -> Iterator[tuple[Field[Any], Any]]:
    """The first occurrence of each field in the frame, in byte order."""
    found = []
    for field in fields:
        view = seen.first(field.owner)
        if view is not None and (field.when is None or field.when[0].__get__(view, field.owner) in field.when[1]):
            found.append((view.offset + field.bit / 8, field, view))
    for _, field, view in sorted(found, key=lambda entry: entry[0]):
        yield field, view


def _is_bytes(field: Field[Any]) -> bool:
    return field.kind in ("raw", "rest") and not field.secret


def _field_value(field: Field[Any], view: Any) -> Any:
    """The field's value for messages and reports; keys stay wrapped as Secret."""
    value = field.__get__(view, type(view))
    if isinstance(value, tuple) and not field.secret:
        return ", ".join(value_text(field, entry) for entry in value)
    if field.kind in ("mac", "ip4"):
        return value_text(field, value)
    return value_of(field, value)


def _value(seen: Seen, name: str, fields: tuple[Field[Any], ...]) -> Any:
    if fields:
        found = next(_occurrences(seen, fields), None)
        if found is not None and isinstance(found[0], ComputedField):
            return value_in(seen.table, found[0], seen.row)
        return None if found is None else _field_value(*found)
    chunk, row = seen.table.chunk, seen.row
    if name == "_ws.malformed":
        return MALFORMED[int(seen.table.located.malformed[row])]
    if name == "frame.number":
        return seen.frame
    if name == "frame.interface_id":
        return int(chunk.interface[row])
    return int((chunk.length if name == "frame.len" else chunk.caplen)[row])
