"""The fault `hang`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Lifted, Script, Wait, read_request_whole

__all__ = ["Hang"]


class Hang(Fault, frozen=True, kw_only=True, tag="hang"):
    """Read the whole request and never answer, until the client gives up or the fault is lifted.

    Breaks: clients without a read timeout, which is the default of several SDKs (10 minutes or none).
    Looks like: a connection that stands and a read that never returns; the write succeeded, whatever its size.
    Cannot show: a write that stalls because nobody reads (another exception in most clients).
    """

    group = "time"
    hands_on = False
    seen = ("silent",)
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        yield from read_request_whole()
        while True:
            try:
                yield Wait()
            except Lifted:
                # Goes on for as long as the plan lets it linger; the driver cuts.
                continue
