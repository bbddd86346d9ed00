"""Cut the body of a stream into events: server-sent ones, or JSON lines."""

import re

from drillmaster.http1.shapes import Malformed

__all__ = ["MAX_FRAME_BYTES", "Frames", "Lines"]

MAX_FRAME_BYTES = 1_048_576

_CR = 13  # as a number, since `in` takes bytes for a number first
# Two line ends in a row. Atomic: CRLF is one line end, never a CR and a LF. A CR at the very end waits for more.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?!\n|\Z))")


class Frames:
    """Cut a stream of server-sent events into frames, each with its blank line (WHATWG HTML, 9.2.5)."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole now. Raises Malformed when one grows over `MAX_FRAME_BYTES`."""
        if self._held:
            data = self._held + data
        elif 0 < data.find(b"\n\n") == len(data) - 2 and _CR not in data:  # one whole event, as most that carry a word
            return [data]
        frames: list[bytes] = []
        at = 0
        if _CR in data:
            while match := _BLANK_LINE.search(data, at):
                frames.append(data[at : match.end()])
                at = match.end()
        else:
            while (end := data.find(b"\n\n", at)) >= 0:
                frames.append(data[at : end + 2])
                at = end + 2
        self._held = data[at:]
        if len(self._held) > MAX_FRAME_BYTES:
            raise Malformed("event too large")
        return frames

    def rest(self) -> bytes:
        """What has begun and has no blank line yet."""
        return self._held


class Lines(Frames):
    """The same for a stream of JSON lines: a frame is a line with its line feed."""

    __slots__ = ()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now. Raises Malformed when one grows over `MAX_FRAME_BYTES`."""
        *lines, self._held = (self._held + data).split(b"\n")
        if len(self._held) > MAX_FRAME_BYTES:
            raise Malformed("event too large")
        return [line + b"\n" for line in lines]
