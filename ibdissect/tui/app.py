"""The application: open captures, keys, results of the threads, and the look of the screen."""

from __future__ import annotations

import itertools
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from rich.text import Text
from textual import events
from textual.app import SystemCommand
from textual.binding import Binding
from textual.driver import Driver
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Input

from ibdissect.capture.file_names import files_of
from ibdissect.errors import CaptureError
from ibdissect.lint.finding import Finding
from ibdissect.pipeline.check import CheckOptions
from ibdissect.screen_model.background_analysis import BackgroundAnalysis, Snapshot
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.decode_as import Decoding
from ibdissect.screen_model.saved_state import FilterHistory, Profile
from ibdissect.screen_model.threads import Work
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.text import printable

from .drivers import end_in_time
from .keys import captures, coloring, columns, comparing, explaining, filtering, following, jumping, keeping, menu, preferences, searching
from .keys.command import Command
from .keys.explaining import Configuration
from .keys.filtering import Filtering
from .keys.following import Following
from .keys.jumping import Jumping
from .keys.searching import Searching
from .main_screen import MainScreen
from .messages import Sized, ValueClicked, ValuesWanted
from .open_capture import OpenCapture
from .screens import connections, conversations, fabric, findings_summary, ladder, page, statistics, sweeps, time_chart
from .screens.choice import Choice
from .screens.prompt import Prompt
from .themes import ThemedApp

Answer = TypeVar("Answer")
LOOK = 0.1
"""Seconds between two polls of the threads while they work."""
LOST = 3.0
"""Seconds after which a key that the filter bar was to read has gone elsewhere."""
COMMANDS: tuple[Command, ...] = (
    *filtering.COMMANDS,
    *searching.COMMANDS,
    *following.COMMANDS,
    *jumping.COMMANDS,
    *explaining.COMMANDS,
    findings_summary.COMMAND,
    statistics.COMMAND,
    time_chart.COMMAND,
    connections.COMMAND,
    conversations.COMMAND,
    ladder.COMMAND,
    fabric.COMMAND,
    sweeps.COMMAND,
    Command("x", "Bytes pane", lambda app: app.main.toggle("bytes"), "Look", "bytes pane"),
    *columns.COMMANDS,
    *coloring.COMMANDS,
    *preferences.COMMANDS,
    *captures.COMMANDS,
    *comparing.COMMANDS,
    *menu.COMMANDS,
    *keeping.COMMANDS,
    Command("question_mark,f1", "Help", lambda app: app.push_screen(page.help_page(COMMANDS)), word="help", rank=-3),
    Command("q,ctrl+c", "Quit", keeping.leave, "Keep", "quit", "quit", -4),
)
"""Everything that a key of the main screen does: a new screen adds a line here."""
BY_KEYS = {command.keys: command for command in COMMANDS}
TYPED = ("slash", "g", "ctrl+f")
"""Bound with priority: the focus must have moved before the next key is typed. In an input, these keys are text."""


