"""The fault `tool-duplicate-id`, played by hand."""

import json

from tests.faults.streamlab import play


def test_two_calls_have_one_id() -> None:
    played = play("tool-duplicate-id", [], dialect="anthropic", asked=b'{"tools":[{"name":"look_up"}]}')
    one, two = json.loads(played.body)["content"]
    assert one["type"] == two["type"] == "tool_use"
    assert one["id"] == two["id"]


def test_in_a_stream_they_are_two_calls_too() -> None:
    asked = b'{"stream":true,"tools":[{"type":"function","function":{"name":"look_up"}}]}'
    played = play("tool-duplicate-id", [], asked=asked)
    calls = [c for p in played.pieces[:-1] for c in json.loads(p[6:])["choices"][0]["delta"].get("tool_calls", ())]
    opened = [call for call in calls if "id" in call]
    assert [call["index"] for call in opened] == [0, 1]
    assert opened[0]["id"] == opened[1]["id"]
