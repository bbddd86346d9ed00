"""A stream fault's script played by hand against a canned answer: no socket, no clock, no waiting."""

import random
from dataclasses import dataclass, field
from typing import Any

from drillmaster import faults
from drillmaster.dialects import Reply, load
from drillmaster.faults import Close, Cx, Data, End, Frame, Head, Lifted, Lost, Pass, Raw, Read, Send, Wait
from drillmaster.http1 import HeadReader

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "azure_openai": "/openai/deployments/d/chat/completions",
    "openrouter": "/api/v1/chat/completions",
    "groq": "/openai/v1/chat/completions",
    "mistral": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
}
WORDS = ("Hello", " there,", " dear", " user", ".")


@dataclass
class Played:
    """What came out of a script."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    pieces: list[bytes] = field(default_factory=list)
    waits: list[float | None] = field(default_factory=list)
    end: str = "passed"
    """`end`, `fin`, `rst`, `stuck` (it waits for good); `passed`: it returned and sent nothing."""
    met: bool = False
    asked: bool = False


def context(dialect: str, path: str | None = None, body: bytes = b"", *, coding: str = "", **more: Any) -> Cx:
    head = f"POST {path or PATHS.get(dialect, '/')} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    head += f"Content-Encoding: {coding}\r\n\r\n" if coding else "\r\n"
    cells: dict[str, dict[str, Any]] = {}
    return Cx(
        request=HeadReader().request(head.encode()),
        conn=1,
        nth=1,
        dialect=load(dialect),
        make_rng=lambda: random.Random(1),
        now_ns=more.get("now_ns", lambda: 0),
        wall_ns=lambda: 1_700_000_000_000_000_000,
        cell=lambda key: cells.setdefault(key, {}),
    )


def streamed(dialect: str, *, path: str | None = None, words: tuple[str, ...] = WORDS, **more: Any) -> list[Any]:
    """The upstream's events for a whole good stream."""
    answer = load(dialect).stream(Reply(model="m", pieces=words, **more), path=path or PATHS[dialect])
    return [Head(200, answer.headers, "OK"), *map(Frame, answer.frames), End()]


def whole(dialect: str, **more: Any) -> list[Any]:
    """The upstream's events for a whole good answer without a stream, its body in two pieces."""
    answer = load(dialect).answer(Reply(model="m", pieces=WORDS, **more), path=PATHS[dialect])
    return [Head(200, answer.headers, "OK"), Data(answer.body[:9]), Data(answer.body[9:]), End()]


def body_of(events: list[Any]) -> bytes:
    return b"".join(event.body for event in events if isinstance(event, Frame | Data))


def play(
    tag: str,
    upstream: list[Any],
    *,
    dialect: str = "openai_chat",
    path: str | None = None,
    asked: bytes = b"",
    coding: str = "",
    lift_at: int | None = None,
    max_actions: int = 3_000,
    **params: Any,
) -> Played:
    """Play a fault. `lift_at` throws Lifted in place of what that action (from 0) would have been told.

    `coding` is said to be that of `asked`.
    """
    cx = context(dialect, path, asked, coding=coding)
    script = faults.make(tag, params).script(cx)
    played, events, client = Played(), list(upstream), [Data(asked), End()] if asked else [End()]
    value: object = None
    for number in range(max_actions):
        try:
            action = script.throw(value) if isinstance(value, Lifted) else script.send(value)
        except StopIteration:
            if played.status is not None and played.end == "passed":
                played.end = "end"
            return played
        value = None
        match action:
            case Read(side="upstream", by=by):
                played.asked = True
                ahead = number == lift_at  # the lift comes while it waits; the event stays where it is
                if not ahead:
                    value = events[0] if isinstance(events[0], End | Lost) else events.pop(0)
                    if by == "data" and isinstance(value, Frame):
                        value = Data(value.body)
            case Read():
                value = client[0] if len(client) == 1 else client.pop(0)
            case Send(part=part, relayed=relayed):
                played.met = played.met or not relayed
                match part:
                    case Head(status=status, headers=headers):
                        played.status, played.headers = status, {name.lower(): text for name, text in headers}
                    case Raw(wire=wire, status=status):
                        played.status = played.status or status
                        played.body += wire
                    case Data(body=body) | Frame(body=body):
                        played.body += body
                        played.pieces.append(body)
                    case End():
                        played.end = "end"
                        return played
            case Wait(seconds=seconds):
                played.met = True
                played.waits.append(seconds)
                if seconds is None and number != lift_at:
                    played.end = "stuck"
                    return played
            case Close(how=how):
                played.met, played.end = True, how
                return played
            case Pass():
                return played
        if number == lift_at:
            value = Lifted()
    played.end = "stuck"
    return played
