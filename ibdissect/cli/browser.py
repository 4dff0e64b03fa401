"""How is the terminal UI put into a browser without letting anybody else in? textual-serve, for requests of its own page only."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from textual_serve.server import Server

DEFAULT_PORT = 80
"""A browser leaves it out where it says which page asks for what."""


class LocalServer(Server):  # type: ignore[misc, unused-ignore]  # where textual-serve is not installed
    """Serves one command on the loopback interface. The screen can write files, so no other site's page may open it."""

    def __init__(self, command: str, host: str, port: int, title: str) -> None:
        super().__init__(command, host=host, port=port, title=title)
        names = (host, "localhost")
        self.allowed = frozenset(names if port == DEFAULT_PORT else ()) | {f"{name}:{port}" for name in names}

    async def _make_app(self) -> Any:
        app = await super()._make_app()
        app.middlewares.append(self._only_own_page)
        return app

    @web.middleware
    async def _only_own_page(self, request: web.Request, handler: Any) -> Any:
        """Refuse names that resolve to this machine but are not its own (DNS rebinding), and pages of other sites (their Origin)."""
        origin = request.headers.get("Origin")
        if request.host not in self.allowed or (origin is not None and origin.removeprefix("http://") not in self.allowed):
            raise web.HTTPForbidden(text="This page is for this machine alone.")
        return await handler(request)

    async def on_startup(self, app: Any) -> None:
        """Say nothing: the command has said where it is."""
