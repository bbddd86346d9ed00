"""The fault `empty-object`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Script, read_request_whole, send_answer
from drillmaster.http1 import Answer

__all__ = ["EmptyObject"]


class EmptyObject(Fault, frozen=True, kw_only=True, tag="empty-object"):
    """Answer 200 with the JSON object `{}`, a stream asked for or not.

    Breaks: code that reads `choices[0]`: openai, groq and google-genai return an object whose choices are None, anthropic
    one whose content is None (measured), and the exception is a TypeError of your own code. mistralai raises.
    Looks like: success; the first access to a field fails, far from the call.
    Cannot show: an empty body (see empty-200).
    """

    group = "content"
    hands_on = False
    seen = ("cut",)
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        if (yield from read_request_whole()):
            yield from send_answer(Answer(200, (("content-type", "application/json"),), b"{}", "ours"))
