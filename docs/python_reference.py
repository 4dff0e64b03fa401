"""The Python interface: the text of docs/python.md, from docstrings, with examples that it runs."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import ibdissect
from ibdissect.dissect.tree import Node, Tree
from ibdissect.lint.finding import Finding
from ibdissect.python_interface import Capture, Frame
from ibdissect.tables.capture_table import CaptureTable
from ibdissect.tables.columns import Column, Columns
from ibdissect.tables.connections import ConnectionTable
from ibdissect.tables.findings import FindingsTable

REPO = Path(__file__).resolve().parents[1]
HEAD = """# Python

Made from the docstrings; a test keeps it current, and runs the examples. A tour is
[examples/tour.ipynb](examples/tour.ipynb) as a notebook, [examples/tutorial.py](examples/tutorial.py) as a script. Names of fields are
those of filters: `ibdissect fields` lists them. Errors are `ibdissect.errors.IbdissectError` and its subclasses, which say what to do.
"""
CLASSES: tuple[type[Any], ...] = (Capture, Frame, Columns, Column, ConnectionTable, FindingsTable, CaptureTable, Finding, Tree, Node)
HIDDEN = {
    "chunks", "table_of", "table_at", "tables", "learn", "number_keys", "presenter", "finish", "report", "answers", "codes", "state",
    "selected", "hosts", "masker", "services", "keys_to", "reader", "read", "secrets", "template", "stable", "arguments", "struct", "raw",
    "masked",
}  # fmt: skip
"""What the package itself uses."""
EXAMPLES: dict[str, str] = {
    "Capture": """
capture = ibdissect.open("captures/pkey-lab.pcap")
for frame in capture:
    if frame.number == 31:
        print(frame.number, frame.time_ns, len(frame.data), frame.link)
""",
    "Capture.dissect": """
tree = capture.dissect(31)
print(tree.summary.source, "->", tree.summary.destination, tree.summary.info)
print([node.label for node in tree.layers])
""",
    "Capture.lint": """
for finding in capture.lint(select="PKY", ignore="PKY021", filter="frame.number < 34"):
    print(finding.frame, finding.code, finding.severity.value, finding.name)
""",
    "Capture.findings": """
import duckdb
findings = capture.findings()
print(duckdb.sql("select code, count(*) from findings group by 1 order by 1").fetchall())
""",
    "Capture.connection_table": """
import duckdb
connections = ibdissect.open("captures/rxe-rping.pcap").connection_table()
print(duckdb.sql("select source, destination, verdict, messages, bytes from connections").fetchall())
""",
    "Capture.requests": """
import duckdb
waits = capture.requests()
print(duckdb.sql("select request, count(*), max(response_time) from waits group by 1 order by 1").fetchall())
""",
    "Capture.sql": """
print(capture.sql("select mad_method, count(*) as mads from mads group by 1 order by 1").to_pylist())
""",
    "Columns": """
table = capture.table()
keys = table["bth.p_key"]
print(keys.frame[-3:].tolist(), [hex(key) for key in keys.value[-3:].tolist()])
""",
    "Columns.filter": """
print(table.filter("mad.method == 0x81").filter("portinfo").frames().tolist())
""",
    "Columns.select": """
rows = table.filter("ibdissect.code").select("frame.number", "frame.time_delta", "ibdissect.code", "_ws.col.info")
for row in rows:
    print(*row.values())
print(duckdb.sql('select count(*), min("frame.number") from rows').fetchall())
""",
    "Columns.to_arrow": """
print(table.to_arrow("frame.number", "lrh.slid", "grh.sgid").schema.types)
""",
}


def page() -> str:
    """The whole page."""
    scope: dict[str, Any] = {"ibdissect": ibdissect}
    signature = inspect.signature(Capture.__init__).replace(return_annotation="Capture")
    parts = [HEAD, f"## ibdissect.open\n\n```python\nibdissect.open{_plain(signature)}\n```\n\n{_doc(Capture.__init__)}\n"]
    for kind in CLASSES:
        parts.append(f"## {kind.__name__}\n\n{_doc(kind)}\n")
        parts += _example(kind.__name__, scope)
        attributes = list(_attributes(kind))
        if attributes:
            parts.append("| attribute | is |\n|---|---|\n" + "".join(f"| `{name}` | {text} |\n" for name, text in attributes))
        for name, method in _methods(kind):
            parts.append(f"### {kind.__name__}.{name}\n\n```python\n{name}{_plain(inspect.signature(method))}\n```\n\n{_doc(method)}\n")
            parts += _example(f"{kind.__name__}.{name}", scope)
    scope["capture"].close()
    return "\n".join(parts)


def _doc(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").strip()


def _plain(signature: inspect.Signature) -> str:
    """A signature without `self`, as the source has it."""
    parameters = [one for name, one in signature.parameters.items() if name != "self"]
    return re.sub(r"(?<!= )'([^']+)'(?!')", r"\1", str(signature.replace(parameters=parameters)).replace("''", '""'))


def _methods(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Public methods, those of base classes in the package behind its own."""
    seen = set(HIDDEN)
    for base in kind.__mro__:
        for name, value in vars(base).items() if base.__module__.startswith("ibdissect") else ():
            if inspect.isfunction(value) and not name.startswith("_") and name not in seen and value.__doc__:
                seen.add(name)
                yield name, value


def _attributes(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """Declared attributes and properties with the text below each."""
    (body,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for line, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not line.target.id.startswith("_"):
            told = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            if line.target.id not in HIDDEN:
                name, text = f"{line.target.id}: {ast.unparse(line.annotation)}", " ".join(str(told).split())
                yield name.replace("|", "\\|"), text.replace("|", "\\|")
    for name, value in vars(kind).items():
        if isinstance(value, property) and not name.startswith("_") and name not in HIDDEN:
            yield name, _doc(value).splitlines()[0]


def _example(name: str, scope: dict[str, Any]) -> list[str]:
    """An example and what it prints."""
    code = EXAMPLES.get(name, "").strip()
    if not code:
        return []
    printed = StringIO()
    with redirect_stdout(printed):
        exec(code, scope)
    return [f"```python\n{code}\n```\n", f"```text\n{printed.getvalue()}```\n"]
