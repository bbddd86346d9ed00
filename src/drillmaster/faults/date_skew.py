"""The fault `date-skew`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Close, Cx, Fault, Head, Lifted, Read, Script, Send, relay_body
from drillmaster.rules.retry_after import http_date

__all__ = ["DateSkew"]


class DateSkew(Fault, frozen=True, kw_only=True, tag="date-skew"):
    """Relay the real answer with a `Date` that is `skew_s` off the true time.

    Breaks: code that sets its clock, signs requests or ages caches by the provider's Date; waits that are the difference
    of a Retry-After date and one's own clock.
    Looks like: a good answer. SDKs do not read the field.
    Cannot show: a client whose own clock is wrong.
    """

    group = "content"
    hands_on = False
    seen = ("complete",)

    skew_s: Annotated[
        float, Meta(ge=-3.2e8, le=3.2e8, description="added to the true time; negative: the past", examples=[3_600])
    ]

    def script(self, cx: Cx) -> Script:
        try:
            head = yield Read("upstream")
        except Lifted:
            return  # it passes as it is
        if not isinstance(head, Head):
            return
        fields = tuple(field for field in head.headers if field[0].lower() != "date")
        dated = ("date", http_date(cx.wall_ns() / 1e9 + self.skew_s))
        yield Send(Head(head.status, (*fields, dated), head.reason))
        if not (yield from relay_body()):
            yield Close("fin")
