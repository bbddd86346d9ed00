"""The fault `ping-stall`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Frame, Script, Send, Wait
from drillmaster.faults._streams import AfterEvents, Events, StreamFault

__all__ = ["PingStall"]


class PingStall(StreamFault, frozen=True, kw_only=True, tag="ping-stall"):
    """Stop in the middle of the stream and send the API's own keep-alive `every_ms` instead of words.

    Breaks: every read timeout, since something always comes: all measured SDKs wait to the end (8 s with a timeout of
    1.5 s). Only a limit on the whole answer, or on the time between words, ends it.
    Looks like: a stream that is alive and says nothing: `: ping`, `event: ping`, `: OPENROUTER PROCESSING`.
    Cannot show: a dead connection (see stall).
    """

    seen = ("stalled",)

    after_events: AfterEvents = None
    every_ms: Annotated[int, Meta(ge=10, le=600_000, description="between two pings")] = 500

    def strike(self, events: Events) -> Script:
        if not (yield from events.relay(self.after_events)):
            return
        while True:
            yield Wait(self.every_ms / 1e3)
            yield Send(Frame(events.ping()))
