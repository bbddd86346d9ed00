"""The fault `daily-quota`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.dialects import Bucket
from drillmaster.faults import Cx, Fault, Pass, Script, answer_error, with_fields

__all__ = ["DailyQuota"]


class DailyQuota(Fault, frozen=True, kw_only=True, tag="daily-quota"):
    """Let each credential have `requests` a day; answer 429 to all beyond, until the day is over.

    A day begins with a credential's first request and lasts `day_s` (shorter for a drill). Refused requests are not
    counted; answers carry the API's own rate fields, and a 429 the time to the day's end where the API says one.

    Breaks: clients that retry until tomorrow; sleeps of many hours; free tiers that looked like a plan.
    Looks like: a good day that ends at once, for everything with that key; the delay is often in the body alone.
    Cannot show: at which hour of which zone a provider's day begins.
    """

    group = "quota"
    hands_on = False
    seen = ("status",)

    requests: Annotated[int, Meta(ge=1, le=100_000_000, description="a day, for each credential", examples=[1])]
    day_s: Annotated[float, Meta(ge=1, le=604_800, description="how long a day is")] = 86_400.0

    def first_met(self) -> int | None:
        return self.requests + 1

    def script(self, cx: Cx) -> Script:
        now_ns = cx.now_ns()
        cell = cx.cell(f"daily-quota/{cx.key_hash}")
        ends_ns = cell.get("ends_ns")
        if ends_ns is None or now_ns >= ends_ns:
            ends_ns = cell["ends_ns"] = now_ns + round(self.day_s * 1e9)
            cell["used"] = 0
        allowed = cell["used"] < self.requests
        cell["used"] += allowed
        left_s = (ends_ns - now_ns) / 1e9
        bucket = Bucket(limit=self.requests, remaining=self.requests - cell["used"], reset_s=left_s)
        fields = cx.dialect.rate_headers(requests=bucket, now_s=cx.wall_ns() / 1e9)
        if allowed:
            yield Pass(fields=fields)
        else:
            yield from answer_error(
                cx, 429, "daily", retry_after_s=left_s, put=lambda answer: with_fields(answer, *fields)
            )
