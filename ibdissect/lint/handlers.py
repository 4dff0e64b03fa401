"""Marked methods of rules by the structures and events that they handle, and the followers that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from types import FunctionType
from typing import Any

from ibdissect.subnet import FabricFollower
from ibdissect.subnet.kinds_of_ports import ABOUT_PORTS
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.spec import Struct

from .inapplicable_components import declared
from .rule import Rule
from .sequence import is_sequence, judge_end, judge_window, waits_in_vain

Handler = tuple[int, Callable[..., Any]]
"""Index of the rule, and its method, unbound."""
MARKS = ("listens_to", "listens_to_events", "listens_to_chunks", "listens_to_end")


class Handlers:
    """The marked methods of rule classes, by what they handle; in the order of the rules."""

    def __init__(self, kinds: tuple[type[Rule], ...]) -> None:
        self.conditions: dict[type[Struct] | None, list[int]] = {}
        """Indices of the rules that are declared as a condition, by the structure that they judge."""
        self.of_structs: list[tuple[Handler, tuple[type[Struct], ...]]] = []
        self.of_event: dict[type[Any], list[Handler]] = {}
        self.of_chunk: list[Handler] = []
        self.at_end: list[Handler] = []
        self.about_ports: set[str] = set()
        """Codes of conditions whose components some ports do not have, or that are read-only (`inapplicable_components`)."""
        wanted = {one for kind in kinds for one in needs_of(kind)}
        self.conclusions: dict[type[Any], set[str]] = {}
        """Codes of the rules that draw conclusions from a follower's state, or from what learns of it."""
        for place, kind in enumerate(kinds):
            for event in conclusions_of(kind):
                self.conclusions.setdefault(event.source, set()).add(kind.code)
            if kind.when is None or kind.by_answers:
                pass
            elif is_sequence(kind.when):
                self.of_chunk.append((place, judge_window))
                self.at_end.append((place, judge_end))
                if waits_in_vain(kind.when):
                    wanted.add(CaptureLoss)
            else:
                self.conditions.setdefault(kind.on, []).append(place)
                if kind.on in ABOUT_PORTS and (kind.ports or declared(kind.when)):
                    self.about_ports.add(kind.code)
                    wanted.add(FabricFollower)
            for mark, listens, method in handler_methods(kind):
                if mark == "listens_to":
                    self.of_structs.append(((place, method), tuple(listens)))
                elif mark == "listens_to_events":
                    for event in listens:
                        self.of_event.setdefault(event, []).append((place, method))
                        if hasattr(event, "source"):
                            wanted.add(event.source)
                else:
                    (self.of_chunk if mark == "listens_to_chunks" else self.at_end).append((place, method))
        learning = [kind for kind in in_order(wanted) if hasattr(kind, "learns_from")]
        self.learning: dict[type[Any], list[type[Any]]] = {}
        """State that learns from events and from tables before any rule handles them, by the class of these."""
        for kind in learning:
            self.learning.setdefault(kind.learns_from, []).append(kind)
        wanted |= {event.source for event in self.learning if hasattr(event, "source")}
        self.followers = [kind for kind in in_order(wanted) if hasattr(kind, "feed")]


@lru_cache(maxsize=8)
def handlers(kinds: tuple[type[Rule], ...]) -> Handlers:
    """The handlers of some rules, cached: finding them takes as long as a small capture."""
    return Handlers(kinds)


def needs_of(kind: type[Rule]) -> set[type[Any]]:
    """What a rule class and its bases need."""
    return {one for base in kind.__mro__ for one in vars(base).get("needs", ())}


def conclusions_of(kind: type[Rule]) -> set[type[Any]]:
    """Events of which a rule draws conclusions: it handles them, or needs what learns from them."""
    handled = [event for mark, events, _ in handler_methods(kind) if mark == "listens_to_events" for event in events]
    learnt = [one.learns_from for one in needs_of(kind) if hasattr(one, "learns_from")]
    return {event for event in (*handled, *learnt) if getattr(event, "concludes", False)}


def handler_methods(kind: type[Rule]) -> list[tuple[str, Any, Callable[..., Any]]]:
    """Mark, what it handles, and function of the marked methods of a rule class, by name."""
    methods = [getattr(kind, name) for name in sorted({name for base in kind.__mro__ for name in _noted(base)})]
    return [(mark, getattr(method, mark), method) for method in methods for mark in MARKS if hasattr(method, mark)]


@cache
def _noted(base: type) -> tuple[str, ...]:
    """Functions of one class that have attributes, as marked methods do: `dir` of all rules takes 30 ms."""
    return tuple(name for name, value in vars(base).items() if type(value) is FunctionType and vars(value))


def in_order(kinds: Iterable[type[Any]]) -> list[type[Any]]:
    """Follower classes with their `after` dependencies, dependencies first, otherwise by name."""
    ordered: dict[type[Any], None] = {}

    def add(kind: type[Any]) -> None:
        for earlier in getattr(kind, "after", ()):
            add(earlier)
        ordered.setdefault(kind)

    for kind in sorted(kinds, key=lambda kind: kind.__name__):
        add(kind)
    return list(ordered)
