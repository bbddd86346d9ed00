"""The fault `cut-stream`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Close, Frame, Script, Send
from drillmaster.faults._streams import AfterEvents, Events, StreamFault

__all__ = ["CutStream"]


class CutStream(StreamFault, frozen=True, kw_only=True, tag="cut-stream"):
    """Close the connection (FIN) in the middle of the stream, without the last chunk.

    `after_bytes` counts the body and may cut an event in two; it ends at the latest where `after_events` would.

    Breaks: `except APIError`: openai raises APIConnectionError, but anthropic lets httpx2's RemoteProtocolError through as
    it is (measured). Nobody retries after the first byte.
    Looks like: `peer closed connection without sending complete message body`; LiteLLM: MidStreamFallbackError.
    Cannot show: an end that the framing allows (see clean-end), which raises nothing.
    """

    seen = ("broken",)

    after_events: AfterEvents = None
    after_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000, description="of the stream's body")] | None = None

    def __post_init__(self) -> None:
        if self.after_events is not None and self.after_bytes is not None:
            raise ValueError("after_events and after_bytes, wanted one of the two")

    def strike(self, events: Events) -> Script:
        if self.after_bytes is None:
            if (yield from events.relay(self.after_events)):
                yield Close("fin")
            return
        left_bytes = self.after_bytes
        while (event := (yield from events.next())) is not None:
            if not events.ends(event):
                yield Send(Frame(event[:left_bytes]), relayed=True)
                left_bytes -= len(event)
            if events.ends(event) or left_bytes <= 0:
                yield Close("fin")
