"""What has arrived for a script and was not read by it yet: the client's body, the upstream's answer. No socket."""

from collections import deque
from typing import Literal

from drillmaster.faults import Data, End, Event, Frame, Head, Lost
from drillmaster.http1 import Frames, Lines, Malformed, ResponseHead

__all__ = ["FromClient", "FromUpstream"]


class FromClient:
    """The client's body as events, and what was read of it, for whoever may want it after. Its end stays the end."""

    __slots__ = ("_events", "_given", "_held", "_held_bytes", "queued_bytes", "too_large")

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._given = False
        """Whether the upstream has it, and what is held is for other readers."""
        self.queued_bytes = 0
        self.too_large = False
        """More was read than was kept: nobody can be given it any more."""

    def __bool__(self) -> bool:
        return bool(self._events)

    def put(self, payload: bytes, *, done: bool) -> None:
        """A piece arrived; `done`: the body is whole."""
        if payload:
            self._events.append(Data(payload))
            self.queued_bytes += len(payload)
        if done and not (self._events and isinstance(self._events[-1], End)):
            self._events.append(End())

    def next(self) -> Event:
        event = self._events.popleft()
        if isinstance(event, Data):
            self.queued_bytes -= len(event.body)
        elif isinstance(event, End):
            self._events.append(event)
        return event

    def keep(self, piece: bytes, limit_bytes: int | None = None) -> None:
        """Hold a piece that was read; past the limit nothing is held."""
        if self.too_large:
            return
        if limit_bytes is not None and self._held_bytes > limit_bytes:
            self.too_large, self._held = True, []
            return
        self._held.append(piece)
        self._held_bytes += len(piece)

    def rewind(self) -> None:
        """What is held is to be read once more, by somebody else, from the body's beginning."""
        if self._given:  # what the last one left of it is held as well
            self._drop_unread()
            self._queue(self._held)
        else:
            self._queue(self._held)
            self._held, self._held_bytes = [], 0

    def hand_over(self, *, again: bool = False) -> bytes:
        """All of it, read or not, for the upstream; its end is still to be read. `again`: others will read it too."""
        pieces = [*self._held, *(event.body for event in self._events if isinstance(event, Data))]
        self._drop_unread()
        self._held, self._given = pieces if again else [], again
        return b"".join(pieces)

    def _queue(self, pieces: list[bytes]) -> None:
        self._events.extendleft(Data(piece) for piece in reversed(pieces))
        self.queued_bytes += sum(map(len, pieces))

    def _drop_unread(self) -> None:
        self._events = deque(event for event in self._events if not isinstance(event, Data))
        self.queued_bytes = 0


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
    def at_end(self) -> bool:
        """Whether all of a whole answer was read."""
        return bool(self._events) and isinstance(self._events[0], End)

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
