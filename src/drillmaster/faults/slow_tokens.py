"""The fault `slow-tokens`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.dialects import Says
from drillmaster.faults import Frame, Script, Send, Wait
from drillmaster.faults._streams import Events, StreamFault

__all__ = ["SlowTokens"]


class SlowTokens(StreamFault, frozen=True, kw_only=True, tag="slow-tokens"):
    """Relay the real stream with no more than `per_s` events that carry words a second.

    Breaks: limits on the time to the first word alone; users who wait. Read timeouts begin anew with each event.
    Looks like: a provider under load: the first word in time, the last one minutes later.
    Cannot show: a stream that stops (see stall); the provider itself has long finished, and is held by backpressure.
    """

    seen = ("complete", "stalled")

    per_s: Annotated[float, Meta(ge=0.001, le=1_000, description="events with words or tool calls", examples=[20])]

    def strike(self, events: Events) -> Script:
        cx = events.cx
        due_ns = 0
        while (event := (yield from events.next())) is not None:
            if events.says(event) & (Says.CONTENT | Says.TOOL):
                wait_ns = due_ns - cx.now_ns()
                if wait_ns > 0:
                    events.held = [event]  # safe from a lift
                    yield Wait(wait_ns / 1e9)
                    events.held = []
                due_ns = max(due_ns, cx.now_ns()) + round(1e9 / self.per_s)
            yield Send(Frame(event), relayed=True)
