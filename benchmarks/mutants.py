"""Mutants: mistakes planted in the code, and those that no test notices.

    python benchmarks/mutants.py wire|decode|subnet|lint|tables|engine|diagnosis|points|masking|scrub|pkey|mkey
                                 [--sample N --seed S] [--quick] [--only TEXT] [--among FILE] [--tests GLOB ...]

Makes one small mistake at a time (a mutant), runs the tests of that package, and prints the mutants that no test noticed. Each
mutant runs in a process forked from a prepared parent. If the mistake is in a function that tests call, the function's code is
replaced and only those tests run; otherwise the mistake is made before the tests are imported, and all of them run. A mutant that
takes too much time or memory counts as noticed. Modules of the engine are interpreted, compiled or not. No file is written, and runs
are reproducible: Hypothesis uses the same examples.
`--quick` plants mistakes in functions only and leaves out the proofs of rules: it takes much less time, and notices no more than all tests
do. `--tests` runs only these, as `--only lint/setting --tests tests/lint/test_setting.py`. What it prints can be tried again with all tests
(`--among`).
Mistakes that change nothing are listed with the reason in `equivalent_mutants.csv`, by file, function (both may be patterns) and what is
printed: they are not planted.
mutmut does not fit: it skips decorated functions and class bodies, which make up most of a rule.
"""

from __future__ import annotations

import argparse
import ast
import csv
import gc
import importlib
import importlib.abc
import importlib.util
import inspect
import os
import pickle
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = ROOT / "benchmarks" / "equivalent_mutants.csv"
PROOFS = "tests/rules/test_rules.py"
"""The first proof of each rule is in the fast lane."""


class Target(NamedTuple):
    """The files to change, and the tests that should notice."""

    files: str
    """Glob patterns relative to the repository, with spaces between."""
    tests: tuple[str, ...]
    """Glob patterns of test files; those that notice most come first."""
    codes: tuple[str, ...] = ()
    """Prefixes of the rule codes whose proofs also run."""
    fast: bool = False
    """Only tests of the fast lane."""
    first: tuple[str, ...] = ()
    """Test files that run alone, in front of all, for mistakes that are made before the tests are imported: they notice most of them."""
    interpreted: bool = False
    """Whether the files are compiled by Cython: their sources run instead."""
    built: bool = False
    """Whether functions of the files run when modules are imported: a mistake in one that no test noticed is made before that, too, for
    the tests `first`."""


