"""`ibdissect scrub`: writes a capture fit for sharing."""

from __future__ import annotations

import click

from ibdissect.cli.common_options import CommonOptions, common_options, without
from ibdissect.cli.output import FRAME_ENDINGS, ending_of, opened_capture, output_option
from ibdissect.wire.text import counted


@click.command()
@click.argument("capture", metavar="CAPTURE")
@output_option
@click.option("--verify", is_flag=True, help="Read the copy and look for every key and identity (but LIDs, QPNs) of CAPTURE, at every bit.")
@without("show_keys", reason="does nothing here: keys are replaced by their numbers")
@without("name_ports", reason="does nothing here: the copy holds no names")
@common_options
def command(capture: str, target: str, verify: bool, common: CommonOptions) -> int:
    """Write CAPTURE without secrets and identities, so that it can be shared; lint reports the same findings.

    Keys are replaced by their numbers; GUIDs, GIDs, LIDs, QPNs, IP and MAC addresses by substitutes in order of first
    appearance, the same everywhere. Names, payload, private data, comments and all bytes without a declared meaning are
    removed. CRCs that were correct are correct again. Times, sizes, P_Keys, port numbers and service IDs stay.
    """
    ending = ending_of(target, FRAME_ENDINGS)
    from ibdissect.export.whole_files import replacing
    from ibdissect.scrub.rewrite import write_scrubbed

    with opened_capture(capture, common, passes=3 if verify else 2) as opened:
        with replacing(target, capture) as file:
            count, scrubber = write_scrubbed(opened, file, FRAME_ENDINGS[ending])
            if verify:
                from ibdissect.scrub.verify import verify as look_for_leftovers

                look_for_leftovers(opened, scrubber, file, target)
                common.tell("verified: no key, GUID, GID, address or name of the capture is in the copy (LIDs and QPNs are not looked for)")
        common.tell("note: times, sizes, P_Keys, port numbers and service IDs are as they were; look before you share")
        common.tell(f"{counted(count, 'frame', ',')} written to {target}")
    return 0
