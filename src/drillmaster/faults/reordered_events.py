"""The fault `reordered-events`."""

from typing import ClassVar

from drillmaster.dialects import Says
from drillmaster.faults import Frame, Script, Send
from drillmaster.faults._streams import Events, StreamFault

__all__ = ["ReorderedEvents"]


class ReorderedEvents(StreamFault, frozen=True, kw_only=True, tag="reordered-events"):
    """Swap each two neighbouring events that carry words or pieces of a tool call.

    One that has no neighbour of its kind stays where it is, so that a stream with a single such event has not met the fault.

    Breaks: readers that append what comes; nobody looks at `sequence_number`.
    Looks like: words in the wrong order, JSON of a tool call that cannot be read; no exception from the SDK itself.
    Cannot show: events that overtake the end of the stream.
    """

    seen = ("complete",)
    rewrites: ClassVar[bool] = True

    def strike(self, events: Events) -> Script:
        while (event := (yield from events.next())) is not None:
            if not _swaps(events, event):
                yield Send(Frame(event), relayed=True)
                continue
            events.held = [event]  # safe from a lift while the next one is awaited
            after = yield from events.pull()
            if after is None or not _swaps(events, after):
                events.held = [] if after is None else [after]
                yield Send(Frame(event), relayed=True)
                continue
            events.held = [event]
            yield Send(Frame(after))
            events.held = []
            yield Send(Frame(event))


def _swaps(events: Events, event: bytes) -> bool:
    return bool(events.says(event) & (Says.CONTENT | Says.TOOL)) and not events.ends(event)
