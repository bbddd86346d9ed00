"""What is said of an agent that is not ready for a drill."""

import pytest

from drillmaster.errors import Refused
from drillmaster.plan import Plan
from drillmaster.run.reach import endpoint_answers, no_answer
from drillmaster.run.traffic import Answer
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
