"""Calls of the Model Context Protocol. No entry: what the faults of MCP share."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from drillmaster.dialects import data_of, dump, sse
from drillmaster.dialects.mcp import DIALECT
from drillmaster.faults import Cx
from drillmaster.http1 import Answer

__all__ = ["Method", "change_tools", "error_answer", "method_of"]

Method = Annotated[str, Meta(pattern="^[a-z]+(/[a-zA-Z_]+)*$", max_length=64, description="of the call")]


def method_of(cx: Cx, asked: bytes) -> str | None:
    """The method of an MCP call; None for a notification, for one over 64 kB, and for what is no MCP."""
    if cx.dialect.name != DIALECT.name or DIALECT.call_id(asked) is None:
        return None
    return DIALECT.method_of(asked)


def error_answer(asked: bytes, *, as_result: bool) -> Answer:
    """A failure of the call, with HTTP status 200."""
    if as_result:
        return DIALECT.result({"content": [{"type": "text", "text": "The tool failed."}], "isError": True}, asked)
    return DIALECT.failure(-32603, "Internal error", asked)


def change_tools(text: bytes, change: Literal["renamed", "removed", "argument"]) -> bytes:
    """Change the first tool of a list, in a JSON body or in an event of a stream; what holds no list stays as it is."""
    is_event = not text.lstrip().startswith(b"{")
    if is_event:
        value: Any = data_of(text)
    else:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return text
    result = value.get("result") if isinstance(value, dict) else None
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, list) or not tools or not isinstance(tools[0], dict):
        return text
    first = tools[0]
    if change == "removed":
        del tools[0]
    elif change == "renamed":
        first["name"] = f"{first.get('name', 'tool')}_v2"
    else:
        schema = first.get("inputSchema")
        schema = dict(schema) if isinstance(schema, dict) else {"type": "object"}
        properties, required = schema.get("properties"), schema.get("required")
        schema["properties"] = {**(properties if isinstance(properties, dict) else {}), "confirm": {"type": "boolean"}}
        schema["required"] = [*(required if isinstance(required, list) else []), "confirm"]
        first["inputSchema"] = schema
    return sse(dump(value), "message") if is_event else dump(value)
