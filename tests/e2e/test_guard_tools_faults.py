"""Every fault of the catalogue that is about tools, through the real proxy, met by a worker behind the tools guard."""

from collections.abc import Iterator
from typing import Any

import anthropic
import msgspec
import openai
import pytest
from mcp import MCPError

from drillmaster.adapters.worker.mcp_client import Denied as NotSent
from drillmaster.adapters.worker.mcp_client import GuardedSession, on_change
from drillmaster.adapters.worker.tool_loops import (
    Allowed,
    Desk,
    anthropic_calls,
    chat_calls,
    offered_by_chat,
    response_calls,
)
from drillmaster.adapters.worker.tools import ToolSession
from drillmaster.standins.provider_mcp import TOOLS
from tests.e2e.toollab import GUARD, READ, Lab, over_http, run
from tests.e2e.wirelab import ProxyProcess, injections, proxy, standin

pytestmark = [pytest.mark.e2e, pytest.mark.needs("ssh-keygen")]

ASK: list[Any] = [{"role": "user", "content": "please use read_file"}]
FUNCTION = {"name": "read_file", "description": "Read a file.", "parameters": READ["inputSchema"]}
CHAT: list[Any] = [{"type": "function", "function": FUNCTION}]
FLAT: list[Any] = [{"type": "function", **FUNCTION}]
CLAUDE: list[Any] = [{"name": "read_file", "description": "Read a file.", "input_schema": READ["inputSchema"]}]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with standin() as url, proxy(tmp_path_factory.mktemp("proxy"), upstream=url) as one:
        yield one


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, ours: ProxyProcess) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    folder.chmod(0o755)
    made = Lab(folder)
    made.write_policy(urls=[f"{ours.url}/mcp"])
    value = made.write_list({"file": [READ]})
    orders = made.write_list({"sdk": list(TOOLS)})
    for tool in orders["tools"]:
        value["tools"].append({**tool, "server": "orders"})
    value["servers"].append({"name": "orders", "url": f"{ours.url}/mcp"})
    made.put(value, "ada")
    return made


def held(lab: Lab, server: str, **limits: Any) -> ToolSession:
    shelf = lab.shelf()
    shelf.load()
    return ToolSession(shelf, msgspec.structs.replace(GUARD, **limits), server)


def asked(ours: ProxyProcess, lab: Lab) -> dict[str, list[str]]:
    """The reasons of three loops that each ask once."""
    found: dict[str, list[str]] = {}
    one = held(lab, "file")
    assert one.opened(offered_by_chat(CHAT)).allowed
    chat = openai.OpenAI(base_url=f"{ours.url}/v1", api_key="k", max_retries=0)
    claude = anthropic.Anthropic(base_url=ours.url, api_key="k", max_retries=0)
    calls: dict[str, Any] = {
        "chat": chat_calls(Desk([one]), chat.chat.completions.create(model="m", messages=ASK, tools=CHAT)),
        "responses": response_calls(
            Desk([one]), chat.responses.create(model="m", input="please use read_file", tools=FLAT)
        ),
    }
    raw = claude.messages.with_raw_response.create(model="m", max_tokens=99, messages=ASK, tools=CLAUDE)
    calls["anthropic"] = anthropic_calls(Desk([one]), raw.parse(), raw=raw.http_response.content)
    chat.close()
    claude.close()
    for name, made in calls.items():
        found[name] = [call.decision.reason for call in made]
        assert all(isinstance(call, Allowed) == call.decision.allowed for call in made)
    return found


def test_without_a_fault_each_call_holds(ours: ProxyProcess, lab: Lab) -> None:
    assert asked(ours, lab) == {name: ["contract-holds"] for name in ("chat", "responses", "anthropic")}


@pytest.mark.parametrize(
    ("fault", "reasons"),
    [
        ("tool-bad-json", ["arguments-unreadable"]),
        ("tool-unknown", ["tool-not-allowed"]),
        ("tool-duplicate-id", ["arguments-misfit", "call-repeated"]),  # it calls without arguments, twice
    ],
)
def test_a_fault_of_tool_calls_ends_in_a_denial(ours: ProxyProcess, lab: Lab, fault: str, reasons: list[str]) -> None:
    with injections(ours) as inject:
        inject(fault)
        assert asked(ours, lab) == dict.fromkeys(("chat", "responses", "anthropic"), reasons)


@pytest.mark.parametrize("change", ["renamed", "removed", "argument"])
def test_an_mcp_server_whose_list_is_changed_on_the_way_halts_the_session(
    ours: ProxyProcess, lab: Lab, change: str
) -> None:
    async def act() -> None:
        one = held(lab, "orders", max_compared_ms=0)
        async with over_http(f"{ours.url}/mcp", message_handler=on_change(one)) as session:
            tools = GuardedSession(session, one)
            await tools.open()
            result = await tools.call_tool("order_status", {"order": "a"})
            assert "order_status: done" in result.content[0].text  # type: ignore[union-attr]  # a text
            with injections(ours) as inject:
                inject("mcp-changed-tools", change=change)
                with pytest.raises(NotSent):
                    await tools.call_tool("order_status", {"order": "a"})
            assert one.halted in ("tool-changed", "tool-removed", "tool-added")
            with pytest.raises(NotSent, match="halted"):
                await tools.call_tool("order_status", {"order": "a"})

    run(act)


def test_an_mcp_server_that_cannot_be_asked_is_not_called(ours: ProxyProcess, lab: Lab) -> None:
    async def act() -> None:
        one = held(lab, "orders", max_compared_ms=0)
        async with over_http(f"{ours.url}/mcp", read_timeout_seconds=1) as session:
            tools = GuardedSession(session, one)
            await tools.open()
            for fault in ("mcp-error", "mcp-hang"):
                with injections(ours) as inject:
                    inject(fault)
                    with pytest.raises((NotSent, MCPError)) as told:
                        await tools.call_tool("order_status", {"order": "a"})
                    assert one.halted == "", told.value
            await tools.call_tool("order_status", {"order": "a"})  # nothing was other than signed

    run(act)
