"""The fault `first-byte-delay`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Lifted, Lost, Read, Script, Wait

__all__ = ["FirstByteDelay"]


class FirstByteDelay(Fault, frozen=True, kw_only=True, tag="first-byte-delay"):
    """Hold the real answer back for `delay_ms`, give or take `jitter_ms`, then relay it unchanged.

    The delay comes on top of what the provider takes by itself; the request goes up at once.

    Breaks: time limits that are shorter than a provider's bad day, and users' patience; hedges that fire too early.
    Looks like: a slow first token, then the usual pace.
    Cannot show: a provider that is slow from token to token (see slow-tokens, throttle).
    """

    group = "time"
    seen = ("complete", "silent")

    delay_ms: Annotated[int, Meta(ge=1, le=600_000, description="added before the first byte", examples=[500])]
    jitter_ms: Annotated[int, Meta(ge=0, le=600_000, description="evenly drawn, both ways; at most delay_ms")] = 0

    def __post_init__(self) -> None:
        if self.jitter_ms > self.delay_ms:
            raise ValueError(f"jitter_ms {self.jitter_ms}, wanted at most delay_ms, {self.delay_ms}")

    def script(self, cx: Cx) -> Script:
        try:
            if isinstance((yield Read("upstream")), Lost):
                return
            drawn_ms = cx.rng.uniform(-self.jitter_ms, self.jitter_ms) if self.jitter_ms else 0.0
            yield Wait((self.delay_ms + drawn_ms) / 1e3)
        except Lifted:
            return  # the answer goes through at once
