"""The fault `quota-spent`."""

from typing import Annotated, ClassVar

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script, answer_error, with_fields
from drillmaster.http1 import Answer

__all__ = ["QuotaSpent"]


class QuotaSpent(Fault, frozen=True, kw_only=True, tag="quota-spent"):
    """Read the whole request, then say in the API's own words that the money is spent: a 429 or 402 that never heals.

    Breaks: code that reads every 429 as "later": SDKs retry this one in vain, since its status is a rate limit's.
    Looks like: `insufficient_quota`, `billing_error`, `credit_balance_exhausted`; no `Retry-After`, ever.
    Cannot show: a limit that passes by itself (see rate-limit, daily-quota).
    """

    group = "quota"
    hands_on = False
    seen = ("status",)

    status: Annotated[int, Meta(ge=400, le=499, description="where the API has several, as 402 and 429")] | None = None
    condition: Annotated[
        str, Meta(pattern="^money(-[a-z0-9]+)*$", max_length=40, description="which of the API's errors about money")
    ] = "money"
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        known = [row for row in cx.dialect.table if row.name == self.condition]
        if any(row.status == self.status for row in known):
            yield from answer_error(cx, self.status, self.condition, put=_never)
        else:
            # An API that has no such error of that status says it as it does, rather than as a rate limit.
            yield from answer_error(cx, None, self.condition if known else "money", put=_never)


def _never(answer: Answer) -> Answer:
    return with_fields(answer, without=("retry-after", "retry-after-ms"))
