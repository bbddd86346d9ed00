"""The fault `tool-bad-json`, played by hand."""

import json

import pytest

from tests.faults.streamlab import play

TOOLS = b'"tools":[{"type":"function","function":{"name":"look_up"}}]'


def test_the_arguments_are_no_json() -> None:
    message = json.loads(play("tool-bad-json", [], asked=b"{" + TOOLS + b"}").body)["choices"][0]
    assert message["finish_reason"] == "tool_calls"
    with pytest.raises(ValueError):
        json.loads(message["message"]["tool_calls"][0]["function"]["arguments"])


def test_nor_are_they_when_they_are_put_together_from_a_stream() -> None:
    played = play("tool-bad-json", [], asked=b'{"stream":true,' + TOOLS + b"}")
    deltas = [json.loads(piece[6:])["choices"][0]["delta"] for piece in played.pieces[:-1]]
    text = "".join(call["function"]["arguments"] for d in deltas for call in d.get("tool_calls", ()))
    assert text == '{"query": "the first'


def test_an_api_that_carries_a_value_carries_the_broken_text() -> None:
    played = play("tool-bad-json", [], dialect="anthropic", asked=b'{"tools":[{"name":"look_up"}]}')
    assert json.loads(played.body)["content"][0]["input"] == '{"query": "the first'
