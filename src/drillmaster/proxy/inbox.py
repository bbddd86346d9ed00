"""What has arrived for a script and was not read by it yet: the client's body, the upstream's answer. No socket."""

from collections import deque
from collections.abc import Iterable
from typing import Literal

from drillmaster.faults import Data, End, Event, Frame, Head, Lost
from drillmaster.http1 import Frames, Lines, Malformed, ResponseHead

__all__ = ["FromClient", "FromUpstream"]


class FromClient:
    """The client's body as events. Its end stays the end, however often it is read."""

    __slots__ = ("_events", "queued_bytes")

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self.queued_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._events)

    def put(self, payload: bytes, *, done: bool) -> None:
        """A piece arrived; `done`: the body is whole."""
        if payload:
            self._events.append(Data(payload))
            self.queued_bytes += len(payload)
        if done and not (self._events and isinstance(self._events[-1], End)):
            self._events.append(End())

    def put_back(self, pieces: Iterable[bytes]) -> None:
        """What was read is to be read once more, by somebody else."""
        given = [Data(piece) for piece in pieces]
        self._events.extendleft(reversed(given))
        self.queued_bytes += sum(len(data.body) for data in given)

    def next(self) -> Event:
        event = self._events.popleft()
        if isinstance(event, Data):
            self.queued_bytes -= len(event.body)
        elif isinstance(event, End):
            self._events.append(event)
        return event

    def take_unread(self) -> bytes:
        """All that was not read; its end is still to be read."""
        unread = b"".join(event.body for event in self._events if isinstance(event, Data))
        self._events = deque(event for event in self._events if not isinstance(event, Data))
        self.queued_bytes = 0
        return unread


class FromUpstream:
    """The upstream's answer as events. Its end, and its loss, stay, however often they are read."""

    __slots__ = ("_events", "_frames", "_lines", "queued_bytes")

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._frames: Frames | Lines | None = None
        self._lines = False
        self.queued_bytes = 0

    def put_head(self, resp: ResponseHead, *, again: bool = False) -> None:
        """The head arrived; `again`: it was read, and is to be read once more, before all else."""
        headers = []
        for line in resp.lines:
            name, _, value = line.partition(b":")
            headers.append((name.decode("latin-1"), value.strip(b" \t").decode("latin-1")))
        self._lines = resp.content_type.startswith(b"application/x-ndjson")
        head = Head(resp.status, tuple(headers), resp.reason.decode("latin-1"))
        if not again:
            self._events.append(head)
        elif not (self._events and isinstance(self._events[0], Head)):
            self._events.appendleft(head)

    def put(self, payload: bytes, *, done: bool) -> None:
        if payload:
            self._events.append(Data(payload))
            self.queued_bytes += len(payload)
        if done:
            self._events.append(End())

    def put_loss(self, why: str) -> None:
        self._events.append(Lost(why))

    @property
    def loss(self) -> str | None:
        """Why that side was lost, if it was and nobody has been told yet."""
        return next((event.why for event in self._events if isinstance(event, Lost)), None)

    def next(self, by: Literal["data", "frame"]) -> Event:
        """The next event; None when more has to come first."""
        events = self._events
        while events:
            event = events[0]
            if by == "frame" and isinstance(event, Data):
                events.popleft()
                self.queued_bytes -= len(event.body)
                if self._frames is None:
                    self._frames = Lines() if self._lines else Frames()
                try:
                    cut = self._frames.feed(event.body)
                except Malformed as bad:
                    events.clear()
                    events.append(Lost(bad.why))
                    continue
                events.extendleft(Frame(frame) for frame in reversed(cut))
                self.queued_bytes += sum(map(len, cut))
                continue
            if isinstance(event, End | Lost):
                if self._frames is not None and (rest := self._frames.rest()):
                    self._frames = None
                    return Frame(rest)
                return event
            events.popleft()
            if isinstance(event, Data | Frame):
                self.queued_bytes -= len(event.body)
            return event
        return None

    def take_unread(self) -> bytes:
        """All of the body that was not read, half a frame included."""
        unread = b"".join(event.body for event in self._events if isinstance(event, Data | Frame))
        if self._frames is not None:
            unread += self._frames.rest()
            self._frames = None
        self._events.clear()
        self.queued_bytes = 0
        return unread
