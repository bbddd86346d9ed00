"""The fault `wrong-model`, played by hand."""

import json

import pytest

from tests.faults.streamlab import PATHS, play, streamed, whole


@pytest.mark.parametrize("dialect", PATHS)
def test_the_name_in_the_answer_is_another(dialect: str) -> None:
    for upstream in (whole(dialect), streamed(dialect)):
        played = play("wrong-model", upstream, dialect=dialect, model='a "b" \\1')
        assert played.met
        assert b'"m"' not in played.body
        assert json.dumps('a "b" \\1').encode() in played.body


def test_the_length_is_that_of_the_changed_answer() -> None:
    played = play("wrong-model", whole("openai_chat"), model="much-longer-than-before")
    assert int(played.headers["content-length"]) == len(played.body)
    assert json.loads(played.body)["model"] == "much-longer-than-before"
