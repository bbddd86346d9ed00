"""The fault `503`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Script, answer_error

__all__ = ["Status503"]


class Status503(Fault, frozen=True, kw_only=True, tag="503"):
    """Read the whole request, of any size, then answer 503 with the provider's own error body.

    Breaks: fallbacks that know connection errors alone; code that reads fields of the error body.
    Looks like: a well-formed error of the API that was asked; the connection stays usable.
    Cannot show: a busy provider that sends `Retry-After`, or an error page that some other machine wrote.
    """

    group = "status"
    hands_on = False
    seen = ("status",)
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        yield from answer_error(cx, 503)
