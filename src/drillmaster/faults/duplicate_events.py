"""The fault `duplicate-events`."""

from typing import Annotated, ClassVar

from msgspec import Meta

from drillmaster.dialects import Says
from drillmaster.faults import Frame, Script, Send
from drillmaster.faults._streams import Events, StreamFault

__all__ = ["DuplicateEvents"]


class DuplicateEvents(StreamFault, frozen=True, kw_only=True, tag="duplicate-events"):
    """Send events that carry words or pieces of a tool call twice: each `every`th of them.

    Breaks: readers that append what comes: words stand twice, the JSON of a tool call's arguments is none any more.
    Looks like: a stutter in the text; no exception in any SDK, since none checks ids or sequence numbers.
    Cannot show: a whole answer that is delivered twice.
    """

    seen = ("complete",)
    rewrites: ClassVar[bool] = True

    every: Annotated[int, Meta(ge=1, le=1_000_000, description="of the events with words or tool calls; 1: each")] = 1

    def strike(self, events: Events) -> Script:
        seen = 0
        while (event := (yield from events.next())) is not None:
            yield Send(Frame(event), relayed=True)
            if events.says(event) & (Says.CONTENT | Says.TOOL) and not events.ends(event):
                seen += 1
                if seen % self.every == 0:
                    yield Send(Frame(event))
