"""The fault `tokens-per-minute`."""

import math
import re
from typing import Annotated

from msgspec import Meta

from drillmaster.dialects import Bucket
from drillmaster.faults import (
    SEEN_BYTES,
    Beginning,
    Cx,
    Data,
    End,
    Fault,
    Lost,
    Pass,
    Read,
    Script,
    answer_error,
    with_fields,
)
from drillmaster.rules.token_bucket import take

__all__ = ["TokensPerMinute"]

BYTES_A_TOKEN = 4
_MAX_TOKENS = re.compile(
    rb'[{,]\s*"(?:max_tokens|max_completion_tokens|max_output_tokens|maxOutputTokens)"\s*:\s*([0-9]{1,9})\b'
)


class TokensPerMinute(Fault, frozen=True, kw_only=True, tag="tokens-per-minute"):
    """Let each credential have `tokens` a minute; answer 429 to the request that would go beyond.

    Counted before the answer, as limiters do: the request's bytes / 4, and the tokens that it allows its answer
    (`max_tokens` and its like, where they are in the first 64 kB). A token bucket that fills steadily; every answer carries
    the API's own rate fields. A request that is larger than the whole limit never passes, and is told no time.

    Breaks: agents with long contexts; clients that retry the very request that is too large, for ever.
    Looks like: short requests that pass while long ones are refused, with one and the same key.
    Cannot show: what a provider's tokenizer counts, nor limits on what comes out.
    """

    group = "quota"
    hands_on = False
    seen = ("status",)

    tokens: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="a minute, for each credential; as many at once", examples=[300])
    ]

    def first_met(self) -> int | None:
        return None

    def script(self, cx: Cx) -> Script:
        # Read no more than the driver can still hand to the upstream: what is beyond is known by its length.
        seen, read_bytes = Beginning(cx.request), 0
        while read_bytes < SEEN_BYTES:
            event = yield Read("client")
            if isinstance(event, Lost):
                return
            if isinstance(event, End):
                break
            if isinstance(event, Data):
                read_bytes += len(event.body)
                seen.take(event.body)
        known_bytes = cx.request.length if cx.request is not None else None
        unfolds = seen.body_bytes / read_bytes if seen.body_bytes else 1  # as what was read does, so does the rest
        wanted = math.ceil((read_bytes if known_bytes is None else known_bytes) * unfolds / BYTES_A_TOKEN)
        if allowed := _MAX_TOKENS.search(seen.body):
            wanted += int(allowed[1])
        cell = cx.cell(f"tokens-per-minute/{cx.key_hash}")
        taken = take(cell.get("level"), wanted, capacity=self.tokens, per_s=self.tokens / 60, now_ns=cx.now_ns())
        cell["level"] = taken.level
        bucket = Bucket(limit=self.tokens, remaining=int(taken.level.amount), reset_s=taken.full_s)
        fields = cx.dialect.rate_headers(tokens=bucket, now_s=cx.wall_ns() / 1e9)
        if taken.allowed:
            yield Pass(fields=fields)
        else:
            yield from answer_error(
                cx,
                429,
                "rate-tokens",
                retry_after_s=taken.wait_s,
                put=lambda answer: with_fields(answer, *fields),
                seen=seen,
            )
