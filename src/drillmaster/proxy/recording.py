"""What models said in missions, recorded where it passes: a transcript for agents that write none.

1. Only exchanges of a mission are recorded: those with `X-Drill-Mission`, or with a `traceparent`, whose mission the run's own
   lines tell later (its part is then called `t.TRACE`). All others cost a look.
2. An exchange is one part: `started` with entry `proxy`, what went up, what the client was given with its pace, and the end.
3. The loop only keeps pieces, at most `MOST_BYTES` of them in all. Screening and writing is a thread's; it is told when an
   exchange is over. What finds no room, or no disk, is counted and told, and the exchange goes on.
4. Bodies in gzip or deflate are recorded unpacked. What is packed in another way is not recorded, and the line says how long
   it was.
"""

import os
import sys
import threading
import zlib
from queue import Empty, SimpleQueue
from time import monotonic_ns, time_ns

from drillmaster.http1 import RequestHead
from drillmaster.rules.transcripts import MISSION
from drillmaster.timeline.opening import complaint, open_append
from drillmaster.transcripts.composing import RECORD_CAP_BYTES, Composer, Piece, Record, lost_line
from drillmaster.transcripts.redacting import redact_headers, redact_url

__all__ = ["FIELD", "MOST_BYTES", "Recorder", "Recording"]

FIELD = b"x-drill-mission"
MOST_BYTES = 64 << 20
"""What may be held in memory, of exchanges that are under way and of those that wait for the thread."""
_TRACE_CHARS = 32
_UNPACKED = frozenset((b"", b"identity"))
_PACKED = frozenset((b"gzip", b"x-gzip", b"deflate"))


class Recording:
    """One exchange of a mission, as far as it has come."""

    __slots__ = ("_began_ns", "_held", "clipped", "down", "mission", "up", "wall_ns")

    def __init__(self, mission: str, held: "_Held") -> None:
        self.mission = mission
        self._held = held
        self._began_ns = monotonic_ns()
        self.wall_ns = time_ns()
        self.up: list[bytes] = []
        self.down: list[tuple[int, bytes]] = []
        self.clipped = 0

    def asked(self, payload: bytes) -> None:
        """A piece of the request's body went by."""
        if self._held.takes(len(payload)):
            self.up.append(payload)
        else:
            self.clipped += len(payload)

    def answered(self, payload: bytes) -> None:
        """A piece of the answer's body went by."""
        if self._held.takes(len(payload)):
            self.down.append((monotonic_ns() - self._began_ns, payload))
        else:
            self.clipped += len(payload)


class _Held:
    """How many bytes are held, over all recordings: the loop counts one up, the thread the other."""

    def __init__(self) -> None:
        self._taken = 0
        self._given = 0

    def takes(self, size: int) -> bool:
        if self._taken - self._given + size > MOST_BYTES:
            return False
        self._taken += size
        return True

    def gives(self, size: int) -> None:
        self._given += size


class _Over:
    """An exchange that is over, with what its lines say."""

    __slots__ = ("answer_headers", "coding", "end", "head", "name", "recording", "status")

    def __init__(
        self,
        recording: Recording,
        name: str,
        head: tuple[str, str, list[bytes]],
        status: int | None,
        answer_headers: list[tuple[str, str]],
        coding: bytes,
        end: str,
    ) -> None:
        self.recording = recording
        self.name = name
        self.head = head
        self.status = status
        self.answer_headers = answer_headers
        self.coding = coding
        self.end = end


