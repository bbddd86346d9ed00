"""The fault `cut-answer`."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import of_a_model, read_asked, speak

__all__ = ["CutAnswer"]

_TEXT = "Here is what you need to do. First, open the settings and choose the account that you want to"


class CutAnswer(Fault, frozen=True, kw_only=True, tag="cut-answer"):
    """Answer in the API's place with half a sentence and the API's own word for why: a token limit, or a filter.

    The words: `length`, `max_tokens`, `max_output_tokens`, `MAX_TOKENS`; `content_filter`, `refusal`, `SAFETY`.

    Breaks: code that reads the text and not the reason; parsers that are handed half a JSON text.
    Looks like: status 200, no exception, a terminal state that says INCOMPLETE.
    Cannot show: a stream that ends without a reason (see clean-end); the real model is not asked.
    """

    group = "content"
    hands_on = False
    seen = ("incomplete",)
    needs = ("model",)

    reason: Annotated[Literal["length", "content_filter"], Meta(description="why the model stopped")] = "length"
    asks_upstream: ClassVar[bool] = False
    words: ClassVar[str] = _TEXT

    def script(self, cx: Cx) -> Script:
        if not of_a_model(cx):
            return
        asked = yield from read_asked(cx)
        if asked is not None:
            yield from speak(cx, asked, text=_TEXT, finish=self.reason)
