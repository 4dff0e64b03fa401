"""A page to read: the help, or the explanation of a finding with the frames that prove it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from io import StringIO
from types import MappingProxyType

from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList, Static
from textual.widgets.option_list import Option

from ibdissect.lint.finding import Evidence, Finding, Severity
from ibdissect.lint.rule import Rule
from ibdissect.lint.rule_page import page, summary
from ibdissect.screen_model.linked_values import Link, places
from ibdissect.subnet.node_names import NodeNames
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.text import printable, value_text

from ..keys.command import Command, help_groups, key_text
from ..messages import ValueClicked, ValuesWanted
from ..themes import painted
from .choice import WindowOptions
from .once import EndsOnce

MOVE = (
    ("↑ ↓ PgUp PgDn", "one frame, one page"), ("Home End", "first, last frame"),
    ("Tab  Shift+Tab", "next, previous pane"), ("→ ←", "open, close in the tree; next, previous byte"), ("*", "open the whole tree"),
    ("mouse", "click, wheel; rules between panes and ends of columns are dragged"),
)  # fmt: skip
"""Keys that work in every pane."""
NUMBERS = "What each number means: docs/numbers.md"
HELP, VIEW = 19, 27
"""Cells of the column of keys in the help of the main view, and of another view."""
NAMED = ("Enter", "Tab", "Space", "Esc", "PgDn", "PgUp")
"""Keys with names, as the last line of a view writes them."""
UNSEEN = ("f22",)
"""Names under which some terminals send Shift+F10."""
GROUPS = ("Move", "Search", "Follow", "Findings", "Look", "Keep")
EVIDENCE = {
    Evidence.SEEN: "seen: the packet itself proves it",
    Evidence.LEARNT: "learnt: it contradicts what the capture showed in the frames below",
    Evidence.INFERRED: "inferred: it follows from something learnt later, or is only likely",
}


class FrameList(WindowOptions):
    """The frames below a text; where there is one only, the arrows are those of the text."""

    def action_cursor_up(self) -> None:
        if self.option_count > 1 or not isinstance(self.screen, PageScreen):
            super().action_cursor_up()
        else:
            self.screen.action_scroll(-1)

    def action_cursor_down(self) -> None:
        if self.option_count > 1 or not isinstance(self.screen, PageScreen):
            super().action_cursor_down()
        else:
            self.screen.action_scroll(1)


class Body(VerticalScroll):
    """The text of a page; says when it was scrolled."""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.tell()

    def on_resize(self) -> None:
        if isinstance(self.screen, PageScreen):
            self.screen.lay_out(self.scrollable_content_region.width)
        self.call_after_refresh(self.tell)

    def tell(self) -> None:
        screen = self.screen
        if isinstance(screen, PageScreen):
            screen.say_rest(max(int(self.max_scroll_y - self.scroll_y), 0))


class PageScreen(EndsOnce, ModalScreen[int | None]):
    """Returns the frame that was chosen among `frames`, 0 to silence the rule that the page is about, None when it was only read."""

    BINDINGS = [
        Binding("escape,q,e,question_mark", "dismiss(None)", "back"),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        # of the text, which is what one reads, also where the frames below it have the focus
        Binding("pageup", "turn(-1)", show=False, priority=True), Binding("pagedown,space", "turn(1)", show=False, priority=True),
        Binding("home", "edge(0)", show=False, priority=True), Binding("end", "edge(1)", show=False, priority=True),
        Binding("x", "silence", show=False), Binding("v", "values", show=False),
    ]  # fmt: skip

    def __init__(
        self, title: Text, body: Text, frames: list[tuple[int, str]] | None = None, message: str = "", indent: int = 0
    ) -> None:  # fmt: skip
        """`message`: the sentence whose nodes, ports, queue pairs and partitions can be chosen. `indent`: cells of the first of two
        columns that the lines of the body have; 0: it is plain text.
        """
        super().__init__()
        self.indent = indent
        self.heading, self.body, self.frames, self.message = title, body, frames or [], message
        self.links: list[Link] = []
        """The values of the text that can be clicked."""
        self.here = 0
        """The frame that is selected; the first other one of `frames` is offered."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="page"):
            yield Label(painted(self.app, self.heading), classes="heading")
            with Body(id="page-body", classes="" if self.frames else "alone"):
                yield Static(painted(self.app, self.body))
            if self.frames:
                wide = max(len(str(frame)) for frame, _ in self.frames)
                yield FrameList(
                    *(Option(Text(f"frame {frame:>{wide}}  {why}", no_wrap=True))
                      for frame, why in self.frames),
                    id="page-frames", compact=True,
                )  # fmt: skip
            yield Label(self.hint(0), classes="hint", markup=False)

    def hint(self, rest: int) -> str:
        """The keys; `rest`: lines below those that are seen."""
        more = f"PgDn {rest} more · " if rest else ""
        keys = "Enter goes there · v values · x silences · " if self.frames else ""
        return f"{more}{keys}Esc back"

    def lay_out(self, width: int) -> None:
        """Wrap the second column of the body for the cells there are."""
        if self.indent:
            self.query_one("#page-body Static", Static).update(painted(self.app, hanging(self.body, width, self.indent)))

    def say_rest(self, rest: int) -> None:
        self.query_one(".hint", Label).update(self.hint(rest))

    def on_mount(self) -> None:
        body = self.query_one(Body)
        if self.frames:
            body.can_focus = False
            options = self.query_one(OptionList)
            options.highlighted = next((i for i, (frame, _) in enumerate(self.frames) if frame != self.here), 0)
            options.focus()
        else:
            body.focus()

    def action_scroll(self, lines: int) -> None:
        self.query_one(Body).scroll_relative(y=lines, animate=False)

    def action_turn(self, pages: int) -> None:
        """By what is seen, except for a line."""
        self.action_scroll(pages * max(self.query_one(Body).size.height - 1, 1))

    def action_edge(self, last: int) -> None:
        body = self.query_one(Body)
        body.scroll_to(y=body.max_scroll_y if last else 0, animate=False)

    def action_value(self, place: int) -> None:
        """A click on a word of the text that names a value."""
        self.post_message(ValueClicked(self.links[place]))

    def action_silence(self) -> None:
        if self.frames:
            self.dismiss(0)

    def action_values(self) -> None:
        """Offer the frames of what the finding and its proofs name."""
        if self.message:
            self.post_message(ValuesWanted("\n".join([self.message, *(text for _, text in self.frames)])))

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.frames[event.option_index][0])


