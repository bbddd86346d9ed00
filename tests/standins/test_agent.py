"""The agents by what their users get. `ask` is the model: a function that answers or raises."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.standins.agent import (
    BUGS,
    OPEN_S,
    Agent,
    Breaker,
    NoAnswer,
    Settings,
    Unavailable,
    agent_class,
)


class SdkError(Exception):
    """Any error of the SDK."""


class SdkConnectionError(SdkError):
    """A reset, a hang."""


class SdkStatusError(SdkError):
    """A 503."""


SETTINGS = Settings(primary_url="http://primary/v1", fallback_url="http://fallback/v1", timeout_s=2)


class Bench:
    """An agent of one kind at a primary that fails as told; keeps what was asked and marked."""

    def __init__(self, kind: type[Agent], failure: Exception | None = None) -> None:
        self.failure = failure
        self.asked: list[tuple[str, float | None]] = []
        self.marks: list[dict[str, Any]] = []
        self.clock = ManualClock()
        self.agent = kind(SETTINGS, self.ask, self.mark, self.clock, Unavailable(SdkError, SdkStatusError))

    def ask(self, url: str, model: str, prompt: str, *, trace: str | None, timeout_s: float | None) -> str:
        self.asked.append((url, timeout_s))
        if url == SETTINGS.primary_url and self.failure is not None:
            raise self.failure
        return f"{model}: {prompt}"

    def mark(self, event: str, **fields: Any) -> None:
        self.marks.append({"event": event, **fields})

    def get(self, prompt: str = "Where is it?", request_id: str = "r1") -> tuple[int, dict[str, Any]]:
        return self.agent.serve(prompt, request_id, None)

    def events(self) -> list[str]:
        return [m["event"] for m in self.marks]

    def primary_calls(self) -> int:
        return sum(url == SETTINGS.primary_url for url, _ in self.asked)


@pytest.mark.parametrize(
    "failure",
    [SdkConnectionError("reset"), SdkStatusError("503"), NoAnswer("empty"), json.JSONDecodeError("x", "", 0)],
)
def test_the_healthy_agent_answers_every_failure_of_the_primary_from_its_fallback(failure: Exception) -> None:
    bench = Bench(Agent, failure)
    status, reply = bench.get()
    assert (status, reply["path"]) == (200, "fallback")
    assert reply["text"]
    assert bench.events() == ["user_request", "fallback_engaged", "user_request"]
    assert bench.marks[-1]["status"] == 200


def test_the_healthy_agent_marks_as_the_playbook_does() -> None:
    bench = Bench(Agent)
    bench.get(request_id="r7")
    assert bench.marks == [
        {"event": "user_request", "id": "r7", "phase": "start"},
        {"event": "model_ok", "id": "r7", "path": "primary"},
        {"event": "user_request", "id": "r7", "phase": "end", "status": 200, "ms": 0.0},
    ]


def test_an_exception_nobody_thought_of_is_a_500_with_its_class_in_the_timeline_and_an_end() -> None:
    bench = Bench(Agent, ZeroDivisionError())
    assert bench.get()[0] == 500
    assert bench.events() == ["user_request", "unhandled_exception", "user_request"]
    assert bench.marks[1]["kind"] == "ZeroDivisionError"
    assert bench.marks[2]["status"] == 500


def test_the_breaker_spares_a_dead_primary_and_closes_when_it_is_back() -> None:
    bench = Bench(Agent, SdkConnectionError())
    for _ in range(10):
        assert bench.get()[1]["path"] == "fallback"
    assert bench.primary_calls() == 3
    bench.clock.advance(OPEN_S)
    bench.get()
    bench.get()
    assert bench.primary_calls() == 4  # one looks, the other does not
    bench.failure = None
    assert bench.get()[1]["path"] == "fallback"
    bench.clock.advance(OPEN_S)
    assert bench.get()[1]["path"] == "primary"
    assert bench.get()[1]["path"] == "primary"


def test_an_open_breaker_lets_one_request_look_and_no_second_one_meanwhile() -> None:
    clock = ManualClock()
    breaker = Breaker(1, OPEN_S, clock)
    breaker.failed()
    assert not breaker.admits()
    clock.advance(OPEN_S)
    assert [breaker.admits() for _ in range(3)] == [True, False, False]  # the one that looks is still under way


def test_without_a_fallback_model_a_stored_text_answers() -> None:
    bench = Bench(Agent, SdkConnectionError())
    bench.agent.settings = Settings(primary_url=SETTINGS.primary_url, fallback_url=None, timeout_s=2)
    assert len(bench.get()[1]["text"]) > 20


@pytest.mark.parametrize("failure", [SdkConnectionError(), SdkStatusError()])
def test_wrong_except_never_reaches_its_fallback(failure: Exception) -> None:
    bench = Bench(BUGS["wrong-except"], failure)
    assert bench.get()[0] == 500
    assert "fallback_engaged" not in bench.events()
    assert bench.marks[1]["kind"] == type(failure).__name__


def test_choosy_fallback_fails_some_prompts_and_not_others() -> None:
    bench = Bench(BUGS["choosy-fallback"], SdkStatusError())
    assert bench.get("Where is it?")[0] == 200
    assert bench.get("Cancel it")[0] == 502
    assert bench.events().count("fallback_engaged") == 2
    assert "unhandled_exception" not in bench.events()


def test_one_loop_answers_nobody_after_its_first_exception() -> None:
    bench = Bench(BUGS["one-loop"])
    assert bench.get()[0] == 200
    bench.failure = SdkConnectionError()
    answered: list[tuple[int, dict[str, Any]]] = []

    def user() -> None:
        answered.append(bench.get())

    users = [threading.Thread(target=user, daemon=True) for _ in range(3)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join(0.1)
    assert answered == []
    assert bench.events().count("unhandled_exception") == 1


def test_eager_retries_asks_the_primary_ten_times_for_one_user() -> None:
    bench = Bench(BUGS["eager-retries"], SdkConnectionError())
    for users in range(1, 6):
        assert bench.get()[1]["path"] == "fallback"
        assert bench.primary_calls() == 10 * users  # no breaker ever ends it


def test_one_way_switch_stays_on_the_fallback_for_ever() -> None:
    bench = Bench(BUGS["one-way-switch"], SdkConnectionError())
    for _ in range(3):
        bench.get()
    bench.failure = None
    for _ in range(5):
        bench.clock.advance(3600)
        assert bench.get()[1]["path"] == "fallback"
    assert bench.primary_calls() == 3


def test_empty_hands_marks_a_fallback_and_gives_nothing() -> None:
    bench = Bench(BUGS["empty-hands"], SdkConnectionError())
    assert bench.get() == (200, {"text": "", "path": "fallback"})
    assert "fallback_engaged" in bench.events()


def test_slow_counter_lets_sixty_users_down_first() -> None:
    bench = Bench(BUGS["slow-counter"], SdkConnectionError())
    assert [bench.get()[0] for _ in range(60)] == [502] * 60
    assert bench.get()[0] == 200
    bench.failure = None
    bench.clock.advance(OPEN_S)
    assert bench.get()[1]["path"] == "primary"
    assert bench.get()[1]["path"] == "primary"


def test_status_only_takes_a_503_and_not_a_reset() -> None:
    assert Bench(BUGS["status-only"], SdkStatusError()).get()[0] == 200
    assert Bench(BUGS["status-only"], SdkConnectionError()).get()[0] == 500


def test_no_client_timeout_waits_without_end_for_the_primary_alone() -> None:
    bench = Bench(BUGS["no-client-timeout"], SdkConnectionError())
    assert bench.get()[0] == 200
    assert bench.asked == [("http://primary/v1", None), ("http://fallback/v1", 2)]


@pytest.mark.parametrize("kind", [kind for name, kind in BUGS.items()])
def test_every_agent_is_healthy_while_the_primary_is(kind: type[Agent]) -> None:
    bench = Bench(kind)
    assert [bench.get()[1]["path"] for _ in range(5)] == ["primary"] * 5
    assert bench.events() == ["user_request", "model_ok", "user_request"] * 5


def test_an_unknown_switch_is_refused_with_the_list() -> None:
    with pytest.raises(Problem) as problem:
        agent_class("wrong")
    assert "wrong-except" in problem.value.wanted
    assert agent_class(None) is agent_class("") is Agent


def test_each_mistake_is_said_in_one_line() -> None:
    docs: list[Callable[..., object]] = list(BUGS.values())
    assert all(d.__doc__ and "\n" not in d.__doc__ for d in docs)
