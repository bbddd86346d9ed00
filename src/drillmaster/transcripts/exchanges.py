"""What a transcript says of a mission, as a replay needs it: messages and answers, and the exchanges with models and tools."""

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.rules.divergence import Said, ToolSaid, as_value
from drillmaster.transcripts.reading import Entry, PartRead, Transcript

__all__ = ["Exchange", "Message", "exchanges", "messages"]

_NO_FIELDS = frozenset(
    {
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "content-encoding",
        "date",
        "upgrade",
        "trailer",
    }
)
_GZIP = b"\x1f\x8b"
_LONGEST_MS = 600_000.0


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the user, and what it came to."""

    part: int
    entry: Literal["http", "websocket"]
    method: str
    url: str
    """As the agent saw it: a path, or a whole URL; "": not recorded."""
    headers: tuple[tuple[str, str], ...]
    body: bytes
    said: Said


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model or a tool: what was asked, and the bytes that came, with their pace."""

    number: int
    """From 1, in the order in which they were asked."""
    kind: Literal["model", "tool"]
    tool: str
    method: str
    path: str
    """"": not recorded, so that any fits."""
    query: str
    asked: Any
    """The request's body as a JSON value or as text; for a tool without a URL its arguments."""
    status: int | None
    """None: no answer came."""
    headers: tuple[tuple[str, str], ...]
    pieces: tuple[tuple[float, bytes], ...]
    wait_ms: float
    """From the request to the head of the answer, or to its failure."""
    whole: bool
    """Whether all of the answer was recorded."""
    error: str
    begins: tuple[int, int]
    ends: tuple[int, int]
    """Part and `seq`: who is under way at the same time may be asked in another order."""


def messages(transcript: Transcript, *, tools_seen: bool = True) -> list[Message]:
    """List the user's messages with what each came to, in the order of the transcript."""
    found: list[Message] = []
    for number, part in enumerate(transcript.parts):
        found += _messages(part, number, tools_seen)
    return found


def _messages(part: PartRead, number: int, tools_seen: bool) -> Iterator[Message]:
    entry: Literal["http", "websocket"] = "http"
    begun: Entry | None = None
    since: list[Entry] = []
    for one in part.entries:
        if one.kind == "started":
            entry = "websocket" if one.fields.get("entry") == "websocket" else "http"
        elif one.kind == "user":
            if begun is not None:
                yield _message(begun, since, entry, number, tools_seen)
            begun, since = one, []
        else:
            since.append(one)
    if begun is not None:
        yield _message(begun, since, entry, number, tools_seen)


def _message(
    user: Entry, since: list[Entry], entry: Literal["http", "websocket"], part: int, tools_seen: bool
) -> Message:
    answers = [one for one in since if one.kind == "answer"]
    pieces = [data for one in answers for data in ([data for _, data in one.pieces] or [one.body or b""])]
    statuses = [one.fields["status"] for one in answers if isinstance(one.fields.get("status"), int)]
    return Message(
        part=part,
        entry=entry,
        method=_text(user.fields.get("method")) or "POST",
        url=_text(user.fields.get("url")),
        headers=_headers(user),
        body=user.body or b"",
        said=Said(
            tools=tuple(_tools(since)) if tools_seen else None,
            status=statuses[-1] if statuses else None,
            answer=b"".join(pieces) if answers else None,
            pieces=tuple(pieces),
        ),
    )


def _tools(since: list[Entry]) -> Iterator[ToolSaid]:
    ended = {one.fields.get("call"): one.fields.get("ok") is not False for one in since if one.kind == "tool_result"}
    for one in since:
        if one.kind == "tool_call":
            arguments = one.fields.get("arguments")
            if arguments is None and one.body is not None:
                arguments = as_value(one.body)
            yield ToolSaid(
                tool=_text(one.fields.get("tool")), arguments=arguments, ok=ended.get(one.fields.get("call"), False)
            )


