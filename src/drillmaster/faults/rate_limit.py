"""The fault `rate-limit`."""

import math
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script, answer_error, with_fields
from drillmaster.http1 import Answer
from drillmaster.rules.retry_after import MAX_WAIT_S, http_date

__all__ = ["RateLimit"]

_FIELDS = ("retry-after", "retry-after-ms")


class RateLimit(Fault, frozen=True, kw_only=True, tag="rate-limit"):
    """Read the whole request, then answer 429 with the API's rate-limit error, and say when to come back in one form.

    `own`: where the API itself says it. `seconds`: `Retry-After` in whole seconds, rounded up. `ms`: `retry-after-ms`.
    `date`: `Retry-After` as an HTTP-date, with the `Date` it counts from. `body`: no field; only what the API's body says
    (Gemini's RetryInfo, OpenAI's message, Azure's; Anthropic's says nothing). `none`: nowhere.

    Breaks: clients that sleep for whatever is asked (hours), give up at once above a limit of theirs, or come too early.
    Looks like: the API's own 429; every request is refused, whatever the client waits.
    Cannot show: a limit that a slower client would keep (see requests-per-minute), or one that money lifts (quota-spent).
    """

    group = "quota"
    hands_on = False
    seen = ("status",)

    retry_after_s: (
        Annotated[
            float,
            Meta(gt=0, le=MAX_WAIT_S, description="the wait that is asked for; not with form none", examples=[60]),
        ]
        | None
    ) = None
    form: Annotated[
        Literal["own", "seconds", "ms", "date", "body", "none"], Meta(description="where and how it is said")
    ] = "own"
    asks_upstream: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (self.form == "none") != (self.retry_after_s is None):
            raise ValueError(
                "no retry_after_s, wanted seconds to ask for, or form: none, which asks for nothing"
                if self.retry_after_s is None
                else "retry_after_s beside form: none, wanted one of the two"
            )

    def script(self, cx: Cx) -> Script:
        def put(answer: Answer) -> Answer:
            return self._say(answer, cx.wall_ns() / 1e9)

        yield from answer_error(cx, 429, "rate", retry_after_s=self.retry_after_s, put=put)

    def _say(self, answer: Answer, now_s: float) -> Answer:
        wait_s = self.retry_after_s
        if self.form == "own" or wait_s is None:
            return answer
        told: tuple[tuple[str, str], ...] = ()
        if self.form == "seconds":
            told = (("retry-after", str(math.ceil(wait_s))),)
        elif self.form == "ms":
            told = (("retry-after-ms", str(math.ceil(wait_s * 1e3))),)
        elif self.form == "date":
            told = (("date", http_date(now_s)), ("retry-after", http_date(math.ceil(now_s + wait_s))))
        return with_fields(answer, *told, without=_FIELDS)
