"""The application: puts the parts together, binds the keys, starts and ends the threads."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable
from functools import partial

from rich.text import Text
from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.driver import Driver
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Input

from ibdissect.lint.finding import Finding
from ibdissect.session.check import Options
from ibdissect.study import threads
from ibdissect.study.background import Snapshot, Study
from ibdissect.study.capture_model import CaptureModel
from ibdissect.study.saved_state import FilterHistory, Profile
from ibdissect.wire.text import printable

from . import themes
from .drivers import end_in_time
from .keys import coloring, columns, explaining, filtering, following, jumping, keeping, searching
from .keys.command import Command
from .keys.filtering import Filtering
from .keys.following import Following
from .keys.jumping import Jumping
from .keys.searching import Searching
from .main_screen import MainScreen
from .screens import conversations, fabric, findings_summary, ladder, page, statistics, time_chart
from .screens.choice import Choice
from .screens.prompt import Prompt

LOOK = 0.1
"""Seconds between two looks at what the threads have done, while they do something."""
COMMANDS: tuple[Command, ...] = (
    *filtering.COMMANDS,
    *searching.COMMANDS,
    *following.COMMANDS,
    *jumping.COMMANDS,
    *explaining.COMMANDS,
    findings_summary.COMMAND,
    statistics.COMMAND,
    time_chart.COMMAND,
    conversations.COMMAND,
    ladder.COMMAND,
    fabric.COMMAND,
    Command("x", "Bytes pane", lambda app: app.main.toggle("bytes"), "Look", "bytes pane"),
    *columns.COMMANDS,
    *coloring.COMMANDS,
    *keeping.COMMANDS,
    Command("question_mark,f1", "Help", lambda app: app.push_screen(page.help_page(COMMANDS)), word="help", rank=-3),
    Command("q,ctrl+c", "Quit", lambda app: app.exit(), "Keep", "quit", "quit", -4),
)
"""Everything that a key of the main screen does: a new screen adds a line here."""
BY_KEYS = {command.keys: command for command in COMMANDS}
TYPED = ("slash", "g", "ctrl+f")
"""Bound with priority: what is typed right after it must find the focus moved. Where text is typed, it is text."""


class TuiApp(App[None]):
    """A capture on the screen. `run` it; the model is closed when it ends."""

    CSS_PATH = "ibdissect.tcss"
    TITLE = "ibdissect"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS = [
        Binding(one.keys, f"command('{one.keys}')", one.title, show=False, priority=one.keys in TYPED) for one in COMMANDS
    ]  # fmt: skip

    def __init__(
        self, model: CaptureModel, load: Callable[[], Options], *, display_filter: str = "", history: FilterHistory | None = None,
        memory: Profile | None = None, driver: type[Driver] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(driver_class=driver)
        self.model, self.study = model, Study(model, load)
        self.history = history if history is not None else FilterHistory()
        self.memory = memory if memory is not None else Profile().last()
        self.first_filter = display_filter
        self.main: MainScreen = MainScreen(self, COMMANDS)
        """The screen with the panes, whatever stands on it."""
        self.filtering: Filtering = Filtering(self)
        self.searching: Searching = Searching(self)
        self.following: Following = Following(self)
        self.jumping: Jumping = Jumping(self)
        self._look_soon = False
        self.scroll_sensitivity_y = 3.0

    def get_default_screen(self) -> Screen[None]:
        return self.main

    # -- start and end

    def on_mount(self) -> None:
        for theme in themes.THEMES:
            self.register_theme(theme)
        self._recall_theme()
        threading.excepthook = self._thread_failed
        threads.start(lambda: self.model.scan(self.news), "scan")
        # The first rows come first.
        self.set_timer(0.25, lambda: threads.start(lambda: self.study.run(self.news), "study"))
        if not self.is_headless:
            end_in_time(self.exit)
        self.set_timer(0.02, self.main.look)
        if self.first_filter:
            self.main.filter_bar.put(self.first_filter)
            self.filtering.apply(self.first_filter)

    def on_unmount(self) -> None:
        threading.excepthook = threading.__excepthook__
        self.model.close()
        self.study.close()

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
        """Have `use` called with the numbers so far, soon."""

        def ready(shot: Snapshot) -> None:
            self.call_later(use, shot)

        self.study.want(ready)

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """A traceback must not be written over the screen."""
        if not self.model.stopped:
            name = failure.thread.name if failure.thread is not None else "a thread"
            self.call_later(self.failed, f"{name} ended: {failure.exc_type.__name__}: {failure.exc_value}")

    def failed(self, text: str) -> None:
        """Say that something failed that must not."""
        self.model.error = printable(text)
        self.warn(f"{text}; please report this")
        self.news()

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where text is typed, "/" and "g" are text; on other screens "/" searches."""
        if action == "command" and parameters[0] in TYPED:
            return self.screen is self.main and not isinstance(self.focused, Input)
        return super().check_action(action, parameters)

    def action_command(self, keys: str) -> None:
        BY_KEYS[keys].run(self)

    async def on_event(self, event: events.Event) -> None:
        """What is typed before a prompt is drawn is kept for it."""
        early = self.screen.early if isinstance(event, events.Key) and self._screen_stack and isinstance(self.screen, Prompt) else None
        if isinstance(event, events.Key) and not event.is_forwarded and early is not None:
            early.append("\n" if event.key == "enter" else event.character or "" if event.is_printable else "")
        else:
            await super().on_event(event)

    def action_menu(self) -> None:
        """What can be done, at a click with the right button."""
        entries = [(one.keys, one.title, one.key) for one in COMMANDS if one.group in ("Search", "Follow", "Findings", "Keep")]
        self.push_screen(Choice("", entries), lambda keys: self.action_command(keys) if keys else None)

    async def action_quit(self) -> None:
        self.exit()

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

    # -- what is said

    def note(self, text: str) -> None:
        self.notify(text, markup=False)

    def warn(self, text: str) -> None:
        self.notify(text, severity="error", markup=False)

    def notify(
        self, message: str, *, title: str = "", severity: SeverityLevel = "information", timeout: float | None = None, markup: bool = True
    ) -> None:
        """Show a note; what a path, a filter or an error put into it cannot steer the terminal. Markup is for Textual's own notes."""
        super().notify(printable(message), title=printable(title), severity=severity, timeout=timeout, markup=markup)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text as it is read: pasted into a shell, a name from a capture must not press Enter."""
        super().copy_to_clipboard(printable(text))

    def _fatal_error(self) -> None:
        """Say where it failed and why. Textual would show the local variables, too: bytes of frames, keys among them."""
        self.panic(Text("\n".join(map(printable, traceback.format_exc().split("\n")))))

    # -- how it looks

    def use(self, profile: Profile) -> None:
        """Look as a profile says, and remember there what is changed."""
        self.memory = profile
        self._recall_theme()
        self.main.recall()
        self.main.lay_out()
        self.main.packets.set_columns(self.main.packets.columns)
        self.main.key_bar.say(f"profile: {profile.name or 'default'}")

    def _recall_theme(self) -> None:
        wanted = self.memory.look.setdefault("theme", "ibdissect-dark")  # nothing is written before it is changed
        self.theme = wanted if wanted in self.available_themes else "ibdissect-dark"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Names that the style sheet uses, for themes that lack them."""
        return themes.defaults(self.current_theme.dark)

    def get_css_variables(self) -> dict[str, str]:
        """Colours of the theme; those of text can be read."""
        return themes.with_contrast(super().get_css_variables())

    def watch_theme(self, theme: str) -> None:
        self.set_class(theme == "ibdissect-contrast", "contrast")
        if self.is_running:
            self.memory.keep("theme", theme)
