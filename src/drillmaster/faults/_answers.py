"""Answers that say something else. No entry: what the faults of content and of tools share.

1. `rewrite` relays the real answer and changes each event of it, or the whole JSON body. An answer of another status, kind or
   coding passes untouched; one over `MAX_BODY_BYTES` goes on as it is.
2. A request is read as it was before it was compressed (gzip, deflate), as far as a bound; what cannot be unfolded says nothing.
3. `speak` answers in the API's place, whole or as a stream, as the request asks for it. The model is never asked, and the
   evidence says so (`real` is false).
"""

import re
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import msgspec

from drillmaster.dialects import EDGE_BYTES, Finish, Peek, Reply, ToolCall, peek_json
from drillmaster.faults import (
    SEEN_BYTES,
    Action,
    Close,
    Cx,
    Data,
    End,
    Frame,
    Head,
    Lifted,
    Lost,
    Read,
    Script,
    Send,
    Unfolding,
    coding_of,
    read_request_whole,
    send_answer,
)
from drillmaster.faults._streams import Events

__all__ = ["MAX_BODY_BYTES", "Asked", "change_whole", "of_a_model", "read_asked", "rewrite", "speak"]

MAX_BODY_BYTES = 16 * 1024 * 1024
LOOK_BYTES = 196_608
"""How far a script reads that may yet let the request pass: the driver keeps 256 kB for the upstream."""

_USAGE_WANTED = re.compile(rb'"include_usage"\s*:\s*true')
_TOOLS = re.compile(rb'[{,]\s*"(?:tools|functions)"\s*:\s*\[')
_NAME = re.compile(rb'"name"\s*:\s*"([^"\\]{1,128})"')


class Asked(msgspec.Struct, frozen=True):
    """A request that was read, to its end unless it may pass."""

    path: str
    """With its query."""
    start: bytes
    """The body's first `SEEN_BYTES`, unfolded."""
    tail: bytes
    """The last `SEEN_BYTES` that were read; empty where `start` is all."""
    peek: Peek
    whole: bool = True
    """Whether it was read to its end."""

    @property
    def tool(self) -> str | None:
        """The first tool that is offered to the model; None: there is none in sight."""
        for text in (self.start, self.tail):
            if offered := _TOOLS.search(text):
                named = _NAME.search(text, offered.end())
                return named[1].decode("utf-8", "replace") if named else None
        return None


def of_a_model(cx: Cx) -> bool:
    """Whether a request is known to be a model's: a call of a tool is none, and plain HTTP does not say."""
    return cx.dialect.name not in ("mcp", "plain")


def read_asked(cx: Cx, *, may_pass: bool = False) -> Generator[Action, Any, Asked | None]:
    """Read the request to its end, any size; None when it broke off. One that may pass is read for `LOOK_BYTES` at most."""
    start, tail = bytearray(), bytearray()
    unfolding = Unfolding(coding_of(cx.request))
    read_bytes, whole = 0, False
    while not (may_pass and read_bytes >= LOOK_BYTES):
        event = yield Read("client")
        if isinstance(event, Lost):
            return None
        if isinstance(event, End):
            whole = True
            break
        if isinstance(event, Data):
            read_bytes += len(event.body)
            for piece in unfolding.feed(event.body):
                room = max(0, SEEN_BYTES - len(start))
                start += piece[:room]
                tail = (tail + piece[room:])[-SEEN_BYTES:]
    if whole and not unfolding.whole:
        start, tail = bytearray(), bytearray()
    path = "" if cx.request is None else cx.request.origin_form.decode("latin-1")
    seen = peek_json(bytes(start[:EDGE_BYTES]), bytes(tail[-EDGE_BYTES:])) if tail else peek_json(bytes(start))
    peek = seen if cx.request is None else cx.dialect.peek(cx.request, seen)
    return Asked(path, bytes(start), bytes(tail), peek, whole)


def speak(
    cx: Cx,
    asked: Asked,
    *,
    text: str = "",
    tools: tuple[ToolCall, ...] = (),
    finish: Finish = "stop",
    model: str | None = None,
) -> Script:
    """Answer as the API would, the request being read to its end; a `model` of None is the one that was asked for."""
    if not asked.whole and not (yield from read_request_whole()):
        return
    pieces = tuple(re.findall(r"\s*\S+", text))
    reply = Reply(
        model=model or asked.peek.model or "unknown",
        pieces=pieces,
        tools=tools,
        finish=finish,
        input_tokens=max(1, (len(asked.start) + len(asked.tail)) // 4),
        output_tokens=max(1, len(pieces)),
        answer_id=f"{cx.rng.getrandbits(96):024x}",
        now_s=cx.wall_ns() // 1_000_000_000,
        usage_in_stream=bool(_USAGE_WANTED.search(asked.start) or _USAGE_WANTED.search(asked.tail)),
    )
    if not asked.peek.stream:
        yield from send_answer(cx.dialect.answer(reply, path=asked.path, asked=asked.start))
        return
    streamed = cx.dialect.stream(reply, path=asked.path, asked=asked.start)
    yield Send(Head(200, streamed.headers))
    for frame in streamed.frames:
        yield Send(Frame(frame))
    yield Send(End())


def rewrite(cx: Cx, change: Callable[[bytes], bytes]) -> Script:
    """Relay the real answer, each of its events, or its whole JSON body, as `change` has it."""
    events = Events(cx)
    with suppress(Lifted):  # the rest goes through as it is
        yield from events.begin()
        if events.begun:
            while (event := (yield from events.next())) is not None:
                changed = change(event)
                yield Send(Frame(changed), relayed=changed == event)
    if events.begun:
        yield from events.rest()
    elif events.head is not None:
        yield from change_whole(events.head, change)


def change_whole(head: Head, change: Callable[[bytes], bytes]) -> Script:
    """Read the body behind a head that was read, and send it as `change` has it, if it is JSON."""
    named = {name.lower(): value.lower() for name, value in head.headers}
    if "json" not in named.get("content-type", "") or named.get("content-encoding", "identity") != "identity":
        return
    body, lost, whole, lifted = b"", None, False, False
    while not whole and lost is None and len(body) <= MAX_BODY_BYTES:
        try:
            event = yield Read("upstream")
        except Lifted:
            lifted = True
            continue
        if isinstance(event, Data):
            body += event.body
        whole = isinstance(event, End)
        lost = event.why if isinstance(event, Lost) else None
    changed = change(body) if whole and not lifted else body
    fields = head.headers
    if body:  # the head of an answer without one, to a HEAD say, tells another's length
        fields = tuple(field for field in head.headers if field[0].lower() != "content-length")
        fields += (("content-length", str(len(changed))),) if whole else ()
    with suppress(Lifted):  # what was being sent has been sent
        yield Send(Head(head.status, fields, head.reason), relayed=changed == body)
        yield Send(Data(changed), relayed=changed == body)
    while not whole and lost is None:
        with suppress(Lifted):
            event = yield Read("upstream")
            whole = isinstance(event, End)
            lost = event.why if isinstance(event, Lost) else None
            if isinstance(event, Data):
                yield Send(event, relayed=True)
    if lost is not None:
        yield Close("rst" if lost == "reset" else "fin")
    yield Send(End(), relayed=True)
