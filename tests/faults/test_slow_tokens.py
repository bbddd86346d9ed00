"""The fault `slow-tokens`, played by hand."""

import pytest

from drillmaster import faults
from drillmaster.errors import Problem
from tests.faults.streamlab import body_of, context, play, streamed


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "ollama"])
def test_each_word_but_the_first_waits_its_turn(dialect: str) -> None:
    upstream = streamed(dialect)
    played = play("slow-tokens", upstream, dialect=dialect, per_s=4)
    assert (played.body, played.end) == (body_of(upstream), "end")
    assert played.waits == [0.25, 0.5, 0.75, 1.0]  # this clock stands still, so each is due later


def test_an_upstream_that_is_slower_by_itself_is_not_slowed() -> None:
    now = iter(range(0, 10**12, 10**9))
    script = faults.make("slow-tokens", {"per_s": 10}).script(context("openai_chat", now_ns=lambda: next(now)))
    events = iter(streamed("openai_chat"))
    value, actions = None, []
    while True:
        try:
            action = script.send(value)
        except StopIteration:
            break
        actions.append(action)
        value = next(events) if isinstance(action, faults.Read) else None
        if isinstance(action, faults.Send) and isinstance(action.part, faults.End):
            break
    assert not [action for action in actions if isinstance(action, faults.Wait)]


@pytest.mark.parametrize("per_s", [0, -1, 1e9])
def test_a_rate_out_of_bounds_is_refused(per_s: float) -> None:
    with pytest.raises(Problem, match="per_s"):
        faults.make("slow-tokens", {"per_s": per_s})
