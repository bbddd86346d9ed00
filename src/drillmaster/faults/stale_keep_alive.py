"""The fault `stale-keep-alive`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Close, Cx, Fault, Script

__all__ = ["StaleKeepAlive"]


class StaleKeepAlive(Fault, frozen=True, kw_only=True, tag="stale-keep-alive"):
    """Serve a connection's first requests, then reset it (RST) at the head of the `nth`: the race of a closing keep-alive.

    Breaks: clients that do not send a request again on a new connection, though not a byte of an answer came.
    Looks like: requests that fail now and then, always on a connection that had worked before.
    Cannot show: a client that opens a connection per request; it never meets this fault, and the evidence says so.
    """

    group = "connection"
    seen = ("reset",)

    nth: Annotated[int, Meta(ge=2, le=10_000, description="which request on a connection, from 1")] = 2

    def first_met(self) -> int | None:
        return self.nth

    def script(self, cx: Cx) -> Script:
        if cx.nth >= self.nth:
            yield Close("rst")
