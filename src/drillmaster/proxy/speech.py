"""What a script says to the client, framed as it goes out. No socket of its own.

A trailer of the upstream's goes on behind what a script relays, when it relayed all of it, since a client may check the answer
by it. Where the framing has no place for one, because the answer has a length now or ends with the connection, the head does
not announce one either.
"""

from typing import TYPE_CHECKING

from drillmaster.faults import Data, End, Frame, Head, Raw
from drillmaster.http1 import BODYLESS, ChunkedBody, answer_head, chunk, chunked_end
from drillmaster.proxy.inbox import FromUpstream

if TYPE_CHECKING:  # exchange, driver and speech know each other; only one of them can import the others
    from drillmaster.proxy.exchange import Exchange

__all__ = ["Speech"]


class Speech:
    """An answer of a script's own, or one that it relays piece by piece."""

    __slots__ = ("_bodyless", "_chunked", "_ex", "_raw", "_relays", "_upstream", "ended", "head_sent")

    def __init__(self, ex: "Exchange", upstream: FromUpstream) -> None:
        self._ex = ex
        self._upstream = upstream
        self.head_sent = self.ended = self._chunked = self._raw = self._relays = False
        self._bodyless = ex.head.method == "HEAD"
        """Nothing goes out behind the head, whatever a script says."""

    @property
    def begun(self) -> bool:
        """Whether the client has something of it."""
        return self.head_sent or self._raw

    def send(self, part: Head | Data | Frame | Raw | End, *, relayed: bool = False) -> None:
        """`relayed`: it is the upstream's own."""
        ex = self._ex
        self._relays = self._relays or relayed
        match part:
            case Head(status=status, headers=headers, reason=reason):
                if not ex.req_done:
                    ex.keep = False
                fields = list(headers)
                if status in BODYLESS:
                    self._bodyless = True
                elif "content-length" not in {name.lower() for name, _ in headers}:
                    if ex.head.minor:
                        self._chunked = True
                        fields.append(("transfer-encoding", "chunked"))
                    else:
                        ex.keep = False
                if not self._chunked:
                    fields = [field for field in fields if field[0].lower() != "trailer"]
                if not ex.keep:
                    fields.append(("connection", "close"))
                elif not ex.head.minor:
                    fields.append(("connection", "keep-alive"))
                self.head_sent = True
                ex.status = status
                ex.told = headers
                ex.real = ex.real or ex.resp is not None
                ex.send_down(answer_head(status, fields, reason))
            case Data(body=body) | Frame(body=body):
                if body and not self._bodyless:
                    ex.down_bytes += len(body)
                    ex.watch(body)  # what ended, or did not, is what the client was given
                    ex.send_down(chunk(body) if self._chunked else body)
            case Raw(wire=wire, status=status):
                self._raw = True
                ex.status = status if ex.status is None else ex.status
                ex.real = ex.real or ex.resp is not None
                ex.keep = False
                ex.send_down(wire)
            case End():
                self.ended = True
                if self._chunked and not self._bodyless:
                    ex.send_down(chunked_end(self._trailers()))
                ex.answered_by_script()

    def _trailers(self) -> list[bytes]:
        body = self._ex.down_body
        whole = self._relays and self._upstream.at_end
        return body.trailers if whole and isinstance(body, ChunkedBody) else []
