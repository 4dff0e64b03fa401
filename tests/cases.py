"""Many small cases in one test: an item of pytest costs a millisecond, and most cases take less. Few of many dear ones in the fast lane."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any

import pytest


def every(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, in one test that tries all cases and then names each that failed. Fixtures serve all of them."""
    words = tuple(names.replace(",", " ").split()) if isinstance(names, str) else names
    tried = [dict(zip(words, case if len(words) > 1 else (case,), strict=True)) for case in cases]
    assert tried, "no case"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for case in tried:
                try:
                    test(**case, **fixtures)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # a case that skips would hide those behind it
                    failed = error if isinstance(error, Exception) else AssertionError(str(error)).with_traceback(error.__traceback__)
                    failed.add_note(f"case: {case}")
                    failures.append(failed)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(tried)} cases", failures)

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[one for name, one in signature.parameters.items() if name not in words]
        )
        return run

    return decorate


def few(names: str | tuple[str, ...], cases: Iterable[Any], *, fast: Collection[int], **options: Any) -> pytest.MarkDecorator:
    """As `pytest.mark.parametrize`. The cases of these numbers, from 0, are in the fast lane; others, which take the same way, are slow."""
    several = len(names.replace(",", " ").split() if isinstance(names, str) else names) > 1
    tried = [pytest.param(*(case if several else (case,)), marks=[pytest.mark.slow] * (i not in fast)) for i, case in enumerate(cases)]
    assert max(fast) < len(tried), "no such case"
    return pytest.mark.parametrize(names, tried, **options)