class Recorder:
    """Writes the proxy's transcripts; one for a process. Its methods are the loop's and never raise."""

    def __init__(self, path: str, run: str) -> None:
        """Raises OSError where the file cannot be opened."""
        self._run = run
        self._fd = open_append(path)
        self._path = path
        self._held = _Held()
        self._queue: SimpleQueue[_Over | None] = SimpleQueue()
        self._said = False
        self._torn = False
        self.lost = 0
        """Records that never came to the disk."""
        self.written = 0
        self._thread = threading.Thread(target=self._work, name="transcripts", daemon=True)
        self._thread.start()

    def begin(self, head: RequestHead) -> Recording | None:
        """Begin to record a request; None where it is of no mission."""
        named = head.named
        mission = named.get(FIELD)
        if mission is not None:
            text = mission.decode("latin-1").strip()
            return Recording(text, self._held) if MISSION.fullmatch(text) else None
        trace = named.get(b"traceparent")
        if trace is None or len(trace) < 3 + _TRACE_CHARS:
            return None
        text = f"t.{trace[3 : 3 + _TRACE_CHARS].decode('latin-1')}"
        return Recording(text, self._held) if MISSION.fullmatch(text) else None

    def end(
        self,
        recording: Recording,
        name: str,
        head: tuple[str, str, list[bytes]],
        *,
        status: int | None,
        answer_headers: list[tuple[str, str]],
        coding: bytes,
        end: str,
    ) -> None:
        """An exchange is over. `head`: method, target and field lines of the request."""
        self._queue.put(_Over(recording, name, head, status, answer_headers, coding, end))

    def close(self, within_s: float = 5.0) -> None:
        """Have what is over written, and tell what was lost."""
        self._queue.put(None)
        self._thread.join(within_s)
        if self._thread.is_alive():
            print("drillmaster proxy: transcripts were not written in time", file=sys.stderr)
            return
        os.close(self._fd)

    # -- the thread's --

    def _work(self) -> None:
        while True:
            over = self._queue.get()
            if over is None:
                try:
                    while (late := self._queue.get_nowait()) is not None:
                        self._write(late)
                except Empty:
                    pass
                return
            self._write(over)

    def _write(self, over: _Over) -> None:
        recording = over.recording
        try:
            lines = self._lines(over)
        except Exception as error:  # noqa: BLE001 - one exchange that cannot be told does not end the telling of others
            self._lose(f"an exchange could not be recorded: {type(error).__name__}")
            lines = b""
        self._held.gives(sum(map(len, recording.up)) + sum(len(data) for _, data in recording.down))
        if not lines:
            return
        try:
            front = b"\n" if self._torn else b""
            if self.lost:
                front += lost_line(self._run, self.lost)
            self._torn = True
            data = front + lines
            if os.write(self._fd, data) != len(data):
                raise OSError(28, "No space left on device")
            self._torn, self.lost = False, 0
            self.written += 1
        except OSError as error:
            self._lose(f"transcripts are lost: {self._path}: {complaint(error)[0]}; {complaint(error)[1]}")

    def _lose(self, text: str) -> None:
        self.lost += 1
        if not self._said:
            self._said = True
            print(f"drillmaster proxy: {text}", file=sys.stderr)

    def _lines(self, over: _Over) -> bytes:
        recording = over.recording
        kept: list[bytes] = []
        clock = iter((recording.wall_ns, recording.wall_ns))
        part = Composer(recording.mission, self._run, over.name, kept.append, lambda: next(clock, None) or time_ns())
        method, target, lines = over.head
        part.put(Record("started", {"entry": "proxy"}))
        headers = [
            (name.decode("latin-1"), value.decode("latin-1").strip())
            for name, _, value in (line.partition(b":") for line in lines)
        ]
        asked: dict[str, object] = {
            "call": "m1",
            "method": method,
            "url": redact_url(target),
            "headers": redact_headers(headers),
        }
        coding = next((value.lower() for name, value in headers if name.lower() == "content-encoding"), "")
        up = _unpacked([(0, data) for data in recording.up], coding.encode())
        if up is None:
            asked["unread_bytes"] = sum(map(len, recording.up))
        part.put(Record("model_request", asked, body=b"".join(data for _, data in up or ())))
        said: dict[str, object] = {"call": "m1"}
        if over.status is not None:
            said["status"] = over.status
        said["headers"] = redact_headers(
            (name, value) for name, value in over.answer_headers if name.lower() != "content-encoding"
        )
        if over.end != "clean":
            said["error"] = over.end
        if recording.clipped:
            said["dropped_bytes"] = recording.clipped
        pieces = _unpacked(recording.down, over.coding)
        if pieces is None:
            said["unread_bytes"] = sum(len(data) for _, data in recording.down)
            said["dropped_bytes"] = said["unread_bytes"]
            pieces = []
        part.put(Record("model_response", said, pieces=pieces))
        part.put(Record("ended", {"ok": over.end == "clean"}))
        return b"".join(kept)


def _unpacked(down: list[tuple[int, bytes]], coding: bytes) -> list[Piece] | None:
    """Give the pieces as their reader has them; None where they are packed as we cannot read."""
    if coding in _UNPACKED:
        return [Piece(at_ns / 1e6, data) for at_ns, data in down]
    if coding not in _PACKED:
        return None
    inflate = zlib.decompressobj(47)
    pieces, left = [], RECORD_CAP_BYTES
    for at_ns, data in down:
        try:
            read = inflate.decompress(data, left)
        except zlib.error:
            return None
        if read:
            pieces.append(Piece(at_ns / 1e6, read))
        left = max(1, left - len(read))
    return pieces