TARGETS = {
    "engine": Target(
        "ibdissect/engine/*.py",
        (
            "tests/engine/test_[!sl]*.py",
            "tests/engine/test_s[!h]*.py",
            "tests/engine/test_l*.py",
            "tests/decode/test_[lb]*.py",
            "tests/subnet/test_*.py",
            "tests/diagnosis/test_*.py",
            PROOFS,
        ),
        fast=True,
        interpreted=True,
    ),
    "pkey": Target("ibdissect/rules/PKY/*.py", ("tests/rules/PKY/test_*.py", "tests/rules/test_early.py"), ("PKY",)),
    "mkey": Target("ibdissect/rules/MKY/*.py", ("tests/rules/MKY/test_*.py", "tests/rules/test_early.py"), ("MKY", "SMP023")),
    "masking": Target(
        "ibdissect/decode/hidden/key_numbers.py ibdissect/decode/hidden/cut_keys.py "
        "ibdissect/decode/hidden/cut_messages.py ibdissect/decode/ignored_data.py",
        (
            "tests/decode/hidden/test_key_numbers.py",
            "tests/decode/test_ignored_data.py",
            "tests/dfilter/test_keys.py",
            "tests/tables/test_columns.py",
            "tests/decode/hidden/test_cut_keys.py",
            "tests/decode/hidden/test_cut_messages.py",
            "tests/test_secrets.py",
        ),
    ),
    "wire": Target(
        "ibdissect/wire/*.py ibdissect/wire/ulp/*.py",
        (
            "tests/wire/test_*.py",
            "tests/wire/ulp/test_*.py",
            "tests/dissect/test_*.py",
            "tests/test_coverage.py",
            "tests/decode/hidden/test_unreadable_fields.py",
            "tests/layers/test_*.py",
            "tests/test_plugin_declarations.py",
            "tests/lint/test_hidden_keys.py",
            PROOFS,
        ),
        fast=True,
        first=(
            "tests/wire/test_declared.py",
            "tests/wire/test_[ct]*.py",
            "tests/wire/test_structs.py",
            "tests/wire/test_roundtrip_spec.py",
        ),
        built=True,
    ),
    "decode": Target(
        "ibdissect/decode/*.py ibdissect/decode/hidden/*.py",
        (
            "tests/decode/test_*.py",
            "tests/decode/hidden/test_*.py",
            "tests/dfilter/test_[cklmnpv]*.py",
            "tests/tables/test_columns.py",
            "tests/wire/ulp/test_services.py",
            "tests/wire/test_tail.py",
            "tests/points/test_*.py",
            "tests/transport/test_*.py",
            "tests/lint/test_stateless_rules.py",
            "tests/test_secrets.py",
            "tests/test_planted.py",
            PROOFS,
        ),
        fast=True,
        first=("tests/decode/test_[a-l]*.py",),
    ),
    "subnet": Target(
        "ibdissect/subnet/*.py",
        (
            "tests/subnet/test_*.py",
            "tests/decode/test_bit_fields.py",
            "tests/rules/test_early.py",
            "tests/rules/test_gate.py",
            "tests/subnet/files/test_*.py",
            "tests/lint/test_inapplicable_components.py",
            "tests/lint/test_compared_with_answers.py",
            "tests/lint/test_seen_again.py",
            "tests/transport/test_*.py",
            PROOFS,
        ),
        fast=True,
        first=("tests/subnet/test_*.py",),
    ),
    "lint": Target(
        "ibdissect/lint/*.py",
        (
            "tests/lint/test_*.py",
            "tests/cli/test_effective_options.py",
            "tests/pipeline/test_check.py",
            "tests/subnet/test_separate_subnets.py",
            "tests/decode/test_ecn_marks_of_copies.py",
            "tests/report/test_[fmstw]*.py",
            PROOFS,
        ),
        fast=True,
        first=("tests/lint/test_*.py",),
    ),
    "tables": Target("ibdissect/tables/*.py", ("tests/tables/test_*.py", "tests/export/test_export.py")),
    "diagnosis": Target("ibdissect/diagnosis/*.py", ("tests/diagnosis/test_*.py", "tests/rules/CNX/test_*.py"), ("CNX",), fast=True),
    "points": Target("ibdissect/points/*.py", ("tests/points/test_*.py",)),
    "scrub": Target("ibdissect/scrub/*.py", ("tests/scrub/test_[!sv]*.py", "tests/scrub/test_s*.py", "tests/scrub/test_verify.py")),
}

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


NO_FAULT = ("frozen", "strict")
"""Keywords that only check the program itself."""
BOUND = re.compile("(MAX|MOST|KEPT)(_|$)")
"""How the names of bounds begin. Their numbers are choices; tests set their own."""


CACHE = type(cache(len))
"""The type of cached functions."""


class Mutant(NamedTuple):
    """One mistake: `new` replaces a child of `parent` (None: the child is removed)."""

    file: Path
    line: int
    parent: ast.AST
    name: str
    place: int | None
    """Index in the list `name`, if it is a list."""
    new: ast.AST | None
    function: int
    """First line of the outermost function whose body contains it; 0: none."""
    where: str
    """The classes and functions around it, as `Struct.view`."""

    @property
    def listed(self) -> tuple[str, str, str]:
        """What a row of EQUIVALENT says of it: file, function, mistake."""
        return str(self.file.relative_to(ROOT)), self.where, _text(self.parent, _child(self), self.new)

    def __str__(self) -> str:
        file, where, mistake = self.listed
        return f"{file}:{self.line}: {where}: {mistake}" if where else f"{file}:{self.line}: {mistake}"


