"""The fault `mcp-error`."""

from typing import Annotated, Literal

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script, send_answer
from drillmaster.faults._answers import read_asked
from drillmaster.faults._mcp import Method, error_answer, method_of

__all__ = ["McpError"]


class McpError(Fault, frozen=True, kw_only=True, tag="mcp-error"):
    """Answer an MCP call of one method with a failure, HTTP status 200: JSON-RPC's `error`, or a tool's `isError`.

    Calls of other methods, notifications and requests that are not MCP pass untouched, so that a session still begins.

    Breaks: agents that hand only results to the model: `rpc` is an exception of the MCP client, `tool` is a result like
    any other and is read as an answer.
    Looks like: a tool server that is up and whose tools fail.
    Cannot show: a server that is gone (see status, refused).
    """

    group = "tools"
    seen = ("error", "complete")  # a result that says isError is a result
    needs = ("mcp",)

    method: Method = "tools/call"
    how: Annotated[Literal["rpc", "tool"], Meta(description="a JSON-RPC error, or a result with isError")] = "rpc"

    def script(self, cx: Cx) -> Script:
        asked = yield from read_asked(cx, may_pass=True)
        if asked is not None and method_of(cx, asked.start) == self.method:
            yield from send_answer(error_answer(asked.start, as_result=self.how == "tool"))
