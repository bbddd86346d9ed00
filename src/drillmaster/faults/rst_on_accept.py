"""The fault `rst-on-accept`."""

from typing import ClassVar

from drillmaster.faults import Close, Cx, Fault, Proof, Scope, Script

__all__ = ["RstOnAccept"]


class RstOnAccept(Fault, frozen=True, kw_only=True, tag="rst-on-accept"):
    """Accept each connection and reset it (RST) at once, before a byte of a request was read.

    Connections that stand are closed once their request is answered, idle ones at once.

    Breaks: clients that take a connection that stood for a healthy provider; balancers' checks that only connect.
    Looks like: a connect that succeeds, then ECONNRESET or EPIPE at the first write or read; at times the connect itself
    already says ECONNRESET.
    Cannot show: a reset that depends on what was asked (see reset); single requests cannot be chosen.
    """

    group = "connection"
    seen = ("reset",)
    scope: ClassVar[Scope] = "connection"
    proof: ClassVar[Proof] = "connections"
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        yield Close("rst")
