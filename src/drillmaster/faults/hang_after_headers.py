"""The fault `hang-after-headers`."""

from drillmaster.faults import Cx, Fault, Head, Lifted, Read, Script, Send, Wait
from drillmaster.http1 import BODYLESS

__all__ = ["HangAfterHeaders"]


class HangAfterHeaders(Fault, frozen=True, kw_only=True, tag="hang-after-headers"):
    """Send the real answer's head, and nothing of its body, until the client gives up or the fault is lifted.

    An answer without a body passes, and has not met the fault.

    Breaks: clients whose time limit ends with the head; code that takes a status 200 for a success.
    Looks like: a status and a read that never returns; in some clients another exception than a hang before the head.
    Cannot show: a body that stops part way (see stall).
    """

    group = "time"
    hands_on = False
    seen = ("stalled",)

    def script(self, cx: Cx) -> Script:
        head = yield Read("upstream")
        if not isinstance(head, Head) or _is_all(cx, head):
            return
        yield Send(head)
        while True:
            try:
                yield Wait()
            except Lifted:
                # Goes on for as long as the plan lets it linger; the driver cuts.
                continue


def _is_all(cx: Cx, head: Head) -> bool:
    """Whether nothing comes behind this head."""
    if head.status in BODYLESS or (cx.request is not None and cx.request.method == "HEAD"):
        return True
    return any(name.lower() == "content-length" and value == "0" for name, value in head.headers)
