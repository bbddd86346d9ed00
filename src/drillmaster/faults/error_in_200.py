"""The fault `error-in-200`."""

from typing import Annotated, ClassVar

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script, answer_error
from drillmaster.http1 import Answer

__all__ = ["ErrorIn200"]


class ErrorIn200(Fault, frozen=True, kw_only=True, tag="error-in-200"):
    """Answer with the API's own error body and a status of 200, a stream asked for or not.

    Breaks: openai, anthropic, groq and google-genai return an object without choices or content and raise nothing
    (measured); as a stream: no event, no exception. OpenRouter does this by design once generation has begun.
    Looks like: success; the error lies unread in the body.
    Cannot show: an error behind the first words of a stream (see error-event).
    """

    group = "content"
    hands_on = False
    seen = ("error", "cut")

    condition: Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,39}$", description="which of the API's errors")] = (
        "overloaded"
    )
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        yield from answer_error(
            cx, None, self.condition, put=lambda answer: Answer(200, answer.headers, answer.body, answer.source)
        )
