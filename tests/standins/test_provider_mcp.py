"""The stand-in MCP server."""

import json
from typing import Any

import pytest

from drillmaster.http1 import Answer
from drillmaster.standins.provider_mcp import PROTOCOL_VERSION, TOOLS, mcp_answer


def call(method: str, params: object = None, call_id: object = 1) -> Answer:
    message = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
    return mcp_answer("POST", json.dumps(message).encode(), request_id="req_1")


def result(answer: Answer) -> Any:
    assert answer.status == 200
    return json.loads(answer.body)["result"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"jsonrpc":"1.0","method":"ping"}', b"\xff"])
def test_what_is_no_call_is_a_400_in_json_rpc(body: bytes) -> None:
    answer = mcp_answer("POST", body, request_id="req_1")
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["code"] == -32600


def test_there_is_no_stream_to_get() -> None:
    assert mcp_answer("GET", b"", request_id="r").status == 405


def test_a_session_can_be_ended() -> None:
    assert mcp_answer("DELETE", b"", request_id="r") == Answer(204, (), b"", "D")


def test_a_notification_is_accepted_and_not_answered() -> None:
    answer = call("notifications/initialized", call_id=None)
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", PROTOCOL_VERSION),
        (5, PROTOCOL_VERSION),
    ],
)
def test_it_agrees_to_a_version_it_knows(asked: object, version: str) -> None:
    answer = call("initialize", {"protocolVersion": asked})
    assert result(answer)["protocolVersion"] == version
    assert dict(answer.headers)["mcp-session-id"] == "req_1"


def test_it_lists_its_tools_and_calls_them() -> None:
    assert result(call("tools/list"))["tools"] == list(TOOLS)
    done = result(call("tools/call", {"name": "refund", "arguments": {"order": "7", "cents": 5}}))
    assert done["isError"] is False
    assert done["content"][0]["text"].startswith("refund: done [")
    assert done == result(call("tools/call", {"name": "refund", "arguments": {"cents": 5, "order": "7"}}))


@pytest.mark.parametrize(("method", "code"), [("tools/call", -32602), ("server/discover", -32601)])
def test_what_it_does_not_know_is_an_error_with_the_id_of_the_call(method: str, code: int) -> None:
    answer = call(method, {"name": "nobody"}, call_id="abc")
    value = json.loads(answer.body)
    assert (answer.status, value["id"], value["error"]["code"]) == (200, "abc", code)
