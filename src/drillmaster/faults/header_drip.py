"""The fault `header-drip`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Close, Cx, Fault, Head, Lifted, Raw, Read, Script, Send, Wait, closing_head, relay_body

__all__ = ["HeaderDrip"]


class HeaderDrip(Fault, frozen=True, kw_only=True, tag="header-drip"):
    """Send the real answer's head byte by byte, `bytes_per_s` of them a second, then its body at full pace.

    The connection ends with this answer; without a Content-Length its end is the end of the body.

    Breaks: read timeouts, which begin anew with each byte of a status line; limits on the time of a head.
    Looks like: a server that has begun to answer, and goes on beginning.
    Cannot show: a slow body (see body-drip), or a client that resets by itself what is too slow for it.
    """

    group = "time"
    hands_on = False
    seen = ("complete", "silent")

    bytes_per_s: Annotated[
        float, Meta(ge=0.01, le=1_000, description="single bytes of the answer's head", examples=[400])
    ]

    def script(self, cx: Cx) -> Script:
        head = yield Read("upstream")
        if not isinstance(head, Head):
            return
        wire = closing_head(head)
        for at in range(len(wire)):
            last = at == len(wire) - 1
            yield Send(Raw(wire[at : at + 1], status=head.status if last else None), relayed=True)
            try:
                if not last:
                    yield Wait(1 / self.bytes_per_s)
            except Lifted:
                yield Send(Raw(wire[at + 1 :], status=head.status), relayed=True)
                break
        if not (yield from relay_body()):
            # A FIN would be the end of a body that has no length: the client must see that it is not.
            yield Close("rst")
