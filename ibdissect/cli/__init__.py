"""The command line: its commands, how they are loaded, and how errors are reported."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import click

from ibdissect.errors import IbdissectError
from ibdissect.failures import PluginWarning

from .console import echo

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: dict[str, str] = {
    "tui": "Open a capture in the terminal UI.",
    "lint": "Check captures against the rules.",
    "diagnose": "Tell why connections failed or were slow.",
    "report": "Write one page about captures, for people.",
    "show": "Print frames, in one of many formats.",
    "follow": "Print the payload of messages.",
    "stats": "Count what is in a capture.",
    "fabric": "Show the subnet as learnt from a capture.",
    "points": "Match several captures of the same traffic.",
    "diff": "Show what changed in a subnet.",
    "rules": "List the rules, or explain one.",
    "fields": "List the filter names.",
    "export": "Write columns or frames to a file.",
    "sql": "Query a capture with SQL.",
    "annotate": "Write a pcapng with the findings as comments.",
    "scrub": "Make a capture fit for sharing.",
    "trust": "Let a folder's configuration load its plugins.",
    "serve": "Open the terminal UI in a browser.",
}
"""Each command with its line in the help; the command is the object `command` of the module of that name, imported on use."""

COMPLETE = "_IBDISSECT_COMPLETE"
"""Environment variable that a shell sets to ask for completions."""
INTERRUPTED, BROKEN_PIPE = 130, 141


class Commands(click.Group):
    """The commands; a file name in place of a command opens the file in the terminal UI."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"{__name__}.{name}").command
        if COMPLETE in os.environ:
            from ibdissect.cli.completion import teach

            teach(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions of the first word: a command, or a file to open."""
        from ibdissect.cli.completion import files

        return super().shell_complete(ctx, incomplete) or files(ctx, None, incomplete)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """An existing file or `-` as first word means `tui`; other unknown words are errors that suggest the nearest command."""
        name = args[0]
        if name in COMMANDS or ctx.resilient_parsing:  # completion only looks commands up
            if not ctx.resilient_parsing:
                from ibdissect.cli.help_sections import with_new_names

                args = [name, *with_new_names(name, args[1:])]
            return super().resolve_command(ctx, args)
        if name == "-" or "://" in name or os.path.exists(name):
            return "tui", self.get_command(ctx, "tui"), args
        import difflib

        near = [one for one in COMMANDS if name and one.startswith(name)] or difflib.get_close_matches(name, COMMANDS, 1, 0.5)
        hint = f", did you mean `{near[0]}`?" if near else f" (and no such file); commands: {', '.join(COMMANDS)}"
        ctx.fail(f"no such command `{name}`{hint}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--version", "-V", is_flag=True, expose_value=False, is_eager=True, callback=lambda ctx, _, on: _version(ctx, on))
@click.pass_context
def group(ctx: click.Context) -> None:
    """Dissect, analyze and lint InfiniBand and RoCE captures.

    `ibdissect CAPTURE` opens a capture in the terminal UI; `ibdissect` alone, in a terminal, offers captures.

    \b
    Completion of commands, options, rule codes and filter names, in a shell's start-up file:
      bash  eval "$(_IBDISSECT_COMPLETE=bash_source ibdissect)"
      zsh   eval "$(_IBDISSECT_COMPLETE=zsh_source ibdissect)"
      fish  _IBDISSECT_COMPLETE=fish_source ibdissect | source
    """
    if ctx.invoked_subcommand is None:
        if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
            echo(ctx.get_help(), err=True)
            ctx.exit(2)
        from ibdissect.tui.start import StartApp

        path = StartApp().run()
        ctx.exit(_run(["tui", "--", path]) if path else 0)


def _version(ctx: click.Context, asked: bool) -> None:
    if asked:
        from ibdissect.version_text import version_line

        echo(version_line())
        ctx.exit()


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit status: 0, 1 (findings), 2 (failed), 130 (interrupted), 141 (broken pipe)."""
    if sys.stdout is None or sys.stderr is None:  # closed by the parent process: the next file opened would get its descriptor
        if sys.stderr is not None:
            print("error: standard output is closed", file=sys.stderr)
        return 2
    failure: BaseException | None = None
    try:
        with _ending_tidily() as ended:
            try:
                status = _run(arguments)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # also SystemExit: with the status of a plugin's sys.exit() nothing would have failed
                if COMPLETE in os.environ:
                    raise
                failure = KeyboardInterrupt() if _interrupted(error) else error
        if ended:  # whatever became of SystemExit: DuckDB replaces it by an exception of its own
            return ended[0]
        if isinstance(failure, KeyboardInterrupt):
            return INTERRUPTED
        return _failed(failure) if failure is not None else status
    except OSError:  # writing to standard error failed too
        _give_up_output()
        return 2


@contextmanager
def _ending_tidily() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that temporary files are removed; a second one ends the process at once.

    The list then receives the exit status.
    """
    import signal
    import threading
    from types import FrameType

    ended: list[int] = []

    ours: list[signal.Signals] = []

    def end(number: int, _: FrameType | None) -> None:
        for one in ours:  # at the end of a terminal SIGHUP comes from the kernel and from the shell
            signal.signal(one, signal.SIG_IGN if one == signal.SIGHUP else signal.SIG_DFL)
        ended.append(128 + number)
        sys.exit(128 + number)

    if threading.current_thread() is threading.main_thread():
        ours += [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]  # `nohup` ignores SIGHUP
    for one in ours:
        signal.signal(one, end)
    try:
        yield ended
    finally:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)


def _run(arguments: list[str] | None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    failed: list[str] = []

    def warned(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        from ibdissect.cli.common_options import say

        of_plugin = issubclass(category, PluginWarning)
        failed.extend([str(message)] if of_plugin else ())
        say(f"{'error' if of_plugin else 'warning'}: {message}")

    show, warnings.showwarning = warnings.showwarning, warned
    try:
        if COMPLETE in os.environ:  # the shell asks for completions
            group.main(args=arguments, prog_name="ibdissect")
        words = sys.argv[1:] if arguments is None else list(arguments)
        _refuse_file_names(words)
        # Not `main`: it turns a broken pipe into status 1, which means findings here.
        # `color=True`: otherwise click removes colours if the output is not a terminal, whatever `--color` says.
        with group.make_context("ibdissect", [*words], color=True) as context:
            context.meta["ibdissect.words"] = words  # `cli.common_options.command_line`
            result = group.invoke(context)
        sys.stdout.flush()
        return max(result if isinstance(result, int) else 0, context.obj or 0, 2 if failed else 0)  # see cli.common_options.incomplete
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        _show(error)
        return 2
    except IbdissectError as error:
        from ibdissect.cli.common_options import say

        say(f"error: {error}")
        return 2
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_output()  # the reader closed the pipe
        return BROKEN_PIPE
    finally:
        warnings.showwarning = show


def _interrupted(error: BaseException) -> bool:
    """Whether Ctrl+C is the cause: Python raises another exception where it came while a class was made."""
    return isinstance(error.__cause__, KeyboardInterrupt) or (error.__cause__ is not None and _interrupted(error.__cause__))


def _refuse_file_names(words: list[str]) -> None:
    """Refuse an option that is also the name of a file: `*` may have put it there, and an archive may hold a file `--plugin=code.py`."""
    for word in words[: words.index("--") if "--" in words else None]:
        if word.startswith("-") and word != "-" and os.path.lexists(word):
            raise click.UsageError(f"{word} is an option and a file here; write `./{word}` or `-- {word}` for the file, else rename it")


def _failed(error: BaseException) -> int:
    """Say what failed: plugins may raise anything, a traceback is shown only for exceptions of our own code."""
    from ibdissect.cli.common_options import say

    plugins = sys.modules.get("ibdissect.plugins")
    failure = plugins.failure(error) if plugins is not None else None
    if failure is not None:
        say(f"error: {failure}")
    elif isinstance(error, OSError):  # for example a full disk or a removed folder
        _give_up_output()
        say(f"error: {error.filename}: {error.strerror}" if error.filename else f"error: {error.strerror or error}")
    elif isinstance(error, ImportError) and (error.name or "").startswith("ibdissect.engine"):
        say("error: the compiled engine is not that of this source: install ibdissect again (`pip install -e .` in a checkout)")
    elif isinstance(error, MemoryError):
        say("error: out of memory")
    else:
        import traceback

        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line)
    return 2


def _show(error: click.ClickException) -> None:
    from ibdissect.cli.common_options import say

    if isinstance(error, click.UsageError) and error.ctx is not None:
        echo(error.ctx.get_usage(), err=True)
        say(f"Try '{error.ctx.command_path} {error.ctx.help_option_names[0]}' for help.")
        echo(err=True)
    here, text = None, error.format_message()
    if isinstance(error, click.NoSuchOption):
        from ibdissect.cli.options_of_other_tools import ours

        here = ours(error.ctx.info_name if error.ctx is not None else None, error.option_name)
        text = error.message if here is not None else text  # without guesses
    say(f"Error: {text}" + (f" Here: {here}." if here is not None else ""))


def _give_up_output() -> None:
    """Discard what is still buffered for standard output, so that flushing it at exit cannot fail."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