class TuiApp(ThemedApp):
    """Captures on the screen. `run` it; they are closed when it ends."""

    TITLE = "ibdissect"
    ENABLE_COMMAND_PALETTE = True
    DEFAULT_MODE = "capture 1"
    BINDINGS = [
        Binding(one.keys, f"command('{one.keys}')", one.title, show=False, priority=one.keys in TYPED) for one in COMMANDS
    ]  # fmt: skip

    capture: OpenCapture
    """The one that is shown; the next attributes are parts of it."""
    model: CaptureModel
    study: BackgroundAnalysis
    main: MainScreen
    filtering: Filtering
    searching: Searching
    following: Following
    jumping: Jumping

    def __init__(
        self, models: Sequence[CaptureModel], load: Callable[[], CheckOptions], *, display_filter: str = "",
        history: FilterHistory | None = None, memory: Profile | None = None, driver: type[Driver] | None = None, fields: Sequence[str] = (),
        configuration: Configuration | None = None,
    ) -> None:  # fmt: skip
        """`fields`: shown as columns beside those of the profile. `configuration`: what silences a rule in all runs; None: nothing does."""
        super().__init__(driver)
        self.load, self.first_filter, self.fields = load, display_filter, fields
        self.configuration = configuration
        self.history = history if history is not None else FilterHistory()
        self.memory = memory if memory is not None else Profile().last()
        self.recent = FilterHistory(self.history.path.with_name("recent") if self.history.path is not None else None, "recent")
        """Paths of captures opened before."""
        self._numbers = itertools.count(1)
        self.captures: list[OpenCapture] = []
        """Those that are open, in the order of their tabs."""
        for model in models:
            self._add(model)
        self._bring(self.captures[0])
        self._look_soon = False
        self._typed_ahead: list[events.Key] = []
        """Keys that came before there was a screen."""
        self._held: list[events.Key] | None = None
        """Keys that wait until the filter bar has read an Enter or Escape; None: none was typed there."""
        self._excepthook = threading.excepthook
        self._begin_with_theme()

    # -- captures

    def _add(self, model: CaptureModel) -> OpenCapture:
        made = OpenCapture(self, model, self.load, COMMANDS, f"capture {next(self._numbers)}")
        self.captures.append(made)
        self.add_mode(made.mode, lambda: made.main)
        return made

    def _bring(self, capture: OpenCapture) -> None:
        """Make a capture the one that keys and screens work on."""
        self.capture, self.model, self.study, self.main = capture, capture.model, capture.study, capture.main
        self.filtering, self.searching = capture.filtering, capture.searching
        self.following, self.jumping = capture.following, capture.jumping

    async def show(self, capture: OpenCapture, display_filter: str = "", frame: int = 0) -> None:
        """Bring a capture to the front; it is read when it is shown for the first time, with a filter and at a frame."""
        self.searching.work.cancel()
        self._bring(capture)
        await self.switch_mode(capture.mode)
        if not capture.started:
            capture.start(self, display_filter, frame)
        self._look_as_remembered()

    async def open(self, model: CaptureModel) -> None:
        """Show one more capture."""
        await self.show(self._add(model))

    async def close(self, capture: OpenCapture | None = None) -> None:
        """Close a capture, the one shown unless it is given; the last one stays."""
        capture = capture or self.capture
        if len(self.captures) > 1:
            at = self.captures.index(capture)
            self.captures.remove(capture)
            if capture is self.capture:
                await self.show(self.captures[max(at - 1, 0)])
            capture.close()
            await self.remove_mode(capture.mode)
            self.main.lay_out()
        else:
            self.note("It is the only capture; q ends the program")

    async def reopen(self, catalog: Catalog | None, *decodings: Decoding) -> None:
        """Read the capture anew with other structures or decodings; filter, frame, marks and notes stay."""
        old, text, frame = self.capture, self.filtering.text, self.main.packets.frame
        try:
            model = old.model.reopened(catalog, decodings)
        except CaptureError as error:
            self.warn(str(error))
            return
        made = self._add(model)
        self.captures.insert(self.captures.index(old), self.captures.pop())
        await self.show(made, text, frame)
        await self.close(old)

    async def action_capture(self, place: int) -> None:
        """A click on a tab."""
        await self.show(self.captures[place])

    # -- start and end

    async def on_mount(self) -> None:
        threading.excepthook = self._thread_failed
        if not self.is_headless:
            end_in_time(self.exit)
            self.take_palette()
            for path in (path for one in self.captures for path in files_of(one.model.source)):
                if path != "-" and os.path.isfile(path):
                    self.recent.add(os.path.abspath(path), path=True)
        await self.show(self.capture, self.first_filter)
        for key in self._typed_ahead:
            self.post_message(key)
        self._typed_ahead.clear()

    def on_unmount(self) -> None:
        threading.excepthook = self._excepthook
        for capture in self.captures:
            capture.close()

    # -- the threads

    def news(self) -> None:
        """Something changed: look soon, at most ten times a second. Any thread may call it."""
        if not self._look_soon:
            self._look_soon = True
            self.call_later(self.set_timer, LOOK, self._look)

    def _look(self) -> None:
        self._look_soon = False
        self.main.look()

    def with_snapshot(self, use: Callable[[Snapshot], object]) -> None:
        """Call `use` soon with the numbers so far."""

        asked = self.study

        def ready(shot: Snapshot) -> None:
            self.call_later(lambda: use(shot) if asked is self.study else None)  # another capture may have been brought to the front

        asked.want(ready)

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """Show the error in place of a traceback. It belongs to the capture of the thread; without one, to the visible capture."""
        thread = failure.thread
        model = thread.model if isinstance(thread, Work) else self.model
        if not model.stopped:
            name = thread.name if thread is not None else "a thread"
            where = "".join(f" of {one.name}" for one in self.captures if one.model is model) if len(self.captures) > 1 else ""
            self.call_later(self.failed, f"{name}{where} ended: {failure.exc_type.__name__}: {failure.exc_value}", model)

    def failed(self, text: str, model: CaptureModel) -> None:
        """Report an internal error."""
        model.error = printable(text)
        self.warn(f"{text}; please report this")
        self.news()

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where text is typed, "/" and "g" are text; on other screens "/" searches."""
        if action == "command" and parameters[0] in TYPED:
            return self.screen is self.main and not isinstance(self.focused, Input)
        return super().check_action(action, parameters)

    def action_command(self, keys: str) -> None:
        self.main.catch_up()
        self.main.key_bar.say_no_more()
        self.clear_notifications()
        BY_KEYS[keys].run(self)

    async def on_event(self, event: events.Event) -> None:
        """Pass keys that were typed before a prompt was drawn to that prompt, and those before the first screen to that screen."""
        if isinstance(event, (events.InputEvent, events.Paste)) and not self._screen_stack:  # Textual would raise an error
            self._typed_ahead += [event] if isinstance(event, events.Key) else []
            return
        if isinstance(event, events.Key) and not event.is_forwarded and self._held is not None:
            self._held.append(event)
            return
        ends = isinstance(event, events.Key) and not event.is_forwarded and event.key in ("enter", "escape")
        if ends and self._screen_stack and self.screen is self.main and self.focused is self.main.filter_bar.input:
            held = self._held = []  # where the next keys go is known when the bar has read this one
            self.set_timer(LOST, lambda: self.play_held() if self._held is held else None)  # a click may have moved the focus before
        early = self.screen.early if isinstance(event, events.Key) and self._screen_stack and isinstance(self.screen, Prompt) else None
        if isinstance(event, events.Key) and not event.is_forwarded and early is not None:
            early.append("\n" if event.key == "enter" else event.character or "" if event.is_printable else "")
        else:
            await super().on_event(event)

    def play_held(self) -> None:
        """Let keys go on that were typed while the filter bar was left: in their order, before any typed later."""

        async def play() -> None:
            held, self._held = self._held or [], None
            for i, key in enumerate(held):
                if self._held is not None:  # one of them was Enter in the filter bar again
                    self._held += held[i:]
                    break
                await self.on_event(key)

        self.call_later(play)

    def action_menu(self) -> None:
        """A click with the right button: about the cell of the list, or the field of the tree."""
        self.main.catch_up()
        packets = self.main.packets
        if self.focused is packets and packets.clicked_column is not None:
            menu.of_cell(self, packets.clicked_column)
        else:
            menu.menu(self)

    async def action_quit(self) -> None:
        keeping.leave(self)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key as a command of the palette."""
        yield from super().get_system_commands(screen)
        for command in COMMANDS:
            yield SystemCommand(command.title, f"key {command.key}", partial(self.action_command, command.keys))

    def jump(self, frame: int | None) -> None:
        """Go to a frame; one that the filter hides is shown without it."""
        self.jumping.to(frame)

    def explain(self, finding: Finding) -> None:
        explaining.explain(self, finding)

    # -- what is asked and said

    def over(self, screen: Screen[Answer | None], use: Callable[[Answer], object]) -> None:
        """Open a screen over this one; `use` its answer, if there is one."""

        def answered(answer: Answer | None) -> None:
            if answer is not None:
                use(answer)

        self.push_screen(screen, answered)

    def choose(self, title: str, entries: list[tuple[str, str, str]], use: Callable[[str], object], otherwise: str = "") -> None:
        """Let the user choose one of some entries (key, what it is, preview); without any, say `otherwise`."""
        if entries:
            self.over(Choice(title, entries), use)
        else:
            self.note(otherwise)

    def note(self, text: str) -> None:
        self.notify(text, markup=False)

    def warn(self, text: str) -> None:
        self.notify(text, severity="error", markup=False)

    def notify(
        self, message: str, *, title: str = "", severity: SeverityLevel = "information", timeout: float | None = None, markup: bool = True
    ) -> None:
        """Show a note; control characters from paths, filters and errors are escaped. Markup is for Textual's own notes."""
        super().notify(printable(message), title=printable(title), severity=severity, timeout=timeout, markup=markup)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text with control characters escaped: a name from a capture must not press Enter when pasted into a shell."""
        super().copy_to_clipboard(printable(text))

    def clear_selection(self) -> None:
        """Take marks off selected text. An input asks for it while it is mounted, before there may be a screen, or after the end."""
        if self._screen_stack:
            super().clear_selection()

    def _fatal_error(self) -> None:
        """Say where it failed and why. Textual would also show local variables, which may hold keys from frames."""
        self.panic(Text("\n".join(map(printable, traceback.format_exc().split("\n")))))

    # -- how it looks

    def on_values_wanted(self, message: ValuesWanted) -> None:
        menu.values(self, message.text)

    def on_value_clicked(self, message: ValueClicked) -> None:
        menu.of_link(self, message.link)

    def on_sized(self, message: Sized) -> None:
        self.memory.keep(message.what, str(message.size))

    def use(self, profile: Profile) -> None:
        """Apply a profile, and remember later changes in it."""
        self.memory = profile
        self.theme = self._remembered_theme()
        self._look_as_remembered()
        self.main.key_bar.say(f"profile: {profile.name or 'default'}")

    def _look_as_remembered(self) -> None:
        self.main.recall()
        self.main.lay_out()
        self.main.packets.set_columns(self.main.packets.columns)
        self.news()  # colors are compiled then, and what happened while another capture was in front is shown

    def _remembered_theme(self) -> str:
        wanted = self.memory.look.setdefault("theme", "ibdissect-dark")  # nothing is written before it is changed
        return wanted if wanted in self.available_themes else "ibdissect-dark"

    def _begin_with_theme(self) -> None:
        """Have the remembered theme from the start: `theme = ...` would read the style sheet twice more."""
        self.set_reactive(TuiApp.theme, self._remembered_theme())
        dark, contrast = self.current_theme.dark, self.theme == "ibdissect-contrast"
        for name, holds in {f"-theme-{self.theme}": True, "-dark-mode": dark, "-light-mode": not dark, "contrast": contrast}.items():
            self.set_class(holds, name, update=False)
        self.stylesheet.set_variables(self.get_css_variables())

    def watch_theme(self, theme: str) -> None:
        self.set_class(theme == "ibdissect-contrast", "contrast")
        if self.is_running:
            self.memory.keep("theme", theme)
