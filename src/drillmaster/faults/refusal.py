"""The fault `refusal`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import of_a_model, read_asked, speak

__all__ = ["Refusal"]

_TEXT = "I'm sorry, but I can't help with that."


class Refusal(Fault, frozen=True, kw_only=True, tag="refusal"):
    """Answer in the API's place with a refusal, as the API words one: a `refusal` field, a stop reason, a safety block.

    Breaks: code that reads `content` alone, which OpenAI leaves null; retries that ask the same thing for ever.
    Looks like: status 200 and a whole answer that is none; where an API has no word for it, the text alone.
    Cannot show: which prompts a real model refuses; the real model is not asked.
    """

    group = "content"
    hands_on = False
    seen = ("complete", "incomplete")
    needs = ("model",)
    asks_upstream: ClassVar[bool] = False
    words: ClassVar[str] = _TEXT

    def script(self, cx: Cx) -> Script:
        if not of_a_model(cx):
            return
        asked = yield from read_asked(cx)
        if asked is not None:
            yield from speak(cx, asked, text=_TEXT, finish="refusal")
