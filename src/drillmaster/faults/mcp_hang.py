"""The fault `mcp-hang`."""

from drillmaster.faults import Cx, Fault, Lifted, Script, Wait
from drillmaster.faults._answers import read_asked
from drillmaster.faults._mcp import Method, method_of

__all__ = ["McpHang"]


class McpHang(Fault, frozen=True, kw_only=True, tag="mcp-hang"):
    """Read an MCP call of one method and never answer it, until the client gives up or the fault is lifted.

    Calls of other methods, notifications and requests that are not MCP pass untouched, so that a session still begins.
    After a lift the call goes on to the server, if its body was under 256 kB.

    Breaks: agents whose tool calls have no time limit of their own: one hung tool stops the whole turn.
    Looks like: a tool that works, and works, and works.
    Cannot show: a server that hangs while it lists its tools, unless `method` says so (`tools/list`, `initialize`).
    """

    group = "tools"
    seen = ("silent",)
    needs = ("mcp",)

    method: Method = "tools/call"

    def script(self, cx: Cx) -> Script:
        asked = yield from read_asked(cx, may_pass=True)
        if asked is not None and method_of(cx, asked.start) == self.method:
            try:
                yield Wait()
            except Lifted:
                return  # now it is asked after all
