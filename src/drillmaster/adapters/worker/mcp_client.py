"""The official `mcp` client, guarded: a wrapper around `ClientSession` that a worker calls tools through.

```python
held = ToolSession(shelf, guard, "files")
async with ClientSession(read, write, message_handler=on_change(held)) as session:
    await session.initialize()
    tools = GuardedSession(session, held)
    await tools.open()
    result = await tools.call_tool("read_file", {"path": "README.md"})
```

1. The server's list is asked for as it came over the wire, to its last page, since the SDK's own model of a tool drops the fields
   that it does not know. (What a JSON object says twice the SDK's reader has made one of before anybody here sees it.)
2. The list is asked for again when the server says that it changed, when the last comparison is older than the guard allows, and
   when another signed list was put in force. A change that comes while the answer is on its way makes it ask once more.
3. What was judged is what is sent: the arguments as they were read, not the caller's own object.
4. A list_changed of the protocol 2026-07-28 comes to whoever listens (`Client.listen`), and to `on_change` too. Without a
   listener nothing is pushed, and the age of the comparison is all there is. `Client(...).session` is a `ClientSession`.
5. A denial raises `Denied`; nothing was sent. So does a session that is halted, on every call from then on.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from drillmaster.adapters.worker.tool_loops import Allowed
from drillmaster.adapters.worker.tools import ToolSession
from drillmaster.errors import Refused
from drillmaster.guards import Decision
from drillmaster.guards.tools import REASONS

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.types import CallToolResult, Tool

__all__ = ["Denied", "GuardedSession", "on_change"]

MAX_PAGES = 200
MAX_TOOLS = 10_000
_ROUNDS = 3
"""A list that changes each time it is asked for is not asked for a fourth time."""

Handler = Callable[[Any], Awaitable[None]]


class Denied(Refused):
    """A call, or a server, that the guard denied. `decision` has the reason; no argument and no answer is in it."""

    def __init__(self, server: str, decision: Decision) -> None:
        super().__init__(
            f"tools: {server}",
            found=f"{decision.reason}: {REASONS[decision.reason]}",
            wanted="what a person signed",
            remedy="drillmaster gate tools tools.allow.json says what differs; drillmaster tools pin brings the list up to date",
        )
        self.decision = decision


def on_change(held: ToolSession, then: Handler | None = None) -> Handler:
    """Give a `message_handler` that notes when the server says that its list changed; `then` is the worker's own."""

    async def handle(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            held.changed()
        if then is not None:
            await then(message)

    return handle


class GuardedSession:
    """Calls of one `ClientSession`, each of them judged. `held` is this session's and no other's."""

    def __init__(self, session: "ClientSession", held: ToolSession) -> None:
        import anyio

        self._session = session
        self._held = held
        self._turn = anyio.Lock()

    async def open(self) -> None:
        """Ask the server for its tools and compare them with the signed list. Raises Denied where they differ."""
        async with self._turn:
            await self._compare()

    async def fresh(self) -> None:
        """Compare once more where the last comparison no longer holds: before the calls of an answer are judged."""
        async with self._turn:
            if self._held.stale():
                await self._compare()

    async def tools(self) -> "list[Tool]":
        """Give the tools that a model may be told of: offered by the server, allowed by the list, as the SDK has them."""
        from mcp.types import Tool

        await self.fresh()
        return [Tool.model_validate(one) for one in self._held.allowed()]

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | str | None = None, **more: Any
    ) -> "CallToolResult":
        """Call a tool if the guard lets it through. `arguments` is an object, or its JSON; None: none. Raises Denied.

        `more` goes to `ClientSession.call_tool`, such as `read_timeout_seconds`.
        """
        async with self._turn:
            if not self._held.halted and self._held.stale():
                await self._compare()
            asked = self._held.call(name, {} if arguments is None else arguments, compared_in=self._held.round)
            if asked.arguments is None:
                raise Denied(self._held.server, asked.decision)
            self._held.redeem(asked.ticket, name, asked.arguments)
        result: CallToolResult = await self._session.call_tool(name, asked.arguments, **more)
        return result

    async def run(self, call: Allowed, **more: Any) -> "CallToolResult":
        """Send a call that `tool_loops` let through, as it was judged; judge it anew where that no longer holds. Raises Denied."""
        if call.session is not self._held:
            raise Denied(self._held.server, Decision(allowed=False, reason="tool-not-allowed"))
        async with self._turn:
            holds = not self._held.stale() and self._held.redeem(call.ticket, call.tool, call.arguments)
        if not holds:
            return await self.call_tool(call.tool, call.arguments, **more)
        result: CallToolResult = await self._session.call_tool(call.tool, call.arguments, **more)
        return result

    async def _compare(self) -> None:
        decision = None
        for _ in range(_ROUNDS):
            before = self._held.round
            offered = await self._offered()
            decision = self._held.opened(offered, asked_in=before)
            if decision.reason != "not-compared":
                break
        assert decision is not None
        if not decision.allowed:
            raise Denied(self._held.server, decision)
        if any(_mirrors(one.get("inputSchema")) for one in self._held.allowed()):
            await self._note_headers()

    async def _note_headers(self) -> None:
        """Have the SDK list the tools as well: from what it listed last it knows which arguments go into headers."""
        from mcp.types import PaginatedRequestParams

        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            cursor = (await self._session.list_tools(params=params)).next_cursor
            if cursor is None:
                return

    async def _offered(self) -> list[Any] | None:
        """Read the whole list, as it came; None: it cannot be read."""
        from mcp import MCPError
        from mcp.types import ListToolsRequest, PaginatedRequestParams
        from pydantic import RootModel, ValidationError

        found: list[Any] = []
        cursors: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            try:
                page = (
                    await self._session.send_request(ListToolsRequest(params=params), RootModel[dict[str, Any]])
                ).root
            except (MCPError, ValidationError):
                return None
            tools = page.get("tools")
            if not isinstance(tools, list) or len(found) + len(tools) > MAX_TOOLS:
                return None
            found += tools
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
            if not isinstance(cursor, str) or cursor in cursors:
                return None
            cursors.add(cursor)
        return None


def _mirrors(schema: Any) -> bool:
    """Whether an argument of a tool is to be repeated in a header (`x-mcp-header`, protocol 2026-07-28)."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "x-mcp-header" in one:
                return True
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False