def _child(mutant: Mutant) -> Any:
    value = getattr(mutant.parent, mutant.name)
    return value if mutant.place is None else value[mutant.place]


def alternatives(node: ast.AST, parent: ast.AST, name: str) -> Iterator[ast.AST | None]:
    """Wrong replacements of a node; None removes it from its list."""
    match node:
        case ast.Constant(value=bool()) if isinstance(parent, ast.keyword) and parent.arg in NO_FAULT:
            return
        case ast.keyword(arg=str(word)) if word in NO_FAULT:
            return
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.operator() | ast.boolop() | ast.cmpop():
            if type(node) in SWAPS:
                yield SWAPS[type(node)]()
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield operand
        case ast.Attribute(attr=attr) if attr in NAMES:
            yield ast.Attribute(node.value, NAMES[attr], node.ctx)
        case ast.Name(id=word) if word in NAMES:
            yield ast.Name(NAMES[word], node.ctx)
        case ast.keyword(arg=str()) if name == "keywords" and isinstance(parent, ast.Call):
            yield None
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.Assign(targets=[ast.Name()], value=value) if isinstance(parent, ast.ClassDef) and not isinstance(value, ast.Constant):
            yield ast.Pass()
            if isinstance(value, ast.Tuple):
                for i in range(len(value.elts)):
                    yield ast.Assign(node.targets, ast.Tuple(value.elts[:i] + value.elts[i + 1 :], ast.Load()), lineno=0)
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Return() if isinstance(parent, ast.FunctionDef) and node is parent.body[-1]:
            return
        case ast.Expr() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Return() | ast.Raise() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield ast.Pass()
    if name == "ifs" or (name == "decorator_list" and isinstance(parent, ast.FunctionDef)):
        yield None
    if name == "test" and isinstance(node, ast.expr) and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        yield ast.UnaryOp(ast.Not(), node)


def mutants(file: Path, node: ast.AST, line: int = 0, function: int = 0, where: str = "") -> Iterator[Mutant]:
    """All mutants below a node, in source order, except of annotations, decorators' arguments, type names, and what never runs."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "ctx") or (isinstance(node, ast.Assert)):
            continue
        within = 0
        if isinstance(node, ast.FunctionDef) and name == "body":
            within = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and name == "body":
            where = f"{where}.{node.name}" if where else node.name
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom) or _never_runs(child):
                continue
            if isinstance(node, ast.Module) and isinstance(child, ast.Assign) and isinstance(child.value, ast.Subscript):
                continue
            if isinstance(node, ast.Module) and isinstance(child, ast.Assign) and all(map(BOUND.match, _names(child))):
                continue
            here = getattr(child, "lineno", line)
            for new in alternatives(child, node, name):
                yield Mutant(file, here, node, name, index, new, function or within, where)
            if name != "decorator_list":
                yield from mutants(file, child, here, function or within, where)


def _never_runs(node: ast.AST) -> bool:
    """Whether only type checkers read it: a function whose body is `...`, of an overload or a protocol, or a block for TYPE_CHECKING."""
    if isinstance(node, ast.FunctionDef):
        return [one.value.value for one in node.body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)] == [...]
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _names(assignment: ast.Assign) -> list[str]:
    """The names that an assignment binds; one that is none is not a plain name."""
    return [one.id if isinstance(one, ast.Name) else "" for target in assignment.targets
            for one in (target.elts if isinstance(target, ast.Tuple) else [target])]  # fmt: skip


def _text(parent: ast.AST, old: ast.AST, new: ast.AST | None) -> str:
    if new is None or isinstance(new, ast.Pass):
        return f"without `{_short(old)}`"
    if isinstance(old, ast.operator | ast.boolop | ast.cmpop):
        return f"`{type(old).__name__}` is `{type(new).__name__}` in `{_short(parent)}`"
    return f"`{_short(old)}` is `{_short(new)}` in `{_short(parent)}`"


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:87] + "..."


def compiled(tree: ast.Module, mutant: Mutant) -> CodeType:
    """The compiled module with the mistake; the tree is unchanged afterwards."""
    value = getattr(mutant.parent, mutant.name)
    if mutant.place is None:
        setattr(mutant.parent, mutant.name, mutant.new)
    else:
        setattr(mutant.parent, mutant.name, value[: mutant.place] + ([mutant.new] if mutant.new else []) + value[mutant.place + 1 :])
    try:
        return compile(ast.fix_missing_locations(tree), str(mutant.file), "exec")
    finally:
        setattr(mutant.parent, mutant.name, value)


def module_name(file: Path) -> str:
    """`ibdissect/decode/locate.py` becomes `ibdissect.decode.locate`."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(file: Path) -> Iterator[str]:
    """Modules that a file imports, including imports in functions."""
    package = module_name(file).split(".")
    package = package if file.name == "__init__.py" else package[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{one.name}" for one in node.names))


def independent(files: Sequence[Path]) -> list[str]:
    """Modules of the program and shared test modules that never import one of `files`; they can be loaded once for all mutants."""
    shared = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith(("test_", "conftest"))]
    shared = [path for path in shared if path.parent.name in ("tests", "rules", "subnet", "decode")]
    needs = {module_name(path): set(imports(path)) for path in [*(ROOT / "ibdissect").rglob("*.py"), *shared]}
    for name, names in needs.items():  # a package is loaded before its modules
        names.update(name[:i] for i, letter in enumerate(name) if letter == ".")
    touched = {module_name(path) for path in files} | {name for names in needs.values() for name in names if ".test_" in name}
    while grown := {name for name, names in needs.items() if name not in touched and names & touched}:
        touched |= grown
    rooms = ("ibdissect.tui", "ibdissect.cli", "ibdissect.__main__", "ibdissect.export", "ibdissect.pipeline", "ibdissect.pytest_plugin")
    return sorted(name for name in needs if name not in touched and not name.startswith(rooms))


class Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that provides a module's changed code."""

    def __init__(self, name: str, file: Path, code: CodeType) -> None:
        self.name, self.file, self.code = name, file, code

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(fullname, self.file, loader=self) if fullname == self.name else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)


def tried(seconds: int, run: Callable[[], int]) -> int:
    """The exit status of `run` in a child process with limited CPU seconds and memory; negative if it was killed."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    signal.alarm(20 * seconds)
    silent()
    status = 2
    try:
        status = run()
    finally:
        os._exit(status)


def silent() -> None:
    """Discard what pytest prints about a mutant."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def afresh(mutant: Mutant, code: CodeType, arguments: list[str]) -> int:
    """Import everything with the changed code, and run the tests."""
    sys.meta_path.insert(0, Instead(module_name(mutant.file), mutant.file, code))
    return int(pytest.main(arguments))


class InPlace:
    """A pytest plugin that runs the collected tests once per mutant."""

    def __init__(self, chosen: Sequence[Mutant], trees: dict[Path, ast.Module], seconds: int, out: int | None) -> None:
        self.chosen, self.trees, self.seconds = chosen, trees, seconds  # at least so many; twice what all tests take without a mistake
        self.out = out
        """Descriptor for what no test noticed; None: it is not printed."""
        self.statuses: dict[int, int] = {}
        """By index of the mutant; without mutants that must be made before the tests are imported."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        names = {str(file): file for file in self.trees}
        functions: dict[tuple[Path, int], list[FunctionType]] = {}
        cached: dict[tuple[Path, int], list[Any]] = {}
        gc.unfreeze()  # tests/conftest.py froze what was collected
        for one in gc.get_objects():
            function = one.__wrapped__ if isinstance(one, CACHE) else one
            if type(function) is FunctionType and function.__code__.co_filename in names:
                known = functions if function is one else cached
                known.setdefault((names[function.__code__.co_filename], function.__code__.co_firstlineno), []).append(one)
        gc.collect()
        gc.freeze()
        with tempfile.TemporaryFile() as told:
            if tried(600, lambda: self.watched(session, told.fileno())):
                raise pytest.UsageError("the tests fail without any mistake")
            told.seek(0)
            calls: list[tuple[float, set[tuple[Path, int]]]] = pickle.load(told)
        self.seconds = max(self.seconds, int(2 * sum(seconds for seconds, _ in calls)))
        for index, mutant in enumerate(self.chosen):
            key = (mutant.file, mutant.function)
            near = cached.get(key, [])  # it ran for the first test that asked: all tests of its module may ask
            theirs = [key] if not near else [one for one in functions if one[0] == mutant.file]
            about = sorted((seconds, i) for i, (seconds, called) in enumerate(calls) if not called.isdisjoint(theirs))
            changed = compiled(self.trees[mutant.file], mutant)
            code = next((one for one in function_codes(changed) if one.co_firstlineno == mutant.function), None)
            same = [one for one in functions.get(key, ()) if code is not None and one.__code__.co_freevars == code.co_freevars]
            if about and same and code is not None:
                tests = [session.items[i] for _, i in about]
                limit = max(10, int(3 * sum(seconds for seconds, _ in about)))
                self.statuses[index] = tried(limit, lambda: self.replaced(session, same, near, code, tests))  # noqa: B023
                if self.out is not None and not self.statuses[index]:
                    os.write(self.out, f"{mutant}\n".encode())
        return True

    @staticmethod
    def replaced(session: pytest.Session, functions: list[FunctionType], near: list[Any], code: CodeType, tests: list[pytest.Item]) -> int:
        for function in functions:
            function.__code__ = code
        for one in near:
            one.cache_clear()
        for test in tests:
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=None)
            if session.testsfailed:
                return 1
        return 0

    def watched(self, session: pytest.Session, told: int) -> int:
        """Write the duration of each test and the functions of the target that it calls."""
        names = {str(file): file for file in self.trees}
        called: set[tuple[Path, int]] = set()

        def call(frame: FrameType, event: str, argument: object) -> None:
            if frame.f_code.co_filename in names:
                called.add((names[frame.f_code.co_filename], frame.f_code.co_firstlineno))

        calls = []
        for test in session.items:
            called.clear()
            started = time.process_time()
            sys.settrace(call)
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=None)
            sys.settrace(None)
            calls.append((time.process_time() - started, set(called)))
        os.write(told, pickle.dumps(calls))
        return int(session.testsfailed > 0)


def function_codes(code: CodeType) -> Iterator[CodeType]:
    """Functions and methods of a module, without nested functions."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from (one,) if one.co_flags & inspect.CO_OPTIMIZED else function_codes(one)


