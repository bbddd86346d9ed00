"""The fault `overloaded`."""

from typing import Annotated, ClassVar

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script, answer_error
from drillmaster.rules.retry_after import MAX_WAIT_S

__all__ = ["Overloaded"]


class Overloaded(Fault, frozen=True, kw_only=True, tag="overloaded"):
    """Read the whole request, then say in the provider's own way that it is overloaded: 529, 503 or 498 by API.

    Breaks: fallbacks that know 503 and not 529; status tables that end at 504.
    Looks like: the API's own error, with `Retry-After` where it sends one and `retry_after_s` is given.
    Cannot show: an overload that is told inside a stream, in a 200 (see error-event).
    """

    group = "status"
    hands_on = False
    seen = ("status",)

    retry_after_s: Annotated[float, Meta(gt=0, le=MAX_WAIT_S, description="said where the API says it")] | None = None
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        yield from answer_error(cx, None, "overloaded", retry_after_s=self.retry_after_s)
