"""Dialects: how each API words its requests, its answers, its errors and the end of its answers. One file an entry.

1. The name is the file's: `openai_chat`. Listing reads names; only the entry that is asked for is imported. A file that
   begins with an underscore is no entry: it holds a shape that several providers share.
2. An error is the provider's own: status, headers and body as documented or seen, and `source` says which. Source classes:
   D official documentation, S an SDK's source, T a body pasted in a public tracker, 2 a secondary page, M measured with
   the SDK; `ours` where nothing is documented and the shape alone is the provider's.
3. "Was this answer really finished?" is a question to the API's *terminal state*, never to the transport alone: a stream
   that ends cleanly without it was cut. Four endings: `Ending`. Text of a model's cannot feign one: inside a JSON string
   a quote is escaped, and a line break too. What says the end has to be whole itself, line or JSON: an answer is finished
   from one byte on and not before, wherever it was cut.
4. Nothing here decodes a whole large body: model and stream come from its first and last bytes, an ending from its last.
5. What an answer says is a `Reply`; how it is worded, whole or as a stream, is the dialect's. Times, ids and counts are
   arguments: the same reply gives the same bytes.
"""

import enum
import functools
import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from drillmaster.dialects._peeking import EDGE_BYTES, Peek, offers_tools, output_tokens, peek_json, spent_tokens
from drillmaster.dialects._wording import (
    arguments_value,
    at_line_start,
    data_of,
    dump,
    go_duration,
    has_event,
    is_whole_json,
    sse,
    whole_lines,
    whole_seconds,
)
from drillmaster.errors import Problem
from drillmaster.http1 import Answer, RequestHead

__all__ = [
    "CONDITIONS",
    "EDGE_BYTES",
    "Bucket",
    "Condition",
    "Dialect",
    "Ending",
    "Finish",
    "Peek",
    "Reply",
    "Says",
    "Shape",
    "Streamed",
    "ToolCall",
    "arguments_value",
    "assert_finished",
    "at_line_start",
    "catalogue",
    "data_of",
    "dump",
    "go_duration",
    "has_event",
    "is_whole_json",
    "load",
    "names",
    "offers_tools",
    "output_tokens",
    "peek_json",
    "recognise",
    "spent_tokens",
    "sse",
    "whole_lines",
    "whole_seconds",
]

Finish = Literal["stop", "length", "content_filter", "tool", "refusal"]
"""Why a model stopped, in one vocabulary: each dialect has its own word, see `finish_word`."""

CONDITIONS: dict[str, int] = {
    "bad-request": 400,
    "context": 400,
    "content-filter": 400,
    "auth": 401,
    "auth-expired": 401,
    "money": 402,
    "permission": 403,
    "moderation": 403,
    "not-found": 404,
    "timeout": 408,
    "conflict": 409,
    "too-large": 413,
    "unprocessable": 422,
    "rate": 429,
    "rate-tokens": 429,
    "daily": 429,
    "server": 500,
    "bad-gateway": 502,
    "overloaded": 503,
    "gateway-timeout": 504,
}
"""The names that every dialect answers to, with the status that holds where an API documents no other for it."""


class Ending(enum.Enum):
    """How an answer ended."""

    COMPLETE = "complete"
    """Its terminal state was reached, and the model had said what it had to say."""
    INCOMPLETE = "incomplete"
    """Its terminal state was reached, and the answer is short of what was asked: a token limit, a filter."""
    ERROR = "error"
    """The API said that it failed, in the status or in the middle of a 200."""
    CUT = "cut"
    """Its terminal state was not reached: whatever came is the beginning of an answer."""


_COMPLETE, _INCOMPLETE = Ending.COMPLETE, Ending.INCOMPLETE  # an enum looks its members up by a function of its own


