"""Go to a frame number (g); find text, bytes or a filter match (Ctrl+F, n, N)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ibdissect.screen_model.number_text import number
from ibdissect.screen_model.search import FindKind, Query, find, place
from ibdissect.screen_model.threads import Latest

from ..screens.prompt import Prompt
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp


class Searching:
    """Finds frames in a thread; a new search ends the one before."""

    def __init__(self, app: TuiApp) -> None:
        self.app = app
        self.work = Latest()
        self.query: Query | None = None

    def ask_frame(self) -> None:
        total = self.app.model.index.frames

        def check(_: str, text: str) -> str | None:
            digits = text.strip().replace(",", "")
            good = digits.isascii() and digits.isdigit() and 1 <= int(digits[:20]) <= total
            return None if good else f"a number from 1 to {number(total)}"

        prompt = Prompt("Go to frame", check, placeholder=f"1 … {number(total)}")
        self.app.over(prompt, lambda answer: self.app.jump(int(answer[1].replace(",", ""))))

    def ask_query(self) -> None:
        model, old = self.app.model, self.query

        def check(kind: str, text: str) -> str | None:
            if not text.strip():
                return "type what to look for"
            if kind == FindKind.HEX:
                try:
                    Query.hexadecimal(text)
                except ValueError as error:
                    return str(error)
            reason = model.filter(text)[1] if kind == FindKind.FILTER else None
            return reason.reason if reason is not None else None

        def done(answer: tuple[str, str]) -> None:
            kind, text = FindKind(answer[0]), answer[1]
            self.query = Query(kind, text, model.filter(text)[0] if kind is FindKind.FILTER else None)
            self.again(forward=True)

        prompt = Prompt("Find", check, kinds=tuple(FindKind), kind=old.kind if old else "", value=old.text if old else "", anew=True)
        self.app.over(prompt, done)

    def again(self, *, forward: bool) -> None:
        if self.query is None:
            self.ask_query()
            return
        app, query, packets = self.app, self.query, self.app.main.packets
        rows, row = packets.rows, packets.cursor

        def work(wanted: Callable[[], bool]) -> None:
            found = find(app.model, rows, query, row, forward=forward, wanted=wanted)
            if wanted():
                app.call_later(self._ended, query, found)

        app.main.key_bar.say("searching…", stays=True)
        self.work.run(work, "find", self.app.model)

    def _ended(self, query: Query, found: tuple[int, bool] | None) -> None:
        keys, packets = self.app.main.key_bar, self.app.main.packets
        if found is None:
            keys.say(f"{query.kind.value} not found: {query.text}")
            return
        packets.highlight = query.text.casefold() if query.kind is FindKind.TEXT else ""
        packets.redraw()
        self.app.jumping.to(packets.rows.frame(found[0]), partial(place, query))
        keys.say("search wrapped around" if found[1] else "")


COMMANDS = (
    Command("g", "Go to frame", lambda app: app.searching.ask_frame(), "Move", "go to a frame number", "go to", 6),
    Command("ctrl+f", "Find text, bytes or a filter", lambda app: app.searching.ask_query(), "Search",
            "find text, bytes in hex, or a filter", "find", 7),
    Command("n", "Next match", lambda app: app.searching.again(forward=True), "Search", "next, previous match"),
    Command("N", "Previous match", lambda app: app.searching.again(forward=False), "Search", "next, previous match"),
)  # fmt: skip
