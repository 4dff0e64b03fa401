"""Rules about ACME fabrics: hot switches, overrun windows, short retries."""

from collections.abc import Iterator
from typing import Any

from ibdissect.decode.connection_events import Replied
from ibdissect.lint.rule import ERROR, WARNING, Hit, Rule, Seen, on_event, on_struct

from .stream import Stream
from .switch import Temperature


class TooHot(Rule):
    """A switch is hotter than it may be.

    ## Why it matters
    It turns itself off at the limit.

    ## What to do
    Look at its fans.
    """

    code, name, severity = "ACM001", "too-hot", ERROR
    reference = "ACME PRM 3"
    on = Temperature
    when = Temperature.celsius > Temperature.limit
    at = Temperature.celsius
    message = "sensor {sensor}: {celsius} °C is above {limit} °C"
    example = "a GetResp(Temperature) with Celsius above Limit"


class WindowOverrun(Rule):
    """A message uses more of the window than there is.

    ## Why it matters
    The receiver drops what does not fit.

    ## What to do
    Update the sender.
    """

    code, name, severity = "ACM002", "window-overrun", WARNING
    reference = "ACME PRM 9.2"
    message = "window {window}, used {used}"
    example = "a message with Used above Window"

    @on_struct(Stream)
    def look(self, stream: Any, seen: Seen) -> Iterator[Hit]:
        """Compare the two numbers of the header."""
        if stream.used > stream.window:
            yield self.hit(seen, stream, Stream.used, window=stream.window, used=stream.used)


class ShortRetry(Rule):
    """A connection gives up at the first lost packet.

    ## Why it matters
    ACME's links lose packets while they train.

    ## What to do
    Ask for more retries.
    """

    code, name, severity = "ACM003", "short-retry", WARNING
    reference = "ACME PRM 9.1"
    message = "{connection}: {count} retries"
    example = "a REP to a REQ with Retry Count 0"

    @on_event(Replied)
    def answered(self, event: Any, context: Any) -> Iterator[Hit]:
        """Look at the request of an answered connection."""
        if event.connection.retry_count == 0:
            text = event.connection.text
            yield Hit(frame=event.frame, time_ns=event.time_ns, arguments={"connection": text, "count": 0}, key=text)
