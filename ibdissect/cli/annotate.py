"""`ibdissect annotate`: writes a pcapng with the findings as packet comments."""

from __future__ import annotations

import click

from ibdissect.cli.common_options import CommonOptions, common_options, say
from ibdissect.cli.output import ending_of, findings_of, max_findings_option, opened_capture, output_option
from ibdissect.wire.text import counted


@click.command()
@click.argument("capture", metavar="CAPTURE")
@output_option
@max_findings_option
@common_options
def command(capture: str, target: str, max_findings: int, common: CommonOptions) -> int:
    """Write the frames of CAPTURE to a pcapng, each with its findings as comments, which Wireshark shows.

    Existing comments stay. Frames are written unchanged, including their keys.
    """
    ending_of(target, (".pcapng", ".ntar"))
    from ibdissect.export.copied_frames import comments_by_frame, write_frames
    from ibdissect.export.whole_files import replacing

    with opened_capture(capture, common, passes=2) as opened:
        findings = findings_of(opened, common, max_findings).findings
        added = comments_by_frame(findings)
        with replacing(target, capture) as file:
            count = write_frames(opened, file, "pcapng", added)
        say("note: frames are written as they are, with the keys in them")
        common.tell(f"{counted(count, 'frame', ',')} written to {target}, {counted(sum(map(len, added.values())), 'comment')}")
    return 0
