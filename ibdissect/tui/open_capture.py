"""An open capture on the screen: its frames, its study, its screen, and the commands there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ibdissect.pipeline.check import CheckOptions
from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.kept_marks import KeptMarks
from ibdissect.screen_model.threads import Work
from ibdissect.wire.text import counted

from .keys.filtering import Filtering
from .keys.following import Following
from .keys.jumping import Jumping
from .keys.searching import Searching
from .main_screen import MainScreen

if TYPE_CHECKING:
    from .app import TuiApp
    from .keys.command import Command


class OpenCapture:
    """An open capture, read when it is shown for the first time. Its screen is the base of a mode of the application."""

    def __init__(
        self, app: TuiApp, model: CaptureModel, load: Callable[[], CheckOptions], commands: Sequence[Command], mode: str
    ) -> None:  # fmt: skip
        self.model, self.study = model, BackgroundAnalysis(model, load)
        self.main = MainScreen(app, model, self.study, commands)
        self.filtering, self.searching = Filtering(app), Searching(app)
        self.following, self.jumping = Following(app), Jumping(app)
        self.mode, self.started = mode, False
        self.kept = KeptMarks(model, app.memory.path.parent if app.memory.path is not None else None)
        """Marks and notes of the last run, and those for the next one."""

    @property
    def name(self) -> str:
        return self.model.path.rpartition("/")[2]

    def start(self, app: TuiApp, display_filter: str, frame: int = 0) -> None:
        """Read the capture in threads, with a filter applied, and select a frame as soon as it is there."""
        self.started = True
        if count := self.kept.recall():
            self.main.key_bar.note = f"{counted(count, 'frame')} marked or noted in the last run"
        Work(lambda: self.model.scan(app.news), "scan", self.model).start()
        # The first rows come first.
        app.set_timer(0.25, Work(lambda: self.study.run(app.news), "study", self.model).start)
        app.set_timer(0.02, self.main.look)
        if display_filter:
            self.main.filter_bar.put(display_filter)
            self.filtering.apply(display_filter)
        if frame:
            self.filtering.stay_at(frame)

    def close(self) -> None:
        self.kept.keep()
        self.model.close()
        self.study.close()
