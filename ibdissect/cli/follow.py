"""`ibdissect follow`: prints what two queue pairs said to each other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import numpy as np

from ibdissect.cli.common_options import CommonOptions, common_options, without
from ibdissect.cli.console import echo
from ibdissect.cli.output import opened_capture
from ibdissect.errors import ConfigError
from ibdissect.wire.text import counted

if TYPE_CHECKING:
    from ibdissect.python_interface import Capture
    from ibdissect.screen_model.payload import SentMessage

WITH_PAYLOAD = 'ibdissect.message.kind in {"SEND", "WRITE", "READ", "ATOMIC"}'


@click.command()
@click.argument("capture", metavar="CAPTURE")
@click.argument("frame", metavar="FRAME", type=click.IntRange(min=1))
@click.option("--as", "form", type=click.Choice(("hex", "ascii", "raw")), default="hex", show_default=True, help="How to print bytes.")
@click.option("--only", is_flag=True, help="Only the message that FRAME belongs to.")
@without("name_ports", reason="does nothing here: payloads name no ports")
@common_options
def command(capture: str, frame: int, form: str, only: bool, common: CommonOptions) -> None:
    """Print the messages of the connection that FRAME of CAPTURE belongs to: SENDs, WRITEs, and the data of READs.

    Each PSN is printed once, however often it was sent; keys are masked. `>` goes the way of FRAME's request, `<` comes back.
    -Y and --frames: only messages with a packet that they select.
    """
    from ibdissect.dissect.named_values import MESSAGE_NAMES
    from ibdissect.screen_model.payload import MAX_FOLLOWED, MAX_MESSAGES, as_text, followed

    with opened_capture(capture, common) as opened:
        messages = opened.answers(MESSAGE_NAMES).messages
        assert messages is not None
        found = followed(messages, frame, opened.table_at, show_keys=common.show_keys)
        if found is None:
            try:
                opened.dissect(frame)
            except IndexError as error:
                raise ConfigError("FRAME", str(frame), str(error)) from None
            hint = f"ibdissect show {capture} -Y '{WITH_PAYLOAD}' lists such frames"
            raise ConfigError("FRAME", str(frame), "belongs to no message (SEND, WRITE, READ, ATOMIC or UD datagram)", hint=hint)
        if opened.selection is not None:
            found = _selected(found, opened)
        paint = common.paint(sys.stdout)
        many = counted(len(found), "message")
        common.tell(f"{many}, at most {MAX_MESSAGES} and {MAX_FOLLOWED >> 20} MiB before and after that of frame {frame}")
        for message in found:
            if message.asked or not only:
                echo(paint(f"{'>' if message.forward else '<'} {message.title}", "path"))
                for line in as_text(message, form):
                    echo(f"  {line}")


def _selected(messages: list[SentMessage], opened: Capture) -> list[SentMessage]:
    """The messages of which -Y and --frames select a frame."""
    chosen = np.concatenate([np.empty(0, np.int64), *(rows + table.chunk.first for table, rows in opened.selected())])
    return [one for one in messages if np.isin(chosen, one.frames).any()]
