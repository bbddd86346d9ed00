"""The fault `context-length`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Script, answer_error

__all__ = ["ContextLength"]


class ContextLength(Fault, frozen=True, kw_only=True, tag="context-length"):
    """Read the whole request, then refuse it as too long for the model's context, in the API's own words.

    Breaks: agents whose history grows without a bound; retries and fallbacks that send the same prompt again to a model
    with a smaller window.
    Looks like: a 400 that no SDK retries (measured: BadRequestError, one attempt); only code or message tell it from others.
    Cannot show: at which length your model really refuses; short prompts are refused as well.
    """

    group = "status"
    hands_on = False
    seen = ("status",)
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        yield from answer_error(cx, None, "context")
