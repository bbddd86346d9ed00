"""The fault `weaker-answer`, played by hand."""

import json

from tests.faults.streamlab import play


def test_it_names_the_model_that_was_asked_for() -> None:
    value = json.loads(play("weaker-answer", [], asked=b'{"model":"big-1"}').body)
    assert value["model"] == "big-1"
    assert len(value["choices"][0]["message"]["content"]) > 100
    assert value["choices"][0]["finish_reason"] == "stop"


def test_or_the_one_it_is_told() -> None:
    value = json.loads(play("weaker-answer", [], asked=b'{"model":"big-1"}', model="small-1").body)
    assert value["model"] == "small-1"
