"""Computed fields (`column`): declared fields that have no bytes but are computed from others of their structure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from ibdissect.errors import SpecError

from .expr import And, Arith, Compare, Expr, In, Not, Or, Value
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
    formula: Value | Expr | Callable[[Any], int] | Callable[[Any], str],
    label: str,
    *,
    kind: str = "uint",
    unit: str = "",
    values: Mapping[int, str] | None = None,
    base: str = "dec",
) -> ComputedField:
    """A value for every occurrence of a structure; `name` is the full filter name if it has a dot, else `<structure>.<name>`.

    `formula`: arithmetic on fields of `of` (`BTH.destqp & 0xFF`), as fast as any column; a condition on them (`Lane.state == 1`), which
    is 1 where it holds, by default with the names yes and no; or a function of a view, called once per occurrence. `kind`: `uint` for
    integers, `text` for a function that returns strings. Raises SpecError for anything else.
    """
    if kind not in ("uint", "text"):
        raise SpecError(of.__name__, name, f"a computed column is uint or text, not {kind}")
    if isinstance(formula, Field):
        formula = formula + 0
    if isinstance(formula, Expr):
        holds, values = holds_in(of, name, formula), values or {0: "no", 1: "yes"}
        formula = lambda view: int(bool(holds(view)))  # noqa: E731
        if kind == "text":
            raise SpecError(of.__name__, name, "a condition is a number, 0 or 1; `values` gives these their names")
    if isinstance(formula, Arith):
        foreign = [field for field in formula.fields() if field.owner is not of or field.count > 1 or field.kind not in INT_KINDS]
        if foreign or kind == "text":
            raise SpecError(of.__name__, name, f"arithmetic needs single numbers of {of.__name__}, which {foreign} is not")
    elif not callable(formula):
        raise SpecError(of.__name__, name, f"{formula!r} is neither arithmetic on fields nor a function")
    return ComputedField(
        kind, 64 if kind == "uint" else 0, label, unit=unit, values=values, base=base, formula=formula, name=name.rpartition(".")[2],
        owner=of, _filter_name=name if "." in name else f"{of.prefix}.{of.key}.{name}",
    )  # fmt: skip


def holds_in(struct: type[Struct], name: str, condition: Any) -> Callable[[Struct], Any]:
    """What tells whether a condition on fields of a structure holds in a view. SpecError for anything else."""
    if isinstance(condition, Field):
        known = {id(field) for field in struct.fields}
        known |= {id(field) for one in (struct.tail.structs() if struct.tail is not None else ()) for field in one.fields}
        if id(condition) not in known and not (condition.owner is not None and issubclass(struct, condition.owner)):
            raise SpecError(struct.__name__, name, f"{condition!r} is no field of this structure")
        return lambda view: getattr(view, condition.name)
    if isinstance(condition, (int, str, bytes)):
        return lambda view: condition
    if isinstance(condition, Compare):
        left, right, test = holds_in(struct, name, condition.left), holds_in(struct, name, condition.right), _TESTS.get(condition.op)
        if test is not None:
            return lambda view: (a := left(view)) is not None and (b := right(view)) is not None and test(a, b)
    if isinstance(condition, Arith):
        parts = {field: holds_in(struct, name, field) for field in condition.fields()}

        def arithmetic(view: Struct) -> Any:
            values = {field: read(view) for field, read in parts.items()}
            return None if None in values.values() else evaluate(condition, values.__getitem__)

        return arithmetic
    if isinstance(condition, In):
        value = holds_in(struct, name, condition.value)
        return lambda view: value(view) in condition.choices
    if isinstance(condition, Not):
        inner = holds_in(struct, name, condition.part)
        return lambda view: not inner(view)
    if isinstance(condition, (And, Or)):
        inners, every = [holds_in(struct, name, one) for one in condition.parts], all if isinstance(condition, And) else any
        return lambda view: every(inner(view) for inner in inners)
    raise SpecError(struct.__name__, name, f"{condition!r} is no condition on fields of this structure")


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}  # fmt: skip
