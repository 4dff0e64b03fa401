"""The command line: which commands there are, how they are found, and what happens to errors."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

import click

from ibdissect.errors import IbdissectError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: dict[str, str] = {
    "tui": "Open a capture in the terminal UI.",
    "lint": "Check captures against the rules.",
    "show": "Print frames, in one of many formats.",
    "stats": "Say what is in a capture.",
    "fabric": "Show the subnet as learnt from a capture.",
    "rules": "List the rules, or explain one.",
    "fields": "List the filter names.",
    "export": "Write columns or frames to a file.",
    "sql": "Query a capture with SQL.",
    "annotate": "Write a pcapng with the findings as comments.",
    "scrub": "Make a capture fit for sharing.",
    "serve": "Open the terminal UI in a browser.",
}
"""Every command with its line in the help; a command is the `command` object of the module of its name, loaded when it is called."""

COMPLETE = "_IBDISSECT_COMPLETE"
"""Set by a shell that asks what may be typed next."""
INTERRUPTED, BROKEN_PIPE = 130, 141


class Commands(click.Group):
    """Lists what exists; a file name in place of a command opens it in the terminal UI."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands whose module exists, in the order of use."""
        return [name for name in COMMANDS if find_spec(f"{__name__}.{name}") is not None]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command, imported now."""
        if name not in COMMANDS or find_spec(f"{__name__}.{name}") is None:
            return None
        command: click.Command = import_module(f"{__name__}.{name}").command
        if COMPLETE in os.environ:
            from ibdissect.cli.completion import teach

            teach(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The first word: a command, else a file to open."""
        from ibdissect.cli.completion import files

        return super().shell_complete(ctx, incomplete) or files(ctx, None, incomplete)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """An existing file or `-` as first word means `tui`; any other unknown word is an error that names the nearest command."""
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or ctx.resilient_parsing:  # completion only looks
            return super().resolve_command(ctx, args)
        if name == "-" or os.path.exists(name):
            if "tui" not in known:
                ctx.fail(f"the terminal UI is not installed; print the frames with: ibdissect show {name}")
            return "tui", self.get_command(ctx, "tui"), args
        import difflib

        near = [one for one in known if name and one.startswith(name)] or difflib.get_close_matches(name, known, 1, 0.5)
        hint = f", did you mean `{near[0]}`?" if near else f" (and no such file); commands: {', '.join(known)}"
        ctx.fail(f"no such command `{name}`{hint}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help's list, without importing a single command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--version", "-V", is_flag=True, expose_value=False, is_eager=True, callback=lambda ctx, _, on: _version(ctx, on))
def group() -> None:
    """Dissect, analyze and lint InfiniBand and RoCE captures.

    `ibdissect CAPTURE` opens a capture in the terminal UI.

    \b
    Completion of commands, options, rule codes and filter names, in a shell's start-up file:
      bash  eval "$(_IBDISSECT_COMPLETE=bash_source ibdissect)"
      zsh   eval "$(_IBDISSECT_COMPLETE=zsh_source ibdissect)"
      fish  _IBDISSECT_COMPLETE=fish_source ibdissect | source
    """


def _version(ctx: click.Context, asked: bool) -> None:
    if asked:
        from ibdissect.version import VERSION

        click.echo(f"ibdissect {VERSION}")
        ctx.exit()


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit status: 0, 1 (findings), 2 (could not do it), 130 (interrupted), 141 (broken pipe)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    show, warnings.showwarning = warnings.showwarning, _warned
    try:
        if COMPLETE in os.environ:  # the shell asks what could be typed next
            group.main(args=arguments, prog_name="ibdissect")
        # Not `main`: that turns a broken pipe into status 1, which means findings here.
        # Whether to colour is ours to say (`--color`): click would take colours out where the output is no terminal.
        with group.make_context("ibdissect", sys.argv[1:] if arguments is None else list(arguments), color=True) as context:
            result = group.invoke(context)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except IbdissectError as error:
        from ibdissect.cli.common import say

        say(f"error: {error}")
        return 2
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_output()  # whoever read it has seen enough
        return BROKEN_PIPE
    except Exception as error:
        # Foreign code may raise anything. What is nobody's but ours keeps its traceback.
        plugins = sys.modules.get("ibdissect.plugins")
        name = plugins.blamed(error) if plugins is not None else None
        if name is not None:
            text = f"plugin {name} failed: {type(error).__name__}: {error}"
        elif isinstance(error, OSError):  # a full disk behind standard output, a folder that is gone
            text = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
            _give_up_output()
        else:
            raise
        from ibdissect.cli.common import say

        say(f"error: {text}")
        return 2
    finally:
        warnings.showwarning = show


def _give_up_output() -> None:
    """What is still buffered for standard output must not complain at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _warned(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None, line: str | None = None
) -> None:
    """Warnings are talk: one line each on standard error."""
    from ibdissect.cli.common import say

    say(f"warning: {message}")
