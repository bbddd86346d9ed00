"""An MCP server to stand in for a real one, on the provider's path `/mcp`: two tools, and no session to lose.

It has no stream of its own: a GET is answered 405, as the specification allows.
"""

import hashlib
import json
from typing import Any

from drillmaster.dialects import Reply, load
from drillmaster.http1 import Answer

__all__ = ["TOOLS", "mcp_answer"]

PROTOCOL_VERSION = "2025-06-18"
"""What is offered to a client that asks for a version nobody here knows."""
_KNOWN_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "order_status",
        "description": "Say where an order is.",
        "inputSchema": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    },
    {
        "name": "refund",
        "description": "Refund an order.",
        "inputSchema": {
            "type": "object",
            "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}},
            "required": ["order", "cents"],
        },
    },
)


def mcp_answer(method: str, body: bytes, *, request_id: str) -> Answer:
    """Answer one HTTP request to `/mcp`."""
    mcp: Any = load("mcp")
    if method == "DELETE":
        return Answer(204, (), b"", "D")
    if method != "POST":
        return mcp.error(405, request_id=request_id)  # type: ignore[no-any-return] # the entry is loaded by name
    call, params = _call(body)
    if call is None:
        return mcp.error(400, request_id=request_id, asked=body)  # type: ignore[no-any-return] # likewise
    if call.get("id") is None:
        return Answer(202, (), b"", "D")
    answer: Answer = _answer(mcp, str(call.get("method")), params, body, request_id)
    return answer


def _call(body: bytes) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    try:
        call = json.loads(body)
    except (ValueError, RecursionError):
        return None, {}
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0" or not isinstance(call.get("method"), str):
        return None, {}
    params = call.get("params")
    return call, params if isinstance(params, dict) else {}


def _answer(mcp: Any, name: str, params: dict[str, Any], body: bytes, request_id: str) -> Any:
    if name == "initialize":
        asked = params.get("protocolVersion")
        answer = mcp.result(
            {
                "protocolVersion": asked if asked in _KNOWN_VERSIONS else PROTOCOL_VERSION,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "drillmaster-standin", "version": "1"},
            },
            body,
        )
        return Answer(200, (*answer.headers, ("mcp-session-id", request_id)), answer.body, answer.source)
    if name == "ping":
        return mcp.result({}, body)
    if name == "tools/list":
        return mcp.result({"tools": list(TOOLS)}, body)
    if name == "tools/call":
        tool = params.get("name")
        if all(tool != known["name"] for known in TOOLS):
            return mcp.failure(-32602, f"Unknown tool: {tool}", body)
        said = json.dumps(params.get("arguments"), sort_keys=True, ensure_ascii=False)
        mark = hashlib.sha256(f"{tool}\0{said}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return mcp.answer(Reply(model="", pieces=(f"{tool}: done [{mark}]",)), asked=body)
    return mcp.failure(-32601, "Method not found", body)