def prepare(target: Target, scratch: str) -> tuple[list[Path], list[str], list[str]]:
    """Load what all child processes share; return the files to change, pytest's options and the tests."""
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.insert(0, str(ROOT))
    settings.register_profile(
        "mutants", derandomize=True, database=None, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("mutants")
    files = sorted(path for pattern in target.files.split() for path in ROOT.glob(pattern))
    if target.interpreted:
        sys.meta_path.insert(0, importlib.import_module("tests.engine.plain").Engine())
        sys.modules["cython"] = None  # type: ignore[assignment] # as without Cython
    for name in independent(files):
        importlib.import_module(name)
    loaded = {module_name(file) for file in files} & sys.modules.keys()
    assert not loaded, f"{loaded} cannot be changed any more"
    tests = [str(path.relative_to(ROOT)) for pattern in target.tests for path in sorted(ROOT.glob(pattern))]
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:ibdissect", "-W", "ignore", "--basetemp", scratch]
    if target.fast:
        arguments += ["-m", "not slow"]
    if target.codes:
        cases = importlib.import_module("tests.rules.cases").CASES
        for code in sorted(code for code in cases if code.startswith(target.codes)):
            numbers = [""] if len(cases[code]) == 1 else [f"_{i}" for i in range(len(cases[code]))]
            tests = [*(f"{PROOFS}::test_proof[{code}{i}]" for i in numbers), *tests]
    return files, arguments, tests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--sample", type=int, help="that many mutants instead of all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="only mistakes in functions, without the proofs of rules")
    parser.add_argument("--only", default="", help="mutants whose line (FILE:LINE: what) contains this")
    parser.add_argument("--among", type=Path, help="mutants whose lines this file holds: those that an earlier run printed")
    parser.add_argument("--tests", nargs="+", help="glob patterns of the test files that run, instead of those of the target")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        target = TARGETS[options.target]
        if options.quick:
            target = target._replace(tests=tuple(one for one in target.tests if one != PROOFS), codes=())
        if options.tests:
            target = target._replace(tests=tuple(options.tests), codes=(), first=(), built=False)
        files, arguments, tests = prepare(target, scratch)
        trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
        every = [one for file in files for one in mutants(file, trees[file])]
        equal = equivalent(files, every)
        chosen = [one for one in every if options.only in str(one) and (one.function or not options.quick) and one.listed not in equal]
        if options.among is not None:
            earlier = set(options.among.read_text(encoding="utf-8").splitlines())
            chosen = [one for one in chosen if str(one) in earlier]
        if options.sample is not None and options.sample < len(chosen):
            chosen = [chosen[i] for i in sorted(random.Random(options.seed).sample(range(len(chosen)), options.sample))]
        print(f"{len(chosen)} of {len(every)} mutants of {len(files)} files", flush=True)
        statuses, seconds = in_place(chosen, trees, [*arguments, *tests], target.built)
        first = [str(path.relative_to(ROOT)) for pattern in target.first for path in sorted(ROOT.glob(pattern))]
        for index, one in enumerate(chosen):
            if statuses.get(index) or (index in statuses and not target.built):
                continue
            runs = [first] if first and (target.built or index not in statuses or not options.quick) else []
            if index not in statuses and not options.quick:
                runs.append(tests)
            code = compiled(trees[one.file], one)
            found = (tried(seconds, lambda: afresh(one, code, [*arguments, *some])) for some in runs)  # noqa: B023
            statuses[index] = next((status for status in found if status), 0)
            if not statuses[index]:
                print(one, flush=True)
    killed, hung = sum(map(bool, statuses.values())), sum(status < 0 for status in statuses.values())
    print(f"killed {killed} of {len(chosen)} ({100 * killed / max(1, len(chosen)):.1f} %), {hung} by the limits of time and memory")
    return 0


