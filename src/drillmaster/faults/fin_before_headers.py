"""The fault `fin-before-headers`."""

from typing import ClassVar

from drillmaster.faults import Close, Cx, Fault, Script, read_request_whole

__all__ = ["FinBeforeHeaders"]


class FinBeforeHeaders(Fault, frozen=True, kw_only=True, tag="fin-before-headers"):
    """Read the whole request, then close the connection in order (FIN); nothing of an answer is sent.

    Breaks: clients that tell a reset from an end, and retry the one alone; code that reads the end as an empty answer.
    Looks like: the end of the stream where a status line was due: `server disconnected`, `empty reply`.
    Cannot show: whether the provider has done the work (and billed it) before it went away.
    """

    group = "connection"
    hands_on = False
    seen = ("closed",)
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        # What is not read when a socket is closed turns its FIN into a RST.
        yield from read_request_whole()
        yield Close("fin")
