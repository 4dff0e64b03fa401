"""HTML pages as tests read them: their elements, that they are well-formed, and that nothing in them leads to a network."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input"}
SHAPES = {"rect", "line", "path", "polygon", "polyline", "circle"}
"""Elements that the drawings write as `<rect/>`."""
LOADING = {"img", "iframe", "object", "embed", "form", "base", "audio", "video", "source", "image", "use"}


class Page(HTMLParser):
    """A parsed page; AssertionError for elements that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.said: list[str] = []
        self.inline: dict[str, str] = {"style": "", "script": ""}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SHAPES, tag
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.inline:
            self.inline[self.open[-1]] += data
        else:
            self.said.append(data)

    @property
    def text(self) -> str:
        """All text, white space joined."""
        return " ".join("".join(self.said).split())

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        """The attributes of all elements with a tag, and of these with such attributes (`class_` holds a word)."""
        words = wanted.pop("class_", "").split()
        found = [attrs for name, attrs in self.tags if name == tag]
        found = [attrs for attrs in found if set(words) <= set(attrs.get("class", "").split())]
        return [attrs for attrs in found if all(attrs.get(name) == value for name, value in wanted.items())]

    def svgs(self) -> list[ET.Element]:
        """The drawings; ParseError if one is not well-formed."""
        return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", self.source, re.S)]


def safe(text: str) -> Page:
    """The page, after looking whether it could load, send or run anything but its own."""
    page = Page(text)
    (policy,) = (meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    hashes = {kind: b64encode(sha256(page.inline[kind].encode()).digest()).decode() for kind in page.inline}
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert len(page.all("style")) == len(page.all("script")) == 1
    assert not LOADING & {tag for tag, _ in page.tags}
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    known = set(ids)
    assert len(ids) == len(known)
    for tag, attrs in page.tags:
        assert not any(name.startswith("on") or name in ("style", "src", "srcdoc", "action", "xlink:href") for name in attrs), (tag, attrs)
        if "href" in attrs:
            assert attrs["href"] == "data:," or (attrs["href"][:1] == "#" and attrs["href"][1:] in known), attrs
        assert "aria-labelledby" not in attrs or attrs["aria-labelledby"] in known, attrs
    assert "url(" not in page.inline["style"] and "@import" not in page.inline["style"]
    assert not re.search(r"innerHTML|eval|fetch|XMLHttp|import\(|document\.write", page.inline["script"])
    page.svgs()
    return page
