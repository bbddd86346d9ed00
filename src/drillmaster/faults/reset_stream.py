"""The fault `reset-stream`."""

from drillmaster.faults import Close, Script
from drillmaster.faults._streams import AfterEvents, Events, StreamFault

__all__ = ["ResetStream"]


class ResetStream(StreamFault, frozen=True, kw_only=True, tag="reset-stream"):
    """Reset the connection (RST) in the middle of the stream.

    Breaks: `except anthropic.APIError`, which a raw httpx2 ReadError passes by; openai raises APIConnectionError (measured).
    No SDK retries after the first byte.
    Looks like: `connection reset by peer` while the words are coming; aiohttp: ClientPayloadError.
    Cannot show: a connection reset before the answer (see reset); words in flight at the reset may be lost with it.
    """

    seen = ("broken",)

    after_events: AfterEvents = None

    def strike(self, events: Events) -> Script:
        if (yield from events.relay(self.after_events)):
            yield Close("rst")
