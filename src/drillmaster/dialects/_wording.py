"""How providers write JSON, events and times. No entry: what entries share."""

import json
import math
import re
from typing import Any

import msgspec

from drillmaster.dialects._peeking import EDGE_BYTES

__all__ = [
    "arguments_value",
    "at_line_start",
    "data_of",
    "dump",
    "go_duration",
    "has_event",
    "is_whole_json",
    "sse",
    "whole_lines",
    "whole_seconds",
]


def dump(value: object) -> bytes:
    """Compact JSON, as the providers write it: no escapes but the needed ones."""
    # A lone surrogate, which JSON can spell and UTF-8 cannot, becomes a question mark.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def arguments_value(arguments: str) -> object:
    """A tool call's arguments for an API that carries them as a value; what is no JSON stays the text that it is."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def sse(data: bytes, event: str | None = None) -> bytes:
    """One server-sent event."""
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + data + b"\n\n"


def at_line_start(tail: bytes, wanted: bytes) -> bool:
    """Whether a line of a stream's tail begins with these bytes. Searched from the end."""
    at = tail.rfind(wanted)
    while at > 0 and tail[at - 1] not in b"\r\n":
        at = tail.rfind(wanted, 0, at)
    return at >= 0


def has_event(tail: bytes, kind: bytes) -> bool:
    """Whether an event of this name is in a stream's tail, with its data: without any, readers drop it."""
    for named in (b"event: " + kind, b"event:" + kind):
        at = tail.rfind(named)
        while at > 0 and tail[at - 1] not in b"\r\n":
            at = tail.rfind(named, 0, at)
        if at >= 0 and tail.find(b"data:", at + len(named)) >= 0:
            return True
    return False


_is_json = msgspec.json.Decoder(msgspec.Raw).decode


def _decodes(text: bytes) -> bool:
    try:
        _is_json(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def whole_lines(tail: bytes) -> bytes:
    """The tail of a stream as lines that are some: what it begins within is no beginning, what it was cut in is no line.

    No reader is given the half of an event. A last line without its line break is whole if it is `[DONE]` or JSON, as sloppy
    gateways end a stream.
    """
    if len(tail) == EDGE_BYTES:
        tail = b"\0" + tail  # a model's words may lie at this edge, and they are not to be taken for a line
    if tail[-1:] in (b"\n", b"\r", b""):
        return tail
    at = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
    last = tail[at:].removeprefix(b"data:").strip()
    return tail if last == b"[DONE]" or _decodes(last) else tail[:at]


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def is_whole_json(tail: bytes, at: int, depth: int, *, in_sight: bool) -> bool:
    """Whether a JSON text came to its end. `at` is where a string begins, `depth` how many brackets are open there.

    Where the text's beginning is `in_sight`, it is read; else every bracket that is open at `at` has to be closed behind it.
    """
    if in_sight or tail[:1] == b"{":
        whole = _decodes(tail)
        if whole or in_sight:
            return whole
    bare = _STRING.sub(b"", tail[at:])
    if b'"' in bare:
        return False  # it ends inside a string
    opened = bare.count(b"{") + bare.count(b"[")
    return bare.count(b"}") + bare.count(b"]") - opened >= depth


_DATA = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)


def data_of(frame: bytes) -> Any:
    """The JSON of a server-sent event's data; None where there is none, or it is none."""
    lines = _DATA.findall(frame)
    if not lines:
        return None
    try:
        return msgspec.json.decode(b"\n".join(lines))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def go_duration(seconds: float) -> str:
    """A duration as Go prints it, to the millisecond: `12ms`, `1.5s`, `6m0s`, `10h17m5.7s`."""
    whole_ms = max(0, math.ceil(seconds * 1e3 - 1e-6))
    if whole_ms == 0:
        return "0s"
    if whole_ms < 1_000:
        return f"{whole_ms}ms"
    hours, rest_ms = divmod(whole_ms, 3_600_000)
    minutes, rest_ms = divmod(rest_ms, 60_000)
    text = f"{rest_ms / 1e3:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def whole_seconds(seconds: float) -> str:
    """Seconds as a Retry-After has them: whole, rounded up, so that nobody comes too early."""
    return str(max(0, math.ceil(seconds - 1e-9)))
