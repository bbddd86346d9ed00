"""A loop of attempts tells each one, and what it tells adds up by the law."""

from pathlib import Path

import pytest

from drillmaster.adapters.worker.tool_attempts import WrongResult, tool_call
from drillmaster.evidence import Row, rows
from drillmaster.rules.tool_recovery import Recovery, recovery


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRILL_LOG", str(tmp_path / "timeline.jsonl"))
    return tmp_path / "timeline.jsonl"


def counted(log: Path) -> Recovery:
    return recovery(row for row in rows([log.read_bytes()], file="timeline.jsonl") if isinstance(row, Row))


class Killed(Exception):
    drill_result = "killed"


class ReadTimeout(Exception):
    pass


def run(trouble: list[Exception], *, attempts: int = 3, **more: tuple[type[BaseException], ...]) -> int:
    left = list(trouble)
    tries = 0
    for attempt in tool_call("refund", attempts=attempts, mission="m1", **more):  # type: ignore[arg-type]  # of one name
        with attempt:
            tries += 1
            if left:
                raise left.pop(0)
    return tries


def test_a_tool_that_answers_at_once_is_called_once(log: Path) -> None:
    assert run([]) == 1
    found = counted(log)
    assert (found.missions[0].outcome, found.attempts, found.contradictions) == ("ok", 1, ())


def test_a_tool_that_recovers_is_told_with_its_attempts(log: Path) -> None:
    assert run([TimeoutError(), ReadTimeout()]) == 3
    found = counted(log)
    assert (found.missions[0].outcome, found.attempts) == ("recovered", 3)
    assert found.tools["refund"].results == {"timeout": 2, "ok": 1}


def test_the_last_error_goes_up_and_the_call_has_failed(log: Path) -> None:
    with pytest.raises(ValueError, match="third"):
        run([WrongResult(), OSError(), ValueError("third")])
    found = counted(log)
    assert (found.missions[0].outcome, found.tools["refund"].results) == ("failed", {"wrong": 1, "error": 2})


def test_what_is_not_to_be_retried_goes_up_at_once(log: Path) -> None:
    with pytest.raises(Killed):
        run([Killed()], retry_on=(TimeoutError,))
    assert counted(log).missions[0].outcome == "killed"
    assert counted(log).attempts == 1


def test_a_kill_is_not_tried_again_whatever_is_to_be_retried(log: Path) -> None:
    with pytest.raises(Killed):
        run([Killed()], retry_on=(Exception,))
    assert (counted(log).missions[0].outcome, counted(log).attempts) == ("killed", 1)


def test_without_a_mission_nothing_is_told_and_the_loop_retries(log: Path) -> None:
    tries = 0
    for attempt in tool_call("refund", attempts=2):
        with attempt:
            tries += 1
            if tries == 1:
                raise TimeoutError
    assert (tries, log.exists()) == (2, False)
