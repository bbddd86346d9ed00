"""The fault `split-utf8`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Data, Script, Send
from drillmaster.faults._streams import Events, StreamFault

__all__ = ["SplitUtf8"]


class SplitUtf8(StreamFault, frozen=True, kw_only=True, tag="split-utf8"):
    """Send the real stream in chunks of `bytes`, cut wherever they fall: inside characters, lines and events.

    Breaks: home-made readers that decode each chunk by itself, or take one chunk for one event.
    Looks like: nothing, to openai, anthropic, groq and LiteLLM (measured); elsewhere a UnicodeDecodeError, or `\ufffd`.
    Cannot show: anything about characters where the answer is plain ASCII; a client's buffer may join chunks again.
    """

    seen = ("complete",)

    bytes: Annotated[int, Meta(ge=1, le=65_536, description="of each chunk but the last")] = 7

    def strike(self, events: Events) -> Script:
        part = b""
        while (event := (yield from events.next())) is not None:
            part += event
            while len(part) >= self.bytes:
                piece, part = part[: self.bytes], part[self.bytes :]
                events.held = [part] if part else []
                yield Send(Data(piece))
            events.held = []
        if part:
            yield Send(Data(part))
