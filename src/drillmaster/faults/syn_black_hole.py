"""The fault `syn-black-hole`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Proof, Refuse, Scope, Script

__all__ = ["SynBlackHole"]


class SynBlackHole(Fault, frozen=True, kw_only=True, tag="syn-black-hole"):
    """Let attempts to connect go unanswered: the listener's queue is kept full, and the kernel drops each SYN.

    Connections that stand are closed once their request is answered, idle ones at once. After the lift a client that is
    still trying gets through with its next SYN, which the kernel sends after 1, 3, 7, ... s.

    Breaks: clients without a connect timeout, which wait for the kernel's: about two minutes.
    Looks like: a connect that neither stands nor fails; `connect timeout`, where there is one.
    Cannot show: packets lost on a connection that stands; single requests cannot be chosen.
    """

    group = "connection"
    seen = ("unanswered",)
    scope: ClassVar[Scope] = "port"
    proof: ClassVar[Proof] = "probe"
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        yield Refuse("silent")
