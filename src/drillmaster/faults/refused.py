"""The fault `refused`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Proof, Refuse, Scope, Script

__all__ = ["Refused"]


class Refused(Fault, frozen=True, kw_only=True, tag="refused"):
    """Stop listening: each attempt to connect is answered with a RST by the kernel, until the lift.

    Connections that stand are closed once their request is answered, idle ones at once. The port stays ours.

    Breaks: clients that time a dead provider by their read timeout; pools that count a refusal as a request.
    Looks like: ECONNREFUSED within a millisecond, on each attempt; in many SDKs the same class as a reset.
    Cannot show: a host that is gone (see syn-black-hole), a name that does not resolve; single requests cannot be chosen.
    """

    group = "connection"
    seen = ("refused",)
    scope: ClassVar[Scope] = "port"
    proof: ClassVar[Proof] = "probe"
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        yield Refuse()
