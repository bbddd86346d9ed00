"""The fault `refusal`, played by hand."""

import json

import pytest

from tests.faults.streamlab import play


def test_openai_has_a_field_for_it_and_no_content() -> None:
    message = json.loads(play("refusal", [], asked=b"{}").body)["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (None, "I'm sorry, but I can't help with that.")


@pytest.mark.parametrize(
    "dialect, wanted", [("anthropic", b'"stop_reason":"refusal"'), ("openai_responses", b'"refusal"')]
)
@pytest.mark.parametrize("stream", [b"true", b"false"])
def test_others_have_their_own_way(dialect: str, wanted: bytes, stream: bytes) -> None:
    played = play("refusal", [], dialect=dialect, asked=b'{"model":"m","stream":%b}' % stream)
    assert wanted in played.body
    assert b"sorry" in played.body


def test_a_call_of_a_tool_passes() -> None:
    played = play("refusal", [], dialect="mcp", asked=b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}')
    assert played.end == "passed" and not played.met
