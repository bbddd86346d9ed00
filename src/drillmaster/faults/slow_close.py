"""The fault `slow-close`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Close, Cx, Fault, Head, Lifted, Raw, Read, Script, Send, Wait, closing_head, relay_body
from drillmaster.http1 import BODYLESS

__all__ = ["SlowClose"]


class SlowClose(Fault, frozen=True, kw_only=True, tag="slow-close"):
    """Send the real answer whole, its end told by the connection's end alone, and close `delay_ms` late.

    Content-Length and chunks are taken away, as old gateways do it: only the FIN says that the body is over.

    Breaks: clients that have the whole answer and wait on; read timeouts that throw a whole answer away.
    Looks like: an answer that is there and does not return.
    Cannot show: anything to a client that stops reading at the API's own last word (`[DONE]`, `message_stop`).
    """

    group = "time"
    hands_on = False
    seen = ("complete", "stalled")

    delay_ms: Annotated[int, Meta(ge=1, le=600_000, description="between the last byte and the FIN", examples=[500])]

    def script(self, cx: Cx) -> Script:
        head = yield Read("upstream")
        bodyless = cx.request is not None and cx.request.method == "HEAD"
        if not isinstance(head, Head) or bodyless or head.status in BODYLESS:
            return
        wire = closing_head(head, without=("content-length",))
        yield Send(Raw(wire, status=head.status), relayed=True)
        if not (yield from relay_body()):
            yield Close("rst")
        try:
            yield Wait(self.delay_ms / 1e3)
        except Lifted:
            return