def exchanges(transcript: Transcript) -> list[Exchange]:
    """List the calls of models and tools that can be served again, in the order in which they were asked."""
    found: list[Exchange] = []
    parts = [part for part in transcript.parts if not part.by_proxy]
    if not any(one.kind == "model_request" for part in parts for one in part.entries):
        parts = list(transcript.parts)  # the worker told nothing of its models, and the proxy did
    for number, part in enumerate(transcript.parts):
        if part not in parts:
            continue
        answers = {
            (one.kind.partition("_")[0], one.fields.get("call")): one
            for one in part.entries
            if one.kind in ("model_response", "tool_result")
        }
        for one in part.entries:
            if one.kind in ("model_request", "tool_call"):
                kind: Literal["model", "tool"] = "model" if one.kind == "model_request" else "tool"
                found.append(_exchange(one, answers.get((kind, one.fields.get("call"))), kind, number, len(found) + 1))
    return found


def _exchange(asked: Entry, came: Entry | None, kind: Literal["model", "tool"], part: int, number: int) -> Exchange:
    url = urlsplit(_text(asked.fields.get("url")))
    tool = _text(asked.fields.get("tool"))
    value = as_value(asked.body) if asked.body is not None else asked.fields.get("arguments")
    status = None if came is None else came.fields.get("status")
    pieces = () if came is None else came.pieces or ((0.0, came.body),) if came.body is not None else ()
    error = "no answer was recorded" if came is None else _text(came.fields.get("error"))
    ok = came is not None and came.fields.get("ok") is not False and not error
    if came is not None and kind == "tool" and not pieces and "result" in came.fields:
        pieces = ((0.0, msgspec.json.encode(came.fields["result"])),)
    if not isinstance(status, int):
        status = (200 if ok else None) if kind == "tool" or pieces else None
    last_ms = pieces[-1][0] if pieces else 0.0
    return Exchange(
        number=number,
        kind=kind,
        tool=tool,
        method=_text(asked.fields.get("method")) or "POST",
        path=url.path or (f"/tool/{tool}" if kind == "tool" else ""),
        query=url.query,
        asked=value,
        status=status,
        headers=_served(came, pieces),
        pieces=pieces,
        wait_ms=max(0.0, _apart_ms(asked, came) - last_ms),
        whole=came is not None and not {"clipped_bytes", "dropped_bytes"} & came.fields.keys() and not error,
        error=error,
        begins=(part, asked.seq),
        ends=(part, came.seq if came is not None else 1 << 60),
    )


def _apart_ms(asked: Entry, came: Entry | None) -> float:
    begin, end = parse_rfc3339(asked.t), parse_rfc3339(came.t) if came is not None else None
    if begin is None or end is None:
        return 0.0
    return min(_LONGEST_MS, max(0.0, (end - begin) / 1e6))


def _served(came: Entry | None, pieces: tuple[tuple[float, bytes], ...]) -> tuple[tuple[str, str], ...]:
    """The fields of an answer that say nothing of how it was framed; bodies lie here as they were read, not as packed."""
    if came is None:
        return ()
    packed = bool(pieces) and pieces[0][1].startswith(_GZIP)
    kept = [
        (name, value)
        for name, value in _headers(came)
        if name.lower() not in _NO_FIELDS or (packed and name.lower() == "content-encoding")
    ]
    if not any(name.lower() == "content-type" for name, _ in kept):
        start = pieces[0][1].lstrip()[:6] if pieces else b""
        kind = "text/event-stream" if start.startswith((b"data:", b"event:")) else "application/json"
        kept.append(
            ("content-type", kind if start.startswith((b"data:", b"event:", b"{", b"[", b'"')) else "text/plain")
        )
    return tuple(kept)


def _headers(entry: Entry) -> tuple[tuple[str, str], ...]:
    said = entry.fields.get("headers")
    if isinstance(said, dict):
        return tuple((str(name), str(value)) for name, value in said.items())
    if not isinstance(said, list):
        return ()
    return tuple((str(one[0]), str(one[1])) for one in said if isinstance(one, list) and len(one) == 2)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
