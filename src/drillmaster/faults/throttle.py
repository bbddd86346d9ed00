"""The fault `throttle`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Lifted, Pass, Passed, Script, Wait

__all__ = ["Throttle"]

PIECE_S = 0.05


class Throttle(Fault, frozen=True, kw_only=True, tag="throttle"):
    """Relay the real answer's body at no more than `bytes_per_s`, in pieces of 50 ms.

    Breaks: total time limits; clients that hold a slot, a lock or a database connection while they read.
    Looks like: a narrow line: every read returns something, and the whole takes for ever.
    Cannot show: a slow upload, or a read timeout that fires (pieces come more often than any timeout; see body-drip).
    """

    group = "time"
    hands_on = False
    seen = ("complete", "stalled")

    bytes_per_s: Annotated[float, Meta(ge=1, le=1e9, description="of the answer's body", examples=[1_000])]

    def script(self, cx: Cx) -> Script:
        piece_bytes = max(1, round(self.bytes_per_s * PIECE_S))
        sent_bytes, first_ns = 0, 0
        while True:
            sent_bytes += piece_bytes
            passed = yield Pass(until_bytes=sent_bytes)
            if isinstance(passed, Passed) and passed.whole:
                return
            first_ns = first_ns or cx.now_ns()
            try:
                yield Wait(max(0.0, sent_bytes / self.bytes_per_s - (cx.now_ns() - first_ns) / 1e9))
            except Lifted:
                return  # the rest goes through at once
