"""How is the terminal UI served to a browser without letting others in? textual-serve, for requests from its own page only."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from aiohttp import web
from textual_serve.server import Server

DEFAULT_PORT = 80
"""Browsers omit this port from the Host and Origin headers."""


OWN_STYLES = "style-src 'self' 'unsafe-inline'; font-src 'self' data:"
"""Keeps the browser from fetching the external style sheet that textual-serve's page links to."""


class LocalServer(Server):  # type: ignore[misc, unused-ignore]  # where textual-serve is not installed
    """Serves one command on the loopback interface to clients that know the secret word in the address; a cookie keeps it.

    The terminal UI can write files, so neither pages of other sites nor other users of this machine may open it.
    """

    def __init__(self, command: str, host: str, port: int, title: str) -> None:
        super().__init__(command, host=host, port=port, title=title)
        self.allowed = frozenset({host} if port == DEFAULT_PORT else ()) | {f"{host}:{port}"}
        self.word = secrets.token_urlsafe(16)
        self._cookie = f"ibdissect-{port}"  # cookies are shared by all ports of a host
        self.address = f"http://{host}:{port}/?word={self.word}"
        """The address to open, with the secret word."""
        logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # the access log would contain the secret word

    async def _make_app(self) -> Any:
        app = await super()._make_app()
        app.middlewares.append(self._only_own_page)
        return app

    @web.middleware  # type: ignore[untyped-decorator, unused-ignore]  # where aiohttp is not installed
    async def _only_own_page(self, request: web.Request, handler: Any) -> Any:
        """Refuse foreign host names that resolve to this machine (DNS rebinding), pages of other sites (Origin), a wrong word."""
        origin = request.headers.get("Origin")
        if request.host not in self.allowed or (origin is not None and origin.removeprefix("http://") not in self.allowed):
            raise web.HTTPForbidden(text="This page is for this machine alone.")
        entering = request.path == "/" and "word" in request.query
        known = request.query["word"] if entering else request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(known.encode(), self.word.encode()):
            raise web.HTTPForbidden(text="Open the whole address that `ibdissect serve` printed.")
        response = await handler(request)
        if request.path == "/":
            response.headers["Content-Security-Policy"] = OWN_STYLES
        if entering:
            response.set_cookie(self._cookie, self.word, httponly=True, samesite="Strict")
        return response

    async def on_startup(self, app: Any) -> None:
        """Print nothing: the command has printed the address."""
