"""The fault `mcp-changed-tools`, played by hand."""

import json
from typing import Any

import pytest

from drillmaster.dialects import data_of, dump, sse
from drillmaster.faults import Data, End, Frame, Head
from tests.faults.streamlab import play

ASKED = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
TOOLS = [{"name": "status", "inputSchema": {"type": "object", "required": ["order"]}}, {"name": "refund"}]
BODY = dump({"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS, "nextCursor": "c"}})
JSON = [Head(200, (("content-type", "application/json"),)), Data(BODY), End()]
SSE = [Head(200, (("content-type", "text/event-stream"),)), Frame(b": ping\n\n"), Frame(sse(BODY, "message")), End()]


def listed(upstream: list[Any], change: str) -> list[dict[str, Any]]:
    played = play("mcp-changed-tools", upstream, dialect="mcp", path="/mcp", asked=ASKED, change=change)
    assert played.met
    value = json.loads(played.body) if upstream is JSON else data_of(played.pieces[-1])
    assert value["result"]["nextCursor"] == "c"
    tools: list[dict[str, Any]] = value["result"]["tools"]
    return tools


@pytest.mark.parametrize("upstream", [JSON, SSE])
def test_the_first_tool_is_another(upstream: list[Any]) -> None:
    assert [tool["name"] for tool in listed(upstream, "renamed")] == ["status_v2", "refund"]
    assert [tool["name"] for tool in listed(upstream, "removed")] == ["refund"]
    first = listed(upstream, "argument")[0]["inputSchema"]
    assert (first["required"], first["properties"]) == (["order", "confirm"], {"confirm": {"type": "boolean"}})


@pytest.mark.parametrize("body", [b"{}", b"not json", b'{"result":{"tools":[]}}', b'{"error":{}}', b'[{"result":1}]'])
def test_what_holds_no_list_stays_as_it_is(body: bytes) -> None:
    played = play("mcp-changed-tools", [JSON[0], Data(body), End()], dialect="mcp", path="/mcp", asked=ASKED)
    assert (played.body, played.met) == (body, False)


def test_other_calls_pass() -> None:
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
    assert play("mcp-changed-tools", JSON, dialect="mcp", path="/mcp", asked=asked).end == "passed"


@pytest.mark.parametrize("schema", [{"properties": ["x"]}, {"required": 5}, {"required": "order"}, [], 1, None])
def test_a_schema_that_is_none_makes_the_script_not_stumble(schema: object) -> None:
    body = dump({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "status", "inputSchema": schema}]}})
    upstream = [JSON[0], Data(body), End()]
    played = play("mcp-changed-tools", upstream, dialect="mcp", path="/mcp", asked=ASKED, change="argument")
    first = json.loads(played.body)["result"]["tools"][0]["inputSchema"]
    assert (first["required"], first["properties"]) == (["confirm"], {"confirm": {"type": "boolean"}})
