"""The fault `empty-200`."""

from typing import ClassVar

from drillmaster.faults import Cx, End, Fault, Head, Script, Send
from drillmaster.faults._answers import read_asked

__all__ = ["Empty200"]


class Empty200(Fault, frozen=True, kw_only=True, tag="empty-200"):
    """Answer 200 with the right content type and no body at all; a stream is asked for: a stream without an event.

    Breaks: openai and anthropic: a bare JSONDecodeError that is no error of theirs; google-genai: an empty object that
    counts as success. As a stream it raises nothing anywhere, and LiteLLM makes up a finish reason of `stop` (measured).
    Looks like: success without a word.
    Cannot show: an answer that is JSON and holds nothing (see empty-object).
    """

    group = "content"
    hands_on = False
    seen = ("broken", "cut")
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        asked = yield from read_asked(cx)
        if asked is not None:
            kind = "text/event-stream" if asked.peek.stream else "application/json"
            yield Send(Head(200, (("content-type", kind), ("content-length", "0"))))
            yield Send(End())