def hanging(text: Text, width: int, indent: int) -> Text:
    """A text in two columns, the first as wide as `indent`: what has no room in the second goes on below it."""
    found = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len > width > 2 * indent and line.plain[:1] == " ":
            first, second = line.divide([indent])
            below = second.wrap(Console(width=width - indent, file=StringIO()), width - indent)
            found += [first + below[0], *(Text(" " * indent) + one for one in below[1:])]
        else:
            found.append(line)
    return Text("\n").join(found)


def help_page(commands: tuple[Command, ...]) -> PageScreen:
    body, groups = Text(), help_groups(commands)
    groups["Move"] = [*MOVE[:2], *groups["Move"], *MOVE[2:]]
    groups["Look"].append(("Ctrl+P", "all commands, themes"))
    for group in GROUPS:
        body.append(f"{group}\n", "bold")
        for key, what in groups[group]:
            body.append(f"  {key:<{HELP - 3}}", "bold $accent")
            body.append(f" {what}\n")
        body.append("\n")
    masked = "Keys (M_Key, Q_Key, R_Key, …) are masked unless started with --show-keys; a masked key has a number, M_Key#3."
    body.append(f"{masked}\n{NUMBERS}", "$tint-dim")
    return PageScreen(Text("Keys"), body, indent=HELP)


