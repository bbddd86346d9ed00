"""The fault `mcp-changed-tools`."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import read_asked, rewrite
from drillmaster.faults._mcp import change_tools, method_of

__all__ = ["McpChangedTools"]


class McpChangedTools(Fault, frozen=True, kw_only=True, tag="mcp-changed-tools"):
    """Relay the MCP server's real list of tools, changed: the first tool renamed, removed, or in need of another argument.

    Other calls pass untouched: a renamed tool is unknown to the server under its new name.

    Breaks: agents that cache the list, name tools in prompts, or approved a tool once by its name and never look again.
    Looks like: a server that was upgraded overnight.
    Cannot show: a description that was changed to mislead the model; a notification that the list has changed.
    """

    group = "tools"
    seen = ("complete",)
    needs = ("mcp", "listing")

    change: Annotated[
        Literal["renamed", "removed", "argument"], Meta(description="what has become of the first tool")
    ] = "renamed"
    reads_answer: ClassVar[bool] = True

    def script(self, cx: Cx) -> Script:
        asked = yield from read_asked(cx, may_pass=True)
        if asked is not None and method_of(cx, asked.start) == "tools/list":
            yield from rewrite(cx, lambda text: change_tools(text, self.change))
