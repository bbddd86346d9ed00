"""The fault `requests-per-minute`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.dialects import Bucket
from drillmaster.faults import Cx, Fault, Pass, Script, answer_error, with_fields
from drillmaster.rules.token_bucket import take

__all__ = ["RequestsPerMinute"]


class RequestsPerMinute(Fault, frozen=True, kw_only=True, tag="requests-per-minute"):
    """Let each credential have `requests` a minute, `burst` of them at once; answer 429 to what is above.

    A token bucket that fills steadily. Every answer, good or not, carries the API's own rate fields; a 429 says when the
    next request would be granted, where and as the API says it. A client that keeps to it is served.

    Breaks: agents that fan out, and clients whose retries eat the limit of everybody else with the same key.
    Looks like: 429s that come and go with the load, and heal by themselves.
    Cannot show: a provider's real limits, which nobody but the provider knows.
    """

    group = "quota"
    hands_on = False
    seen = ("status",)

    requests: Annotated[int, Meta(ge=1, le=1_000_000, description="a minute, for each credential", examples=[1])]
    burst: Annotated[int, Meta(ge=1, le=1_000_000, description="at once; None: all of a minute's")] | None = None

    def first_met(self) -> int | None:
        return (self.requests if self.burst is None else self.burst) + 1

    def script(self, cx: Cx) -> Script:
        capacity = self.requests if self.burst is None else self.burst
        cell = cx.cell(f"requests-per-minute/{cx.key_hash}")
        taken = take(cell.get("level"), 1, capacity=capacity, per_s=self.requests / 60, now_ns=cx.now_ns())
        cell["level"] = taken.level
        bucket = Bucket(limit=self.requests, remaining=int(taken.level.amount), reset_s=taken.full_s)
        fields = cx.dialect.rate_headers(requests=bucket, now_s=cx.wall_ns() / 1e9)
        if taken.allowed:
            yield Pass(fields=fields)
        else:
            yield from answer_error(
                cx, 429, "rate", retry_after_s=taken.wait_s, put=lambda answer: with_fields(answer, *fields)
            )
