"""How is a field declared that has no bytes but is computed from other fields of its structure?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from ibdissect.errors import SpecError

from .expr import Arith, Value
from .spec import INT_KINDS, Field, Struct

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "&": operator.and_, ">>": operator.rshift, "<<": operator.lshift, "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip


class ComputedField(Field[Any], eq=False):
    """A field made by `column`: it has a name, a type and a value for each occurrence of its structure, but no bytes."""

    formula: Any = None

    def read(self, obj: Struct, bit: int) -> Any:
        """The value for one occurrence."""
        return evaluate(self.formula, lambda field: field.read(obj, field.bit)) if isinstance(self.formula, Arith) else self.formula(obj)


def evaluate(formula: Any, value_of: Callable[[Field[Any]], Any]) -> Any:
    """The result of arithmetic on fields; `value_of` returns a field's value, a number or an array."""
    if isinstance(formula, Field):
        return value_of(formula)
    if isinstance(formula, Arith):
        return _OPERATORS[formula.op](evaluate(formula.left, value_of), evaluate(formula.right, value_of))
    return formula


def column(
    of: type[Struct],
    name: str,
    formula: Value | Callable[[Any], int] | Callable[[Any], str],
    label: str,
    *,
    kind: str = "uint",
    unit: str = "",
    values: Mapping[int, str] | None = None,
    base: str = "dec",
) -> ComputedField:
    """A value for every occurrence of a structure; `name` is the full filter name if it has a dot, else `<structure>.<name>`.

    `formula`: arithmetic on fields of `of` (`BTH.destqp & 0xFF`), as fast as any column; or a function of a view, called once per
    occurrence. `kind`: `uint` for integers, `text` for a function that returns strings. Raises SpecError for anything else.
    """
    if kind not in ("uint", "text"):
        raise SpecError(of.__name__, name, f"a computed column is uint or text, not {kind}")
    if isinstance(formula, Arith):
        foreign = [field for field in formula.fields() if field.owner is not of or field.count > 1 or field.kind not in INT_KINDS]
        if foreign or kind == "text":
            raise SpecError(of.__name__, name, f"arithmetic needs single numbers of {of.__name__}, which {foreign} is not")
    elif not callable(formula):
        raise SpecError(of.__name__, name, f"{formula!r} is neither arithmetic on fields nor a function")
    return ComputedField(
        kind, 64 if kind == "uint" else 0, label, unit=unit, values=values, base=base, formula=formula, name=name.rpartition(".")[2],
        owner=of, _filter_name=name if "." in name else f"{of.prefix}.{of.key}.{name}", _mask=(1 << 64) - 1,
    )  # fmt: skip
