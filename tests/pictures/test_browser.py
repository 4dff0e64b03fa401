"""A real browser shows the page without a complaint, without asking anything of any network, and the script works."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html import escape, unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.report.pages import Page

pytest.importorskip("jinja2")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]


class Site:
    """Serves one page, and remembers what else it was asked for, under whatever host name."""

    def __init__(self) -> None:
        self.page = ""
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                self.send_response(200 if self.path == "/page.html" else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(site.page.encode() if self.path == "/page.html" else b"")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def shown(self, folder: Path, text: str, *options: str) -> tuple[str, list[str]]:
        """The page as the browser has it after its script ran, and what the browser wrote on its console."""
        self.page, self.asked = text, []
        port = self.server.server_address[1]
        assert CHROMIUM is not None
        done = subprocess.run(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--no-first-run",
             "--disable-features=NetworkTimeServiceQuerying,OptimizationHints", "--enable-logging=stderr", "--log-level=0",
             *options, f"--user-data-dir={folder}", f"--host-resolver-rules=MAP * 127.0.0.1:{port}", "--dump-dom",
             f"http://report.example:{port}/page.html#f0-0"],
            capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
        )  # fmt: skip
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def answer(self, folder: Path, text: str, script: str, *options: str) -> Any:
        """What a script in the page makes its title: JSON."""
        text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        dom, _ = self.shown(folder, text.replace("</body>", f"<script>{script}</script></body>"), *options)
        title = re.search("<title>(.*?)</title>", dom)
        assert title is not None
        return json.loads(unescape(title[1]))


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def written(*paths: Path) -> str:
    """The page that `report` writes about captures."""
    page: str = commands.run("report", *map(str, paths), text=True).stdout
    return page


def test_the_page_in_a_browser(site: Site, repo: Path, tmp_path: Path) -> None:
    text = written(repo / "captures/pkey-lab.pcap")
    dom, console = site.shown(tmp_path / "profile", text)
    assert console == [] and site.asked == ["/page.html"]
    found = Page(re.sub(r"<!--.*?-->", "", re.sub(r"<(\w+)([^>]*)></\1>", r"<\1\2></\1>", dom)))
    assert len(found.all("label", class_="filter")) >= 1  # the script adds fields for filters, and buttons that sort
    assert found.all("button", type="button") and "Filter findings" in found.text
    opened = [attrs for attrs in found.all("details", class_="finding") if "open" in attrs]
    assert len(opened) == 1  # the finding that the address names
    # What the browser would say of a page that is not as it should be:
    broken, complaints = site.shown(tmp_path / "profile", text.replace("const value", "const other", 1))
    assert complaints and "Content Security Policy" in complaints[0] and "Filter findings" not in broken
    asking = text.replace("<main>", '<main><img src="http://elsewhere.example/x.png" alt="">').replace("img-src data:", "img-src *")
    site.shown(tmp_path / "profile", asking)
    assert "/x.png" in site.asked


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_the_page(site: Site, repo: Path, tmp_path: Path, scheme: str) -> None:
    """axe-core finds nothing: contrast, names of controls, headings, tables."""
    pytest.importorskip("axe_core_python")
    axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    text = written(repo / "captures/pkey-lab.pcap")
    ask = "axe.run().then(found => document.title = JSON.stringify([found.passes.length, found.violations]))"
    options = ("--virtual-time-budget=20000", f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
    passes, violations = site.answer(tmp_path / "profile", text, f"{axe};{ask}", *options)
    assert violations == [] and passes > 40


def test_a_phone_shows_the_whole_width_and_sorts(site: Site, repo: Path, tmp_path: Path) -> None:
    """What does not fit scrolls by itself; the heads of the findings become a line of buttons."""
    text = written(*(repo / "captures" / name for name in ("pkey-lab.pcap", "rxe-nak-bad-rkey.pcap")))
    # Chromium's own windows are not that narrow.
    frame = f'<title></title><iframe width="390" height="800" scrolling="no" srcdoc="{escape(text)}"></iframe></body>'
    ask = """onload = () => {
      const page = frames[0].document, right = one => one.getBoundingClientRect().right;
      document.title = JSON.stringify([page.documentElement.scrollWidth, [...page.querySelectorAll(".findings thead button")].map(right)]);
    }"""
    width, buttons = site.answer(tmp_path / "profile", frame, ask)
    assert width == 390 and len(buttons) == 7 and max(buttons) <= 390
