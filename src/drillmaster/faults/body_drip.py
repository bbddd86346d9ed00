"""The fault `body-drip`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Lifted, Pass, Passed, Script, Wait

__all__ = ["BodyDrip"]


class BodyDrip(Fault, frozen=True, kw_only=True, tag="body-drip"):
    """Relay the real answer's body byte by byte, `bytes_per_s` of them a second.

    Breaks: read timeouts, which begin anew with each byte: most SDKs wait to the end and call it success.
    Looks like: a request that is neither hung nor done; a total time limit is all that ends it.
    Cannot show: a head that drips (see header-drip), which other limits guard.
    """

    group = "time"
    hands_on = False
    seen = ("complete", "stalled")

    bytes_per_s: Annotated[
        float, Meta(ge=0.01, le=1_000, description="single bytes of the answer's body", examples=[400])
    ]

    def script(self, cx: Cx) -> Script:
        sent_bytes = 0
        while True:
            sent_bytes += 1
            passed = yield Pass(until_bytes=sent_bytes)
            if isinstance(passed, Passed) and passed.whole:
                return
            try:
                yield Wait(1 / self.bytes_per_s)
            except Lifted:
                return  # the rest goes through at once
