"""The fault `reset`."""

from drillmaster.faults import Close, Cx, Fault, Script

__all__ = ["Reset"]


class Reset(Fault, frozen=True, kw_only=True, tag="reset"):
    """Reset the connection (RST) once the request's head was read; nothing of an answer is sent.

    Breaks: clients whose fallback waits for a status; clients that retry a reset for ever.
    Looks like: ECONNRESET, `connection reset by peer`, before any byte of the answer, on each attempt.
    Cannot show: a provider that is gone before the connection stands (see refused), nor one that fails mid-answer.
    """

    group = "connection"
    hands_on = False
    seen = ("reset",)

    def script(self, cx: Cx) -> Script:
        yield Close("rst")
