"""The terminal UI served to a browser without letting others in: textual-serve, for requests from its own page only."""

from __future__ import annotations

import logging
import os
import re
import secrets
from contextlib import suppress
from typing import Any

from aiohttp import web
from textual_serve.server import Server

DEFAULT_PORT = 80
"""Browsers omit this port from the Host and Origin headers."""
MAX_CELLS = 1000
"""Largest width and height of a terminal: one of 100,000 by 100,000 cells would need gigabytes."""

SHEET = re.compile(r"<link\b[^>]*\bhref\s*=\s*[\"']?\s*(?:https?:)?//([^/\s\"'>]*)[^>]*>", re.IGNORECASE)
"""A style sheet with its host: textual-serve's page asks another one for a font."""
FOCUS = """<script>
const waiting = setInterval(() => {
  const keys = document.querySelector(".xterm-helper-textarea");
  keys?.focus();
  if (keys && document.activeElement === keys) clearInterval(waiting);
}, 50);
</script>"""
"""The terminal takes keys as soon as it is there; textual-serve's page would wait for a click."""

NO_MESSAGE = (AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What textual-serve raises for a message of a browser that is none. It would print its variables, with the secret word."""


class LocalServer(Server):  # type: ignore[misc, unused-ignore]  # where textual-serve is not installed
    """Serves one command on the loopback interface, below a path that is a secret word: whoever holds the page's address may ask.

    The terminal UI can write files, so neither pages of other sites nor other users of this machine may open it. There is no
    cookie: a browser would send it to every other server on this host, whatever its port.
    """

    def __init__(self, command: str, host: str, port: int, title: str) -> None:
        self.word = secrets.token_urlsafe(16)
        self.screens = set[Any]()
        """The processes that draw for the browsers."""
        super().__init__(command, host=host, port=port, title=title)
        self.allowed = frozenset({host} if port == DEFAULT_PORT else ()) | {f"{host}:{port}"}
        self.address = f"http://{host}:{port}/{self.word}/"
        """The address to open, with the secret word."""
        self.policy = (
            "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
            f"img-src 'self' data:; connect-src 'self' ws://{host}:{port}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        """Keeps the browser from fetching anything from elsewhere."""
        logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # the access log would contain the secret word
        logging.getLogger("aiohttp.server").addFilter(_without_traceback)  # other users of the machine can send what is no request

    async def _make_app(self) -> Any:
        app = web.Application(middlewares=[self._only_own_page])
        app.add_subapp(f"/{self.word}", await super()._make_app())
        return app

    @web.middleware  # type: ignore[untyped-decorator, unused-ignore]  # where aiohttp is not installed
    async def _only_own_page(self, request: web.Request, handler: Any) -> Any:
        """Refuse foreign host names that resolve to this machine (DNS rebinding), pages of other sites (Origin), a wrong word."""
        origin = request.headers.get("Origin")
        if request.host not in self.allowed or (origin is not None and origin.removeprefix("http://") not in self.allowed):
            raise web.HTTPForbidden(text="This page is for this machine alone.")
        word = request.path.partition("/")[2].partition("/")[0]  # empty for `OPTIONS *`
        if not secrets.compare_digest(word.encode(errors="replace"), self.word.encode()):
            raise web.HTTPForbidden(text="Open the whole address that `ibdissect serve` printed.")
        if any(_cells(request.query.get(side, "1")) is None for side in ("width", "height")):
            raise web.HTTPBadRequest(text=f"A terminal has 1 to {MAX_CELLS} columns and lines.")
        response = await handler(request)
        if response.content_type == "text/html":
            response.text = SHEET.sub(self._own, response.text).replace("</body>", f"{FOCUS}</body>")
        if not response.prepared:
            response.headers["Content-Security-Policy"] = self.policy
            response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def _own(self, link: re.Match[str]) -> str:
        return link[0] if link[1] in self.allowed else ""

    async def _process_messages(self, websocket: Any, app_service: Any) -> None:
        resize = app_service.set_terminal_size

        async def bounded(width: object, height: object) -> None:
            columns, lines = _cells(width), _cells(height)
            if columns is not None and lines is not None:
                await resize(columns, lines)

        app_service.set_terminal_size = bounded
        screen = app_service._process
        self.screens.add(screen)
        try:
            with suppress(*NO_MESSAGE):
                await super()._process_messages(websocket, app_service)
        finally:
            self.screens.discard(screen)
            _end(screen)  # textual-serve only tells it to leave, which it does not read while it loads

    def request_exit(self) -> None:
        """End at once with all screens: aiohttp would wait a minute for browsers that stay."""
        for screen in self.screens:
            _end(screen)
        os._exit(0)

    async def on_startup(self, app: Any) -> None:
        """Print nothing: the command has printed the address."""


def _without_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


def _end(screen: Any) -> None:
    with suppress(ProcessLookupError):
        screen.terminate()


def _cells(value: object) -> int | None:
    """A width or height of a terminal; None if it is none."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 5 and 0 < int(text) <= MAX_CELLS else None
