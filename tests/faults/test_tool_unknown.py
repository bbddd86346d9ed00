"""The fault `tool-unknown`, played by hand."""

import json

from tests.faults.streamlab import play

ASKED = b'{"tools":[{"type":"function","function":{"name":"look_up"}}]}'


def test_the_tool_is_one_that_nobody_offered() -> None:
    call = json.loads(play("tool-unknown", [], asked=ASKED).body)["choices"][0]["message"]["tool_calls"][0]
    assert (call["function"]["name"], call["function"]["arguments"]) == ("no_such_tool", "{}")


def test_or_the_one_it_is_told() -> None:
    assert b'"name":"rm"' in play("tool-unknown", [], asked=ASKED, name="rm").body