def view_page(name: str, keys: str, bindings: Iterable[Binding]) -> PageScreen:
    """The keys of a view: those that its last line names, and what else it knows."""
    body, said, others = Text(), {key_text(one.key): one.description for one in bindings}, dict[str, list[str]]()
    told = [_key_and_word(one) for one in keys.split(" · ")]
    told = [(names, what) for names, what in told if len({said.get(key) for key in names.split()}) < 2]  # else each key has its words
    told = [(names, max(what, said.get(names, ""), key=len)) for names, what in told]  # the last line has room for few
    known = {key for names, _ in told for key in names.split()}
    for key, what in said.items():
        if key not in known:
            others.setdefault(what, []).append(key)
    rest = [(" ".join(name for name in dict.fromkeys(names) if name not in UNSEEN), what) for what, names in others.items()]
    for part in (told, rest):
        for names, what in part:
            body.append(f"  {names:<{VIEW - 3}}", "bold $accent")
            body.append(f" {what}\n")
        body.append("\n")
    body.append(NUMBERS, "$tint-dim")
    return PageScreen(Text(f"Keys: {name}"), body, indent=VIEW)


def _key_and_word(entry: str) -> tuple[str, str]:
    """The keys (or signs) that an entry of a view's last line begins with, and what they do."""
    words = entry.split(" ")
    count = next((i for i, word in enumerate(words) if word not in NAMED and len(word) > 1 and word.isalpha()), len(words))
    return " ".join(words[:count]), " ".join(words[count:])


def finding_page(
    finding: Finding, rule: type[Rule] | None, catalog: Catalog, said: Mapping[int, str] = MappingProxyType({}),
    names: NodeNames | None = None,
) -> PageScreen:  # fmt: skip
    """What a finding means, why it matters, what to do, and the frames that prove it.

    `said`: what each of these says; `names`: of nodes.
    """
    colour = {Severity.ERROR: "bold $error", Severity.WARNING: "bold $warning", Severity.INFO: "bold $tint-info"}[finding.severity]
    title = Text.assemble((f"{finding.severity.sign} {finding.code} {finding.name}", colour), f"  {finding.severity.value}")
    body = Text()
    body.append(f"{finding.message}\n\n")
    if finding.field:
        body.append(f"{finding.field}", "bold")
        fields = catalog.names.get(finding.field, ())
        value = value_text(fields[0], finding.value) if fields and isinstance(finding.value, int) else finding.value
        body.append(f" = {value if value is not None else 'masked'}\n")
    if finding.count > 1:
        body.append(f"{finding.count:,} times, first in frame {finding.frame}\n")
    if finding.file:
        body.append(f"{printable(finding.file)}:{finding.file_frame}\n")
    body.append(f"{EVIDENCE[finding.evidence]}\n\n", "$tint-dim")
    for one in finding.related:
        if not one.frame:
            body.append(f"{one.place}: {one.why}\n")
    values = places(body.plain, names)
    for i, link in enumerate(values):
        body.stylize(Style(underline=True, meta={"@click": f"screen.value({i})"}), link.at, link.at + link.length)
    if rule is not None:
        body.append_text(rule_text(rule))
    frames = [(finding.frame, "the finding")] + [(one.frame, one.why) for one in finding.related if one.frame]
    seen: dict[int, str] = {}
    for frame, why in frames:
        seen.setdefault(frame, f"{why}  {said[frame]}" if frame in said else why)
    made = PageScreen(title, body, list(seen.items()), finding.message)
    made.links = values
    return made


def rule_text(rule: type[Rule]) -> Text:
    """The page of a rule; its paragraphs are wrapped by the screen, not by the source."""
    body = Text(f"{summary(rule)}\n\n")
    for title, text in page(rule).items():
        body.append(f"{title}\n", "bold")
        body.append(re.sub(r"(?<!\n)\n(?![-*`\n] ?)", " ", text) + "\n\n")
    return body
