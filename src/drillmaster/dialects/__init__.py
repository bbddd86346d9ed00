"""Dialects: how each API words its requests, its errors and the end of its answers. One file an entry.

1. The name is the file's: `openai_chat`. Listing reads names; only the entry that is asked for is imported.
2. An error is the provider's own: status, headers and body as documented or seen, and `source` says which.
3. "Was this answer really finished?" is a question to the API's *terminal state*, never to the transport alone: a stream
   that ends cleanly without it was cut.
4. Nothing here decodes a whole large body: model and stream come from its first and last bytes.
"""

import importlib
import pkgutil
import re
from typing import ClassVar

import msgspec

from drillmaster.errors import Problem
from drillmaster.http1 import Answer, RequestHead

__all__ = ["EDGE_BYTES", "Dialect", "Peek", "load", "names", "peek_json", "recognise"]

EDGE_BYTES = 4_096
"""How much of the end of an answer `finished` is shown, and of each end of a large request `peek_json`."""


class Peek(msgspec.Struct, frozen=True):
    """What a request asks for. None: its body does not say, or not where we looked."""

    model: str | None = None
    stream: bool | None = None


class Dialect:
    """One API."""

    name: ClassVar[str]

    def recognises(self, request: RequestHead) -> bool:
        """Whether this request speaks it; from method, path and fields alone."""
        raise NotImplementedError

    def error(self, status: int, condition: str | None = None, *, request_id: str) -> Answer:
        """The API's own error for a status and, where one status has several meanings, a condition."""
        raise NotImplementedError

    def finished(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> bool:
        """Whether the answer reached the API's terminal state.

        `tail` is the last `EDGE_BYTES` of the decoded body, `whole` whether its framing was complete, `content_type` in
        lower case.
        """
        raise NotImplementedError


def names() -> tuple[str, ...]:
    """The catalogue, without importing an entry."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> Dialect:
    """The entry of this name. Raises Problem for one that is not in the catalogue."""
    if name not in names():
        raise Problem(
            "dialect", found=repr(name[:40]), wanted="auto or one of " + ", ".join(names()), remedy="write one of these"
        )
    dialect: Dialect = importlib.import_module(f"{__name__}.{name}").DIALECT
    return dialect


def recognise(request: RequestHead, among: tuple[Dialect, ...]) -> Dialect:
    """The first of `among` that recognises the request; else the last, which should be `plain`."""
    for dialect in among:
        if dialect.recognises(request):
            return dialect
    return among[-1]


_MODEL = re.compile(rb'[{,]\s*"model"\s*:\s*"([^"\\]{1,128})"')
_STREAM = re.compile(rb'[{,]\s*"stream"\s*:\s*(true|false)')


class _Fields(msgspec.Struct):
    model: str | None = None
    stream: bool | None = None


_decode = msgspec.json.Decoder(_Fields).decode


def peek_json(head: bytes, tail: bytes | None = None) -> Peek:
    """Find `model` and `stream` in a JSON request.

    `head` is the whole body, or, with a `tail`, its two ends (SDKs write `messages` first and the model behind them). A
    quote inside a string is escaped, so that prompt text cannot be taken for a field.
    """
    if tail is None:
        try:
            fields = _decode(head)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Peek()
        return Peek(fields.model[:128] if fields.model is not None else None, fields.stream)
    found_model = _MODEL.search(head) or _MODEL.search(tail)
    found_stream = _STREAM.search(head) or _STREAM.search(tail)
    return Peek(
        found_model[1].decode("utf-8", "replace") if found_model else None,
        found_stream[1] == b"true" if found_stream else None,
    )
