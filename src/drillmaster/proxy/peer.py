"""What an exchange knows of the client it serves."""

from typing import Literal, Protocol

from drillmaster.http1 import Answer, answer_head
from drillmaster.proxy.hub import Hub
from drillmaster.wire import Wire

__all__ = ["Ending", "Peer", "head_of"]

Ending = Literal["keep", "fin", "linger", "rst"]
"""What becomes of the client's connection: the next request, FIN, FIN after reading what still comes, RST."""


class Peer(Protocol):
    """A client connection, as its exchange sees it."""

    hub: Hub
    wire: Wire
    id: int
    nth: int
    buf: bytes
    """Bytes behind the present request."""
    deadline_ns: int

    @property
    def ex(self) -> object:
        """The exchange under way, which `nth` counts."""

    def next_request(self, how: Ending, now_ns: int) -> None: ...


def head_of(answer: Answer, *, keep_alive: bool) -> bytes:
    """The head of a whole answer of ours."""
    fields = [*answer.headers, ("content-length", str(len(answer.body)))]
    if not keep_alive:
        fields.append(("connection", "close"))
    return answer_head(answer.status, fields)