def equivalent(files: Sequence[Path], every: Sequence[Mutant]) -> set[tuple[str, str, str]]:
    """Those of `every` that rows of EQUIVALENT describe; prints the rows about `files` that describe none."""
    names, found = [str(file.relative_to(ROOT)) for file in files], set()
    by_mistake: dict[str, set[tuple[str, str, str]]] = {}
    for one in every:
        by_mistake.setdefault(one.listed[2], set()).add(one.listed)
    with EQUIVALENT.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            some = by_mistake.get(row["mistake"], set())
            here = {one for one in some if fnmatchcase(one[0], row["file"]) and fnmatchcase(one[1], row["function"])}
            found |= here
            if not here and any(fnmatchcase(name, row["file"]) for name in names):
                print("listed as equivalent, and no mutant:", *row.values())
    return found


def in_place(
    chosen: Sequence[Mutant], trees: dict[Path, ast.Module], arguments: list[str], tried_again: bool
) -> tuple[dict[int, int], int]:
    """Statuses of mutants in functions that tests call, and the limit of seconds; prints those that are not `tried_again`.

    Runs in a child, so that this process never imports the target.
    """
    with tempfile.TemporaryFile() as told:

        def run() -> int:
            plugin = InPlace(chosen, trees, 30, None if tried_again else os.dup(1))
            silent()
            status = int(pytest.main(arguments, [plugin]))
            told.write(pickle.dumps((plugin.statuses, plugin.seconds)))
            told.flush()
            return status

        child = os.fork()
        if not child:
            os._exit(run())
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the tests fail, or cannot be run, without any mistake")
        told.seek(0)
        statuses, seconds = pickle.load(told)
    return statuses, seconds


if __name__ == "__main__":
    sys.exit(main())
