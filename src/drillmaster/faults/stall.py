"""The fault `stall`."""

from drillmaster.faults import Script, Wait
from drillmaster.faults._streams import AfterEvents, Events, StreamFault

__all__ = ["Stall"]


class Stall(StreamFault, frozen=True, kw_only=True, tag="stall"):
    """Stop in the middle of the stream, connection open, until the client gives up or the fault is lifted.

    Breaks: clients on default timeouts, which wait 600 s for the next byte (openai, anthropic) or for ever (google-genai,
    mistralai, requests). With a timeout openai raises APITimeoutError, anthropic a raw httpx2.ReadTimeout (measured).
    Looks like: half an answer on the screen, and a cursor that blinks.
    Cannot show: a stall that pings (see ping-stall), which read timeouts do not end.
    """

    seen = ("stalled",)

    after_events: AfterEvents = None

    def strike(self, events: Events) -> Script:
        if (yield from events.relay(self.after_events)):
            yield Wait()
