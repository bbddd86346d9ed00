"""What a baseline says of the fault that comes."""

from typing import Any

from drillmaster.outcomes import PROBE_TRACE
from drillmaster.run.forewarn import forewarnings
from drillmaster.targeting import Rule, When


def rows(**fields: Any) -> list[dict[str, Any]]:
    one = {"event": "attempt", "dialect": "openai_chat", "model": "large", "stream": False, "trace": "0" * 32}
    return [{"event": "proxy_started", "pid": 1}, *({**one, **fields} for _ in range(6))]


def test_a_fault_of_streams_is_said_to_let_whole_answers_pass() -> None:
    (said,) = forewarnings([Rule(mode="clean-end")], rows())
    assert said.startswith("warning: clean-end strikes streamed answers alone, and this agent asks for whole ones")
    assert "6 attempts came through the proxy so far, none for a stream" in said
    assert "mode: cut-body" in said


def test_what_may_be_met_is_not_warned_of() -> None:
    assert not list(forewarnings([Rule(mode="clean-end")], rows(stream=True)))
    assert not list(forewarnings([Rule(mode="reset"), Rule(mode="tool-unknown")], rows()))
    assert not list(forewarnings([Rule(mode="clean-end")], []))
    assert not list(forewarnings([Rule(mode="clean-end")], rows(trace=PROBE_TRACE + "0" * 16)))


def test_of_rules_the_one_is_named_and_looked_at_by_whom_it_is_for() -> None:
    mixed = [*rows(), *rows(model="small", stream=True)]
    rules = [Rule(mode="reset"), Rule(mode="stall", name="r2", when=When(model="large"))]
    (said,) = forewarnings(rules, mixed)
    assert said.startswith("warning: rule r2: stall strikes streamed answers alone")
    assert "6 attempts" in said
    assert not list(forewarnings([Rule(mode="stall", name="r2", when=When(model="small"))], mixed))
