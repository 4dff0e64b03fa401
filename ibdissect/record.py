"""How are the many small classes of events, facts and places made, without costing every start?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, field
from typing import Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(kind: type[T]) -> type[T]: ...
@overload
def record(*, eq: bool = False, frozen: bool = True, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(kind: type[T] | None = None, *, eq: bool = False, frozen: bool = True, kw_only: bool = False) -> Any:
    """A dataclass with slots, whose methods nobody writes before they are needed.

    Compiling those of a frozen dataclass takes 0.6 ms, making one of these 0.05 ms; there are more than a hundred, and most are
    never instantiated. `frozen` is for the type checker, which refuses what a dataclass would refuse at run time; `eq`: compared by
    value, else by identity. No `__post_init__`, no `InitVar`; `dataclasses.replace` works.
    """
    if kind is None:
        return lambda kind: _made(kind, eq, frozen, kw_only)
    return _made(kind, eq, frozen, kw_only)


def _made(kind: type[T], eq: bool, frozen: bool, kw_only: bool) -> type[T]:
    inherited: dict[str, Field[Any]] = getattr(kind, "__dataclass_fields__", {})
    fields, space = dict(inherited), dict(vars(kind))
    own = [name for name, said in kind.__annotations__.items() if not str(said).startswith("ClassVar")]
    for name in own:
        given = space.pop(name, MISSING)
        made: Field[Any] = given if isinstance(given, Field) else field(default=given)
        made.name = name
        if made.kw_only is MISSING:
            made.kw_only = kw_only
        fields[name] = made
    space.pop("__dict__", None)
    space.pop("__weakref__", None)
    space["__qualname__"] = kind.__qualname__
    space["__slots__"] = tuple(name for name in own if name not in inherited)
    space["__dataclass_fields__"] = fields
    space.setdefault("__match_args__", tuple(fields))
    space.setdefault("__repr__", _repr)
    if eq:
        space.setdefault("__eq__", _equal)
        space.setdefault("__hash__", _hash if frozen else None)
    if "__init__" not in space:
        space["__init__"] = _first
    made_kind: Any = type(kind.__name__, kind.__bases__, space)
    return cast("type[T]", made_kind)


def _first(self: Any, *values: Any, **named: Any) -> None:
    """The `__init__` of a class that has no instance yet: writes the true one, which takes its place."""
    owner = next(base for base in type(self).__mro__ if vars(base).get("__init__") is _first)
    true = _init(owner)
    type.__setattr__(owner, "__init__", true)
    true(self, *values, **named)


def _init(owner: type[Any]) -> Any:
    """What `dataclass` would write: one assignment a field."""
    known: dict[str, Any] = {"MISSING": MISSING}
    positional: list[str] = ["self"]
    keyword: list[str] = []
    body: list[str] = []
    for name, made in owner.__dataclass_fields__.items():
        word, value = name, name
        if made.default_factory is not MISSING:
            known[f"_{name}_made"] = made.default_factory
            word, value = f"{name}=MISSING", f"_{name}_made() if {name} is MISSING else {name}"
        elif made.default is not MISSING:
            known[f"_{name}_default"] = made.default
            word = f"{name}=_{name}_default"
        (keyword if made.kw_only else positional).append(word)
        body.append(f" self.{name} = {value}\n")
    arguments = ", ".join([*positional, *(("*", *keyword) if keyword else ())])
    exec(f"def __init__({arguments}):\n{''.join(body) or ' pass'}", known)
    made_init = known["__init__"]
    made_init.__qualname__, made_init.__module__ = f"{owner.__qualname__}.__init__", owner.__module__
    return made_init


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__dataclass_fields__])


def _repr(self: Any) -> str:
    shown = [f"{name}={getattr(self, name)!r}" for name, made in self.__dataclass_fields__.items() if made.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _equal(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))
