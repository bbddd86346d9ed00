"""What is said of an agent that is not ready for a drill."""

import asyncio

import pytest

from drillmaster.clock import ManualClock
from drillmaster.errors import Refused
from drillmaster.plan import Plan
from drillmaster.run.reach import endpoint_answers, no_answer, reach_agent
from drillmaster.run.traffic import Answer, Prepared, judge_answer
from tests.test_sanity import plan

ALIVE = Answer(result="refused", status=None, answer=None, why="connection refused", sent_ns=0, first_ns=None, end_ns=1)


def told(this: Plan, *said: str, alive: bool = True) -> Refused:
    return no_answer(this, ALIVE, {}, {}, proxy_url="http://127.0.0.1:8081", alive=alive, said=said)


def test_a_worker_that_ended_is_refused_with_its_last_words() -> None:
    started = plan(worker={"cmd": ["python3", "agent.py"]})
    refused = told(started, "Traceback (most recent call last):", "ModuleNotFoundError: flask", alive=False)
    assert refused.found == "a worker that ended before it answered; the last it printed: ModuleNotFoundError: flask"
    assert "without a word" in told(started, alive=False).found


def test_a_worker_that_listens_elsewhere_is_not_told_to_be_started() -> None:
    refused = told(plan(worker={"cmd": ["python3", "agent.py"]}), "listening on 5000")
    assert "listening on 5000" in refused.found and "port 8000" in refused.remedy
    assert "--cmd" in told(plan()).remedy


@pytest.mark.parametrize(
    ("pointer", "body", "found", "remedy"),
    [
        ("/anser", b'{"answer": "x", "id": 3}', "there is /answer, /id", "in the plan as /answer"),
        ("/a/txt", b'{"a": {"text": "x"}}', "there is /a/text", "in the plan as /a/text"),
        ("/q", b'{"answer": "x"}', "there is /answer", "correct /target/expect/pointer"),
        ("/choices/0", b'{"choices": []}', "/choices is a list of 0", "correct /target/expect/pointer"),
        ("/answer", b"{}", "the body is an empty object", "correct /target/expect/pointer"),
        ("/answer", b'"yes"', "the body is str", "correct /target/expect/pointer"),
        ("/answer", b'{"sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa": 1}', "there is /", "correct /target/expect/pointer"),
    ],
)
def test_a_pointer_that_leads_nowhere_is_told_with_what_is_there_and_where_to_mend_it(
    pointer: str, body: bytes, found: str, remedy: str
) -> None:
    this = plan(target={"url": "http://127.0.0.1:8000/", "expect": {"pointer": pointer}})
    answer, why = judge_answer(this.target.expect, 200, body)
    met = Answer(result="answered", status=200, answer=answer, why=why, sent_ns=0, first_ns=1, end_ns=2)
    refused = no_answer(this, met, {}, {}, proxy_url="http://127.0.0.1:8081", alive=True, said=())
    assert f"nothing at {pointer}; {found}" in refused.found
    assert remedy in refused.remedy
    assert "aaaaaaaa" not in str(refused)


@pytest.mark.parametrize(
    ("bodies", "took_s"),
    [
        ([b'{"answer": "x"}'], 3),  # nothing but that: no use in waiting
        ([b'{"starting": 1}', b'{"starting": 1}', b"", b'{"answer": "x"}'], 6),  # a start in between
    ],
)
def test_an_agent_that_serves_what_the_plan_does_not_point_at_is_not_waited_for(
    bodies: list[bytes], took_s: float
) -> None:
    this = plan(target={"url": "http://127.0.0.1:8000/", "expect": {"pointer": "/anser"}})
    clock = ManualClock()
    began_ns = clock.mono_ns()

    class Asks:
        def __init__(self) -> None:
            self.left = list(bodies)

        async def ask(self, request: Prepared, *, due_ns: int, time_limit_s: float) -> Answer:
            body = self.left.pop(0) if len(self.left) > 1 else self.left[0]
            answer, why = judge_answer(this.target.expect, 200, body) if body else (None, "")
            sent_ns = clock.mono_ns()
            clock.advance(1)
            return Answer(
                result="answered",
                status=200,
                answer=answer,
                why=why,
                sent_ns=sent_ns,
                first_ns=1,
                end_ns=clock.mono_ns(),
            )

    async def counts() -> dict[str, int]:
        return {}

    async def nothing() -> tuple[str, ...]:
        return ()

    asked = reach_agent(
        this, Asks(), target=this.target, clock=clock, proxy_url="http://127.0.0.1:8081", proxy_counts=counts,
        wait_s=30, alive=lambda: True, attempts=lambda: (), worker_said=nothing,
    )  # fmt: skip
    with pytest.raises(Refused, match="/target/expect/pointer in the plan as /answer"):
        asyncio.run(asked)
    assert took_s <= (clock.mono_ns() - began_ns) / 1e9 <= took_s + 2


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/v1/chat/completions", "give it MODEL_BASE_URL"),
        ("/chat/completions", "give it OPENAI_BASE_URL"),
        ("/v1/chat/completions", "key, model or path"),
    ],
)
def test_a_v1_too_many_or_too_few_is_named(path: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        endpoint_answers([{"method": "POST", "path": path, "status": 404}])
    assert said in refused.value.remedy and f"POST {path}" in refused.value.found
