"""The fault `malformed-json`."""

from contextlib import suppress
from typing import ClassVar

from drillmaster.faults import Cx, Fault, Lifted, Script
from drillmaster.faults._answers import change_whole
from drillmaster.faults._streams import Events

__all__ = ["MalformedJson"]


class MalformedJson(Fault, frozen=True, kw_only=True, tag="malformed-json"):
    """Send the first two thirds of the real JSON answer, its length corrected: well-framed, and no JSON.

    Breaks: `except APIError`: openai, anthropic, groq and google-genai raise a bare json.JSONDecodeError (measured), and
    none tries again. mistralai raises ResponseValidationError, LiteLLM InternalServerError.
    Looks like: a 200 and an exception of the JSON library.
    Cannot show: a body shorter than its framing (see cut-body); a stream passes untouched (see malformed-chunk).
    """

    group = "content"
    seen = ("broken",)
    needs = ("whole",)
    reads_answer: ClassVar[bool] = True

    def script(self, cx: Cx) -> Script:
        events = Events(cx)
        with suppress(Lifted):  # then it passes as it is
            yield from events.look()
        if events.head is not None and not events.streams:
            yield from change_whole(events.head, lambda body: body[: len(body) * 2 // 3])
