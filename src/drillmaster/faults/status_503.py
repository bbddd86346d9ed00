"""The fault `503`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Script, read_request_whole, send_answer

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
        # An answer before the end of a large body makes the kernel reset the connection: that is another fault.
        if (yield from read_request_whole()):
            yield from send_answer(cx.dialect.error(503, request_id=f"req_{cx.rng.getrandbits(96):024x}"))
