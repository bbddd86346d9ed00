"""The fault `mcp-error`, played by hand."""

import json

import pytest

from tests.faults.streamlab import play

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"refund"}}'


def test_a_json_rpc_error_comes_with_a_200_and_the_calls_id() -> None:
    played = play("mcp-error", [], dialect="mcp", path="/mcp", asked=CALL)
    value = json.loads(played.body)
    assert (played.status, value["id"], value["error"]["code"]) == (200, 7, -32603)


def test_or_a_result_that_says_it_is_an_error() -> None:
    value = json.loads(play("mcp-error", [], dialect="mcp", path="/mcp", asked=CALL, how="tool").body)
    assert (value["id"], value["result"]["isError"]) == (7, True)


@pytest.mark.parametrize(
    "dialect, asked",
    [
        ("mcp", b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'),
        ("mcp", b'{"jsonrpc":"2.0","method":"tools/call"}'),
        ("mcp", b"not json"),
        ("openai_chat", CALL),
    ],
)
@pytest.mark.parametrize("tag", ["mcp-error", "mcp-hang"])
def test_what_is_no_such_call_passes(tag: str, dialect: str, asked: bytes) -> None:
    played = play(tag, [], dialect=dialect, path="/mcp", asked=asked)
    assert (played.met, played.end) == (False, "passed")


def test_another_method_can_be_chosen() -> None:
    asked = b'{"jsonrpc":"2.0","id":"a","method":"tools/list"}'
    assert play("mcp-error", [], dialect="mcp", path="/mcp", asked=asked, method="tools/list").met