class Says(enum.Flag):
    """What one frame of a stream says. A frame may say several things: Gemini's last one has text, reason and usage."""

    NOTHING = 0
    OPEN = enum.auto()
    """Begins the answer, without any of its words."""
    CONTENT = enum.auto()
    """Words of the model."""
    TOOL = enum.auto()
    """A tool call, or a piece of one."""
    FINISH = enum.auto()
    """Why the model stopped."""
    USAGE = enum.auto()
    TERMINAL = enum.auto()
    """Behind it nothing more comes."""
    ERROR = enum.auto()
    PING = enum.auto()
    """A comment or a ping: keeps the connection alive and says nothing."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One error of an API: a row of its table, with the words that go on the wire."""

    name: str
    """One of `CONDITIONS`, or the API's own refinement of one, as in `money-project`."""
    status: int
    kind: str = ""
    """The API's own class of it: `error.type`, Gemini's `error.status`."""
    code: str | None = None
    param: str | None = None
    message: str
    """`{delay}` stands for the seconds to wait, as the API writes them."""
    shape: str = ""
    """Which shape its body has, where an API has another than its usual one."""
    source: str
    transient: bool = True
    """Whether the same request can succeed later without anybody doing anything."""
    tells_delay: bool = False
    """Whether the API says with this error when to try again."""


class Shape(msgspec.Struct, frozen=True):
    """One way in which an API says in the middle of a stream that it failed."""

    name: str
    source: str


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one limit, for the headers that report it."""

    limit: int
    remaining: int
    reset_s: float
    """Until it is full again."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a model wants made. `arguments` is JSON as text, since it may be broken on purpose."""

    id: str
    name: str
    arguments: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answers, before an API words it."""

    model: str
    pieces: tuple[str, ...] = ()
    """Its words, cut as a stream would cut them; together they are the text."""
    tools: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    input_tokens: int = 1
    output_tokens: int = 1
    answer_id: str = "0"
    """Unique part of the answer's id, without a prefix."""
    now_s: int = 0
    """Seconds since 1970, for the stamps in bodies."""
    usage_in_stream: bool = True
    """Whether a stream tells its usage, where the API leaves that to the request."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Streamed(msgspec.Struct, frozen=True):
    """A whole streamed answer: its head's fields, and its frames, each with what ends it."""

    headers: tuple[tuple[str, str], ...]
    frames: tuple[bytes, ...]


