"""Pages of the site besides docs/*.md: a page for each rule, the fields, README.md and its neighbours (a hook of mkdocs)."""

from __future__ import annotations

import html
import importlib
import io
import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

import numpy as np  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402

from ibdissect.cli.fields import _rows, where  # noqa: E402
from ibdissect.dissect.info_line import summaries  # noqa: E402
from ibdissect.lint.linter import Linter  # noqa: E402
from ibdissect.lint.rule import Rule  # noqa: E402
from ibdissect.lint.rule_page import markdown, page, summary  # noqa: E402
from ibdissect.pipeline.reading import open_reading  # noqa: E402
from ibdissect.rules import load  # noqa: E402
from ibdissect.wire.catalog import builtin  # noqa: E402

OUTSIDE = {
    "README.md": "index.md", "SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md", "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md", "benchmarks/README.md": "benchmarks.md",
}  # fmt: skip
"""Pages outside docs/, and their names on the site."""
RULES_PAGE = runpy.run_path(str(REPO / "docs/rules_page.py"))["page"]
SHOWN = 8
"""Frames of an example before the one with the fault."""
LINK = re.compile(r"(?<!\\)(!?)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Leave pages out of the navigation that are not there (yet)."""
    made = {*OUTSIDE.values(), "fields.md"}

    def there(entries: list[Any]) -> list[Any]:
        found = []
        for entry in entries:
            ((title, target),) = entry.items()
            if isinstance(target, list):
                found.append({title: there(target)})
            elif target in made or (REPO / "docs" / target).exists():
                found.append(entry)
        return found

    config.nav = there(config.nav)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(REPO / path).read_text(encoding="utf-8")))
    files.append(File.generated(config, "fields.md", content=fields_page()))
    examples = proofs()
    for rule in load():
        files.append(File.generated(config, f"rules/{rule.code}.md", content=rule_page(rule, examples.get(rule.code))))
    return files


def on_page_markdown(text: str, *, page: Any, config: Any, files: Files) -> str:
    """Links as the site needs them: a page outside docs/ under its name there, other files of the repository as text."""
    if page.file.src_uri == "rules.md":
        return str(RULES_PAGE(lambda rule: f"[{rule.code}](rules/{rule.code}.md)"))
    here = next((path for path, name in OUTSIDE.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")

    def link(found: re.Match[str]) -> str:
        sign, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        label = LINK.sub(link, label)
        if "://" in target:
            return found[0]
        path = os.path.normpath(os.path.join(os.path.dirname(here), target))
        name = OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if name is None or files.get_file_from_path(name) is None:
            return label
        return f"{sign}[{label}]({os.path.relpath(name, os.path.dirname(page.file.src_uri) or '.')}{anchor})"

    return LINK.sub(link, text)


def rule_page(rule: type[Rule], proof: Any) -> str:
    """A rule's documentation, and the frames of the capture that proves it."""
    head = f"# {rule.code} {rule.name}\n\n*{rule.severity.value}, since {rule.since}* - {summary(rule)}\n\n"
    return head + markdown(page(rule)) + ("\n\n## Example frames\n\n" + example(rule, proof) if proof is not None else "")


def proofs() -> dict[str, Any]:
    """By code, the first capture that tests/rules has for it."""
    sys.path.insert(0, str(REPO))  # mkdocs takes back what a hook adds while it is loaded
    from tests.rules.cases import CASES

    for path in sorted((REPO / "tests/rules").glob("*/cases.py")):
        importlib.import_module(f"tests.rules.{path.parent.name}.cases")
    return {code: cases[0] for code, cases in CASES.items()}


def example(rule: type[Rule], proof: Any) -> str:
    """What `show` and `lint` print of the capture: the frames up to the first fault, and the finding."""
    from tests.rules.cases import inform

    linter = Linter([rule])
    inform(linter, proof.policy, proof.known)
    lines = []
    with open_reading(io.BytesIO(proof.bad)) as reading:
        for table in reading.tables():
            linter.feed(table)
            lines += [
                f"{table.chunk.first + row:>4}  {one.source} → {one.destination}  {one.protocol}  {one.info}"
                for row, one in enumerate(summaries(table, np.arange(len(table))))
            ]
        linter.context.damage = [*reading.damage, *proof.damage]
        found = linter.finish()
        for finding in found:
            reading.finish(finding)
    first = found[0]
    last = max(first.frame, 1)
    shown = lines[max(0, last - SHOWN) : last]
    text = "\n".join(html.escape(line, quote=False) for line in shown)
    marked = f", bytes {first.spans[0].offset} to {first.spans[0].offset + first.spans[0].length - 1}" if first.spans else ""
    said = html.escape(first.message, quote=False)
    return f"<pre><code>{text}</code></pre>\n\n<p>Frame {first.frame}{marked}: {said}</p>\n"


def fields_page() -> str:
    """All filter names, by structure."""
    lines = ["# Fields", "", "Names for `-Y`, `-e`, `export`, SQL and Python; `ibdissect fields PREFIX` lists them, too."]
    catalog = builtin()
    for struct in sorted(catalog.structs, key=lambda one: one.__name__):
        rows = _rows(struct, catalog.computed.get(struct, ()))
        if rows:
            lines += ["", f"## {struct.__name__}", "", f"{where(struct)} · {struct.section}", ""]
            lines += ["| name | type | bytes+bits | |", "|---|---|---|---|"]
            lines += [f"| `{row['name']}` | {row['type']} | {row['bits']} | {html.escape(row['label'])} |" for row in rows]
    return "\n".join(lines)
