"""How is the terminal UI put into a browser without letting anybody else in? textual-serve, for requests of its own page only."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from aiohttp import web
from textual_serve.server import Server

DEFAULT_PORT = 80
"""A browser leaves it out where it says which page asks for what."""


OWN_STYLES = "style-src 'self' 'unsafe-inline'; font-src 'self' data:"
"""textual-serve's page names a style sheet of another site: nothing is fetched from there."""


class LocalServer(Server):  # type: ignore[misc, unused-ignore]  # where textual-serve is not installed
    """Serves one command on the loopback interface, to whoever knows the address with the word in it, once he has been there.

    The screen can write files, so neither another site's page nor another user of this machine may open it.
    """

    def __init__(self, command: str, host: str, port: int, title: str) -> None:
        super().__init__(command, host=host, port=port, title=title)
        self.allowed = frozenset({host} if port == DEFAULT_PORT else ()) | {f"{host}:{port}"}
        self.word = secrets.token_urlsafe(16)
        self._cookie = f"ibdissect-{port}"  # cookies do not tell ports apart
        self.address = f"http://{host}:{port}/?word={self.word}"
        """What a person opens."""
        logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # every request is logged with the word in it

    async def _make_app(self) -> Any:
        app = await super()._make_app()
        app.middlewares.append(self._only_own_page)
        return app

    @web.middleware  # type: ignore[untyped-decorator, unused-ignore]  # where aiohttp is not installed
    async def _only_own_page(self, request: web.Request, handler: Any) -> Any:
        """Refuse names that resolve to this machine but are not its own (DNS rebinding), pages of other sites (their Origin), strangers."""
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
        """Say nothing: the command has said where it is."""
