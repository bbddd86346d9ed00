"""What a test has the stand-in provider's models say, in place of their own words.

1. Lines belong to a pattern of model names. A request takes the next line of the pattern that was given last among those
   that its model fits; the last line of a pattern stays, for every request after it.
2. A line is said as it is: a request's token limit does not cut it, and no tool is called but those of the line.
3. What a fault answers in the model's place takes no line: only requests that reach the provider do.
"""

import fnmatch
import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from drillmaster.dialects import Finish, Reply, ToolCall
from drillmaster.standins.provider_asks import Asked

__all__ = ["MAX_LINES", "Call", "Line", "Script", "worded"]

_PIECE = re.compile(r"\s*\S+|\s+$")
MAX_LINES = 10_000
"""Of one pattern; whoever takes lines from outside refuses more."""


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the model calls."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: dict[str, Any] | str = {}
    """As an object; as text it goes out as it is, JSON or not."""
    id: str | None = None
    """None: one as the API's own look."""


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer."""

    text: str = ""
    tools: tuple[Call, ...] = ()
    finish: Finish | None = None
    """Why the model stopped; None: `tool` where it calls one, else `stop`."""
    input_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """None: as many as the prompt's length suggests."""
    output_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """None: as many as the text has pieces."""
    pieces: tuple[str, ...] | None = None
    """The text as a stream cuts it; None: by words. In place of `text`."""


class Script:
    """Who says what next."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Line]] = {}

    def put(self, model: str, lines: Sequence[Line]) -> None:
        """Give models of this pattern these lines, in place of those that the pattern had; none: they speak for themselves."""
        self._parts.pop(model, None)
        if lines:
            self._parts[model] = list(lines[:MAX_LINES])

    def clear(self) -> None:
        self._parts.clear()

    def next_for(self, asked: Asked) -> Line | None:
        """The line that answers this request; None: the model has none."""
        for pattern, lines in reversed(self._parts.items()):
            if fnmatch.fnmatchcase(asked.model, pattern):
                return lines.pop(0) if len(lines) > 1 else lines[0]
        return None


def worded(line: Line, asked: Asked, *, call_prefix: str, answer_id: str, now_s: int, input_tokens: int) -> Reply:
    """The line as a reply to that request. `input_tokens` is what holds where the line does not say."""
    pieces = line.pieces if line.pieces is not None else tuple(_PIECE.findall(line.text))
    tools = tuple(
        ToolCall(
            id=call.id or f"{call_prefix}{answer_id[:16]}{i}",
            name=call.name,
            arguments=call.arguments
            if isinstance(call.arguments, str)
            else msgspec.json.encode(call.arguments).decode("utf-8"),
        )
        for i, call in enumerate(line.tools)
    )
    spent = len(pieces) + sum(max(1, len(call.arguments) // 4) for call in tools)
    return Reply(
        model=asked.model,
        pieces=pieces,
        tools=tools,
        finish=line.finish or ("tool" if tools else "stop"),
        input_tokens=line.input_tokens if line.input_tokens is not None else input_tokens,
        output_tokens=line.output_tokens if line.output_tokens is not None else max(1, spent),
        answer_id=answer_id,
        now_s=now_s,
        usage_in_stream=asked.usage_in_stream,
    )
