"""A streamed answer as its events, one at a time. No entry: what the faults of streams share.

1. A stream is an answer of status 200 that is `text/event-stream` or `application/x-ndjson`, in no content coding. Any other
   answer passes through untouched, and has not met the fault: also Gemini's stream without `alt=sse`, one growing array.
2. What goes through unchanged is `relayed`: the fault has met a request where it strikes, not before.
3. A fault that strikes `after_events` strikes at the latest before the first event that says why the model stopped, so that
   it strikes in every stream that has an end. Pings and comments are not counted.
4. At a lift the rest of the stream goes through as it comes.
"""

import contextlib
from collections.abc import Generator
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from drillmaster.dialects import Says
from drillmaster.faults import (
    Action,
    Close,
    Cx,
    Data,
    End,
    Fault,
    Frame,
    Head,
    Lifted,
    Lost,
    Need,
    Raw,
    Read,
    Script,
    Send,
    closing_head,
)

__all__ = ["AfterEvents", "Events", "StreamFault"]

AfterEvents = (
    Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="events that go through first; None: all but those that end the stream"),
    ]
    | None
)

_END = Says.FINISH | Says.TERMINAL | Says.ERROR


class Events:
    """The events of one answer: where it stands, and what was read of it and not sent."""

    __slots__ = ("_part", "_waiting", "begun", "by_line", "cx", "head", "held", "lost", "over", "streams")

    def __init__(self, cx: Cx) -> None:
        self.cx = cx
        self.head: Head | None = None
        """The upstream's, once it came with a status of 200."""
        self.held: list[bytes] = []
        """Read and not sent. Goes first when the rest is relayed."""
        self.lost: str | None = None
        """Why the upstream broke off; None: it has not."""
        self.streams = False
        """Whether the answer is a stream that can be read."""
        self.over = False
        """Whether the upstream has said all it says."""
        self.begun = False
        """Whether its head is on its way to the client: then this script has to end it."""
        self.by_line = False
        """Whether its events are lines of JSON."""
        self._part = b""
        self._waiting: list[bytes] = []

    def look(self) -> Script:
        """Ask the upstream; `head` and `streams` say what came. A lift here leaves everything to the proxy."""
        head = yield Read("upstream")
        if not isinstance(head, Head) or head.status != 200:
            return
        self.head = head
        named = {name.lower(): value.lower() for name, value in head.headers}
        kind = named.get("content-type", "")
        self.by_line = kind.startswith("application/x-ndjson")
        readable = named.get("content-encoding", "identity") == "identity"
        self.streams = readable and (self.by_line or kind.startswith("text/event-stream"))

    def begin(self, *, close_delimited: bool = False) -> Script:
        """Ask the upstream, and send its head on if its answer is a stream; `begun` says whether."""
        yield from self.look()
        head = self.head
        if head is None or not self.streams:
            return
        self.begun = True
        if close_delimited:
            wire = closing_head(head, without=("content-length",))
            yield Send(Raw(wire, status=head.status), relayed=True)
        else:
            fields = tuple(field for field in head.headers if field[0].lower() != "content-length")
            yield Send(Head(head.status, fields, head.reason), relayed=True)

    def next(self) -> Generator[Action, Any, bytes | None]:
        """The next event, of `held` first; None: there is none, see `lost`."""
        if self.held:
            return self.held.pop(0)
        return (yield from self.pull())

    def pull(self) -> Generator[Action, Any, bytes | None]:
        """The next event of the upstream, whatever is held."""
        while not self.over:
            if self._waiting:
                return self._waiting.pop(0)
            event = yield Read("upstream", by="data" if self.by_line else "frame")
            if isinstance(event, Frame):
                return event.body
            if isinstance(event, Data):
                *lines, self._part = (self._part + event.body).split(b"\n")
                self._waiting = [line + b"\n" for line in lines]
            elif isinstance(event, End | Lost):
                self.over = True
                self.lost = event.why if isinstance(event, Lost) else None
                if self._part:
                    rest, self._part = self._part, b""
                    return rest
        return None

    def says(self, event: bytes) -> Says:
        """What an event says, in the API's terms."""
        return self.cx.dialect.says(event)

    def ends(self, event: bytes) -> bool:
        """Whether an event says why the model stopped, that the stream is over, or that it failed."""
        return bool(self.says(event) & _END)

    def ping(self) -> bytes:
        """What keeps this stream alive and says nothing."""
        ping = self.cx.dialect.ping
        # An imitated API streams events where its own would be lines.
        return ping if self.by_line or not ping.startswith(b"{") else b": keep-alive\n\n"

    def relay(self, after_events: int | None) -> Generator[Action, Any, bool]:
        """Relay this many events, at the latest until the one that ends (see 3), which stays in `held`.

        False: the stream broke off, or ended without such an event.
        """
        passed = 0
        while (event := (yield from self.next())) is not None:
            said = self.says(event)
            if said & _END or (passed == after_events and not said & Says.PING):
                self.held.insert(0, event)
                return True
            yield Send(Frame(event), relayed=True)
            passed += not said & Says.PING
        return False

    def rest(self) -> Script:
        """Relay what is left, and its end as it comes."""
        while True:
            try:
                event = yield from self.next()
                if event is None:
                    break
                yield Send(Frame(event), relayed=True)
            except Lifted:
                continue  # told once; what was being sent has been sent
        if self.lost is not None:
            yield Close("rst" if self.lost == "reset" else "fin")
        yield Send(End(), relayed=True)


class StreamFault(Fault, frozen=True, kw_only=True):
    """A fault that strikes inside a stream. `strike` is all that an entry says; what it leaves is relayed."""

    group = "stream"
    hands_on = False
    needs: ClassVar[tuple[Need, ...]] = ("stream",)
    reads_answer: ClassVar[bool] = True

    def script(self, cx: Cx) -> Script:
        events = Events(cx)
        with contextlib.suppress(Lifted):  # the rest goes through
            yield from events.begin(close_delimited=self.ends_by_close())
            if events.begun:
                yield from self.strike(events)
        if events.begun:
            yield from events.rest()

    def ends_by_close(self) -> bool:
        """Whether the stream is framed by its connection's end alone."""
        return False

    def strike(self, events: Events) -> Script:
        """What happens in the stream, its head being sent."""
        raise NotImplementedError
