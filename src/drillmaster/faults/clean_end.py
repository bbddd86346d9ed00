"""The fault `clean-end`."""

from typing import Annotated, Literal

from msgspec import Meta

from drillmaster.faults import End, Frame, Script, Send
from drillmaster.faults._streams import AfterEvents, Events, StreamFault

__all__ = ["CleanEnd"]


class CleanEnd(StreamFault, frozen=True, kw_only=True, tag="clean-end"):
    """End the stream early and in order: last chunk sent, connection fine, no reason why the model stopped.

    `close` frames the stream by its connection's end alone and ends it by a FIN, as gateways and HTTP/1.0 do.

    Breaks: nearly everybody. openai and anthropic raise nothing, in `create` and in the `.stream()` helpers (measured):
    half an answer is taken for a whole one, with a finish reason of None. LiteLLM raises MidStreamFallbackError.
    Looks like: a short answer, status 200, no exception; only the API's terminal state tells (`assert_finished`).
    Cannot show: a connection that breaks (see cut-stream, reset-stream); an answer that is no stream passes untouched.
    """

    seen = ("cut",)

    after_events: AfterEvents = None
    framing: Annotated[Literal["chunked", "close"], Meta(description="how the stream's end is told")] = "chunked"

    def ends_by_close(self) -> bool:
        return self.framing == "close"

    def strike(self, events: Events) -> Script:
        if not (yield from events.relay(self.after_events)):
            return
        # Some APIs put words and reason into one event; with None the words go through.
        kept = events.cx.dialect.without_finish(events.held[0]) if self.after_events is None else None
        if kept is not None:
            yield Send(Frame(kept))
        yield Send(End())