class Dialect:
    """One API."""

    name: ClassVar[str]
    hosts: ClassVar[tuple[bytes, ...]] = ()
    """Host names that are this API's alone, and the ends of such (`.openai.azure.com`)."""
    shared: ClassVar[bool] = False
    """Its paths are other providers' too: then `recognises` wants more than a path, or is asked last."""
    table: ClassVar[tuple[Condition, ...]] = ()
    """Its errors. The first of a status is what the status means by itself, the first of a name what the name means."""
    shapes: ClassVar[tuple[Shape, ...]] = ()
    """How it says in the middle of a stream that it failed; the usual one first."""
    ping: ClassVar[bytes] = b": keep-alive\n\n"
    """What keeps a stream alive and says nothing: the API's own, or a comment."""
    carries: ClassVar[bytes | None] = (
        rb'"(?:content|text|arguments|partial_json|reasoning_content|reasoning|thinking|response)":\s*"(?!")'
    )
    """What a frame holds that carries words, or pieces of a tool call: an expression that ends in `"(?!")`, the quote before the
    words. A model's own quotes are escaped, so that it cannot write one. None: each frame counts."""
    splits: ClassVar[Literal["frame", "line"]] = "frame"
    """What ends a unit of its streams: a blank line (server-sent events) or a line feed (JSON lines)."""

    def speaks(self, request: RequestHead) -> bool:
        """Whether the request could be this API's, by method, path and fields; other APIs may share them."""
        raise NotImplementedError

    def recognises(self, request: RequestHead) -> bool:
        """Whether this request is this API's, from its head alone."""
        return self.speaks(request)

    def lives_at(self, host: bytes) -> bool:
        """Whether a host (its port is ignored) is one of `hosts`."""
        if not self.hosts:
            return False
        bare = (host.rpartition(b":")[0] if b":" in host and not host.endswith(b"]") else host).lower()
        return any(bare == known or (known.startswith(b".") and bare.endswith(known)) for known in self.hosts)

    def peek(self, request: RequestHead, seen: Peek) -> Peek:
        """Correct what the body said of model and stream (`seen`) by what this API says elsewhere: in the path."""
        return seen

    # Errors

    def condition(self, status: int | None, name: str | None = None) -> Condition:
        """The row for a status, a name, or both. Where nothing fits: the name's usual status, worded by analogy.

        Raises ValueError when neither is given.
        """
        if status is None and name is None:
            raise ValueError("an error has a status or a condition")
        for row in self.table:
            if (status is None or row.status == status) and (name is None or row.name == name):
                return row
        if status is None:
            status = CONDITIONS.get(str(name), 500)
        for row in self.table:
            if row.status == status:
                return row
        return self.unlisted(status)

    def unlisted(self, status: int) -> Condition:
        """The row of a status that this API documents no error for."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return Condition(name="unlisted", status=status, kind=kind, message=f"Error {status}.", source="shape S, ours")

    def documents(self, name: str) -> bool:
        """Whether the table has a row of this name."""
        return any(row.name == name for row in self.table)

    def error(
        self,
        status: int | None,
        condition: str | None = None,
        *,
        request_id: str,
        retry_after_s: float | None = None,
        path: str = "",
        asked: bytes = b"",
    ) -> Answer:
        """The API's own error for a status, a condition, or both (see `condition`).

        `retry_after_s` is said where and as the API says it, in header or body, and nowhere when this condition never tells
        it (`Condition.tells_delay`); None says nothing. `path` and `asked` are the request's path with its query and its body, as
        far as they are known: an API of several shapes words by the one, JSON-RPC takes the id of the call from the other.
        """
        row = self.condition(status, condition)
        if not row.tells_delay:
            retry_after_s = None
        return self.word(row, request_id=request_id, retry_after_s=retry_after_s, path=path, asked=asked)

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        """Put one row of the table on the wire, `retry_after_s` included where it is not None."""
        raise NotImplementedError

    def rate_headers(
        self, *, requests: Bucket | None = None, tokens: Bucket | None = None, now_s: float = 0.0
    ) -> tuple[tuple[str, str], ...]:
        """The fields in which this API reports its limits on every answer; none where it has none."""
        return ()

    # Endings

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        """How an answer ended.

        `tail` is the last `EDGE_BYTES` of the decoded body, or all of it: of any other length it is taken for all. `whole` is
        whether its framing was complete, `content_type` in lower case.
        """
        raise NotImplementedError

    def finished(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> bool:
        """Whether the answer reached the API's terminal state: complete, or incomplete and said to be."""
        ending = self.ending(status, content_type, tail, whole)
        return ending is _COMPLETE or ending is _INCOMPLETE

    # Streams

    def says(self, frame: bytes) -> Says:
        """What one frame (one line, see `splits`) of a stream says."""
        raise NotImplementedError

    def without_finish(self, frame: bytes) -> bytes | None:
        """The frame without reason, end and usage; None when nothing is left of it."""
        said = self.says(frame)
        return None if said & (Says.FINISH | Says.TERMINAL) else frame

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        """The frames with which this API says in the middle of a stream that it failed, in one of its `shapes`.

        None is the first. Raises Problem for one that is not among them, or where the API has none.
        """
        raise NotImplementedError

    def shape(self, name: str | None) -> str:
        """Check the name of a shape, None being the first. Raises Problem."""
        known = [shape.name for shape in self.shapes]
        if name is None and known:
            return known[0]
        if name is None or name not in known:
            wanted = "one of " + ", ".join(known) if known else "a dialect that has errors inside a stream"
            raise Problem(f"shape of {self.name}", found=repr(name), wanted=wanted, remedy="leave `shape` out")
        return name

    def usual_shape(self, path: str) -> str | None:
        """The shape of an error in a stream that this API has first at a path; None where it has none at all."""
        return self.shapes[0].name if self.shapes else None

    # Answers

    def finish_word(self, finish: Finish) -> str:
        """This API's word for why a model stopped."""
        raise NotImplementedError

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        """A whole good answer in this API's shape, usage included."""
        raise NotImplementedError

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        """The same answer as this API streams it, a frame a piece."""
        raise NotImplementedError


