"""The fault `malformed-chunk`."""

from typing import Annotated, Literal

from msgspec import Meta

from drillmaster.faults import Close, Frame, Raw, Script, Send
from drillmaster.faults._streams import AfterEvents, Events, StreamFault

__all__ = ["MalformedChunk"]


class MalformedChunk(StreamFault, frozen=True, kw_only=True, tag="malformed-chunk"):
    """Break one event of the stream: its JSON is cut in half, or its chunk has a size that is no number.

    `json`: the event keeps its framing, the stream goes on and ends in order. `framing`: the connection ends (FIN) behind
    the broken chunk.

    Breaks: `except APIError`: openai and anthropic raise a bare json.JSONDecodeError at `json` (measured), which is no
    error of theirs; clients that log and go on lose a piece of the text without a trace.
    Looks like: an exception of the JSON library in the middle of an answer; at `framing`, a RemoteProtocolError.
    Cannot show: a whole answer that is no JSON (see malformed-json).
    """

    seen = ("broken",)

    after_events: AfterEvents = None
    where: Annotated[Literal["json", "framing"], Meta(description="what of the event is broken")] = "json"

    def strike(self, events: Events) -> Script:
        if not (yield from events.relay(self.after_events)):
            return
        event = events.held.pop(0)
        if self.where == "framing":
            yield Send(Raw(b"zz\r\n" + event + b"\r\n"))
            yield Close("fin")
        end = b"\n" if events.by_line else b"\n\n"
        body = event.rstrip()
        at = body.rfind(b"\n") + 1  # its last line, which is the data
        keep = max(body.find(b"{", at) + 1, at + (len(body) - at) // 2)
        yield Send(Frame(body[:keep] + end))
