"""What a script says to the client, framed as it goes out. No socket of its own."""

from typing import TYPE_CHECKING

from drillmaster.faults import Data, End, Frame, Head, Raw
from drillmaster.http1 import BODYLESS, LAST_CHUNK, answer_head, chunk

if TYPE_CHECKING:  # exchange, driver and speech know each other; only one of them can import the others
    from drillmaster.proxy.exchange import Exchange

__all__ = ["Speech"]


class Speech:
    """An answer of a script's own, or one that it relays piece by piece."""

    __slots__ = ("_bodyless", "_chunked", "_ex", "_raw", "ended", "head_sent")

    def __init__(self, ex: "Exchange") -> None:
        self._ex = ex
        self.head_sent = self.ended = self._chunked = self._raw = False
        self._bodyless = ex.head.method == "HEAD"
        """Nothing goes out behind the head, whatever a script says."""

    @property
    def begun(self) -> bool:
        """Whether the client has something of it."""
        return self.head_sent or self._raw

    def send(self, part: Head | Data | Frame | Raw | End) -> None:
        ex = self._ex
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
                    ex.send_down(LAST_CHUNK)
                ex.answered_by_script()