@functools.cache
def names() -> tuple[str, ...]:
    """The catalogue, without importing an entry."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")))


def load(name: str) -> Dialect:
    """The entry of this name. Raises Problem for one that is not in the catalogue."""
    if name not in names():
        raise Problem(
            "dialect", found=repr(name[:40]), wanted="auto or one of " + ", ".join(names()), remedy="write one of these"
        )
    dialect: Dialect = importlib.import_module(f"{__name__}.{name}").DIALECT
    return dialect


def catalogue() -> tuple[Dialect, ...]:
    """All entries in the order in which a request is shown to them: the particular, those of shared paths, `plain`."""
    every = [load(name) for name in names() if name != "plain"]
    return (*(d for d in every if not d.shared), *(d for d in every if d.shared), load("plain"))


def recognise(request: RequestHead, among: tuple[Dialect, ...], upstream_host: bytes | None = None) -> Dialect:
    """The dialect of a request: by the host it is for, where that host is a provider's own, else by its head.

    `upstream_host` is the host that the request will be sent to, since clients of a proxy name the proxy. `among` is in the
    order of `catalogue`; its last, which should be `plain`, is the answer where no other is.
    """
    for host in (upstream_host, request.host):
        if host:
            for dialect in among:
                if dialect.lives_at(host) and dialect.speaks(request):
                    return dialect
    for dialect in among:
        if dialect.recognises(request):
            return dialect
    return among[-1]


# For tests of agents


def assert_finished(
    body: bytes | str | Iterable[object],
    dialect: str,
    *,
    status: int = 200,
    content_type: str | None = None,
    whole: bool = True,
    complete: bool = True,
) -> None:
    """Fail unless the answer was really finished. AssertionError says how it ended instead.

    `body` is the body as bytes, text or pieces of it, an SDK's answer, or the events that an SDK's stream gave (pydantic
    models or dicts). A stream that is async is collected first: `[event async for event in stream]`.
    `content_type` None is told from the body's first bytes. `whole` is whether the framing was complete, which an HTTP
    client that raised nothing vouches for. `complete` False lets an answer pass that reached its end and is short of what
    was asked: a token limit, a filter.
    """
    api = load(dialect)
    if isinstance(body, str):
        data = body.encode()
    elif isinstance(body, bytes | bytearray | memoryview):
        data = bytes(body)
    elif isinstance(body, Mapping) or hasattr(body, "model_dump"):  # an answer that is no stream; both can be iterated
        data = dump(_plain(body))
        content_type = content_type or "application/json"
    elif isinstance(body, Iterable):
        data = _joined(api, body)
    else:
        raise TypeError(
            f"assert_finished: found {type(body).__name__}, wanted a body, an SDK's answer, or the events of its stream; "
            "collect an async stream first: [event async for event in stream]"
        )
    if content_type is None:
        content_type = _guess(data)
    # All of it is at hand, so that nothing has to be told from its end alone.
    seen = b"\n" + data if len(data) == EDGE_BYTES else data
    ended = api.ending(status, content_type.lower().encode("latin-1"), seen, whole)
    if ended is Ending.COMPLETE or (ended is Ending.INCOMPLETE and not complete):
        return
    raise AssertionError(f"{dialect}: the answer is not finished, it is {ended.value}; it ends with {data[-120:]!r}")


def _guess(data: bytes) -> str:
    start = data.lstrip()
    if start[:1] not in (b"{", b"["):
        return "text/event-stream"
    first = start.partition(b"\n")
    return (
        "application/x-ndjson"
        if first[2].lstrip()[:1] == b"{" and first[0].rstrip()[-1:] == b"}"
        else "application/json"
    )


def _plain(value: Any) -> Any:
    """An SDK's model as dicts and lists."""
    return value.model_dump(mode="json", by_alias=True) if hasattr(value, "model_dump") else value


def _joined(api: Dialect, pieces: Iterable[object]) -> bytes:
    """The body that pieces make, or that an SDK's events came from: each is put into its frame again."""
    frames = []
    for piece in pieces:
        if isinstance(piece, bytes):
            frames.append(piece)
            continue
        if isinstance(piece, str):
            frames.append(piece.encode())
            continue
        value = _plain(getattr(piece, "data", piece))  # one SDK wraps each event
        fields = value if isinstance(value, dict) else {}
        if api.splits == "line" and "choices" not in fields:
            frames.append(dump(value) + b"\n")
        else:
            kind = fields.get("type")
            frames.append(sse(dump(value), kind if isinstance(kind, str) else None))
    return b"".join(frames)
