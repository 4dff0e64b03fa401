"""Filter, find, go to: everything that moves the packet list to where one wants to be."""

from __future__ import annotations

from textual.widgets import Input

from . import workers
from .filters import as_filter, checked
from .find import FindKind, Query
from .ink import number
from .messages import FilterEntered, FilterLeft, JumpTo, SearchEnded
from .prompt import Prompt
from .rows import FilteredRows
from .view import View


class Search(View):
    """The part of the application that answers the filter bar and the keys g, /, Ctrl+F, n, N, a and p."""

    def on_filter_left(self, _: FilterLeft) -> None:
        self.filter_bar.put(self.filter_text)
        self.leave_filter()

    def leave_filter(self) -> None:
        """Back to the packets."""
        self.main.set_focus(self.packets)
        self.filter_bar.input.can_focus = False

    def on_filter_entered(self, message: FilterEntered) -> None:
        self.leave_filter()
        self.apply_filter(message.text)

    def apply_filter(self, text: str) -> None:
        """Show the frames that a filter matches."""
        matcher, error = checked(text, self.model.catalog, self.model.first_ns)
        if error is not None:
            self.warn(str(error))
            return
        frame = self.packets.frame
        self.filter_text, self.anchor = text, None
        if matcher is None:
            self.filtering.cancel()
            self.packets.show_rows(self.model.rows, frame)
        else:
            rows = FilteredRows()
            self.filtering.run(workers.fill(self.model, rows, matcher), "filter")
            self.packets.show_rows(rows, frame)
            self.anchor = (frame, 0)
        self.set_timer(0.03, self.poll)

    def on_search_ended(self, message: SearchEnded) -> None:
        keys = self.key_bar
        if message.row is None:
            keys.say(f"{message.query.kind.value} not found: {message.query.text}")
            return
        self.packets.select(message.row, center=True)
        self.packets.tell()
        keys.say("search went round" if message.round_ else "")

    def _filter_chosen(self, text: str | None) -> None:
        if text:
            self.filter_bar.put(text)
            self.history.add(text)
            self.apply_filter(text)

    def on_jump_to(self, message: JumpTo) -> None:
        self.jump(message.frame)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where text is typed, "/" is text."""
        return super().check_action(action, parameters) if action != "filter" else not isinstance(self.focused, Input)

    def action_filter(self) -> None:
        bar = self.filter_bar
        bar.input.can_focus = True
        self.main.set_focus(bar.input)  # at once: what is typed next must not go to the list

    def jump(self, frame: int | None) -> None:
        """Go to a frame; one that the filter hides is shown without it."""
        packets = self.packets
        if not frame:
            return
        row = packets.rows.nearest(frame)
        if not len(packets.rows) or packets.rows.frame(row) != frame:
            if self.filter_text:
                self.notify(f"Frame {frame} does not match the filter: showing all frames", markup=False)
                self.filter_bar.put("")
                self.apply_filter("")
            row = packets.rows.nearest(frame)
        packets.select(row, center=True)
        packets.tell()

    def action_go_to(self) -> None:
        total = self.model.index.frames

        def check(_: str, text: str) -> str | None:
            good = text.strip().replace(",", "").isascii() and text.strip().replace(",", "").isdigit()
            return None if good and 1 <= int(text.replace(",", "")) <= total else f"a number from 1 to {number(total)}"

        self.push_screen(
            Prompt("Go to frame", check, placeholder=f"1 … {number(total)}"),
            lambda answer: self.jump(int(answer[1].replace(",", "")) if answer else None),
        )

    def action_find(self) -> None:
        def check(kind: str, text: str) -> str | None:
            if not text.strip():
                return "type what to look for"
            if kind == FindKind.HEX:
                try:
                    Query.hexadecimal(text)
                except ValueError as error:
                    return str(error)
            if kind == FindKind.FILTER:
                error_ = checked(text, self.model.catalog, self.model.first_ns)[1]
                return error_.reason if error_ is not None else None
            return None

        def done(answer: tuple[str, str] | None) -> None:
            if answer is not None:
                kind, text = FindKind(answer[0]), answer[1]
                matcher = checked(text, self.model.catalog, self.model.first_ns)[0] if kind is FindKind.FILTER else None
                self.search_query = Query(kind, text, matcher)
                self.action_again(True)

        old = self.search_query
        self.push_screen(Prompt("Find", check, kinds=tuple(FindKind), kind=old.kind if old else "", value=old.text if old else ""), done)

    def action_again(self, forward: bool) -> None:
        if self.search_query is None:
            self.action_find()
            return
        packets = self.packets

        def tell(ended: SearchEnded) -> None:
            self.post_message(ended)

        self.key_bar.say("searching…")
        self.searching.run(workers.search(self.model, packets.rows, self.search_query, packets.cursor, forward, tell), "find")

    def action_as_filter(self, apply: bool) -> None:
        text = as_filter(self.tree_pane.node)
        if text is None:
            self.notify("Select a field of the tree that has a value; masked keys need --show-keys", markup=False)
            return
        self.filter_bar.put(text)
        if apply:
            self.history.add(text)
            self.apply_filter(text)
        else:
            self.action_filter()
