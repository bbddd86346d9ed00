"""What an accounting of retries points at, and what it leaves alone."""

import pytest

from drillmaster.verdict import Finding
from tests.retries.test_accounting import ALONE, GOOD, PATIENT, UNREAD, attempt, scene
from tests.scene import PRIMARY, Answer, S, Scene, judged

OURS = {
    "retry-storm", "nested-retries", "retried-too-early", "slept-too-long", "no-backoff", "retries-for-nobody",
    "storm-on-return", "retries-outlive-the-fault", "billed-again",
}  # fmt: skip


def found(paper: Scene) -> dict[str, Finding]:
    return {key: one for key, one in judged(paper)[2].items() if key in OURS}


def test_a_healthy_agent_and_an_sdk_that_backs_off_are_left_alone() -> None:
    assert found(Scene()) == {}
    paper = scene(PATIENT)
    for n in range(20, 79):
        for at_s, count in ((0.0, 0), (0.5, 1), (1.5, 2)):
            attempt(paper, n, at_s, retry_count=count)
    assert found(paper) == {}


def test_an_agent_of_many_steps_is_no_storm() -> None:
    steps = Answer(20, attempts=6)
    paper = Scene(lambda n, s, on: PATIENT if on else steps)
    for n in range(20, 79):
        for at_s in range(5):
            attempt(paper, n, at_s / 10, **GOOD)
    assert found(paper) == {}


def test_a_loop_around_an_sdk_is_named_with_its_product() -> None:
    paper = scene(PATIENT)
    for n in range(20, 79):
        for call in range(2):
            for count in range(3):
                attempt(paper, n, call * 1.5 + count * 0.5, retry_count=count)
    said = found(paper)
    assert set(said) == {"retry-storm", "nested-retries"}
    assert "3 attempts a call" in said["nested-retries"].cause
    assert "6 attempts (59 requests" in said["nested-retries"].cause
    assert "348 attempts for 60 user requests in the fault, 5.8 each (baseline 1.0)" in said["retry-storm"].cause
    assert said["nested-retries"].cites


def test_a_retry_that_comes_too_early_is_named_with_its_lines() -> None:
    paper = scene(PATIENT)
    for n in range(20, 30):
        attempt(paper, n, 0, status=429, asked_s=3.0, asked_by="seconds")
        attempt(paper, n, 0.5 if n == 25 else 3.1, retry_count=1)
    said = found(paper)
    assert set(said) == {"retried-too-early"}
    assert "1 of 10" in said["retried-too-early"].cause
    assert "2.5 s" in said["retried-too-early"].cause
    assert len(said["retried-too-early"].cites) == 2


def test_sleeping_past_the_user_s_time_is_named() -> None:
    paper = scene(Answer(5_000, result="timeout", status=None, answer=None, attempts=0))
    for n in range(20, 30):
        attempt(paper, n, 0, status=429, asked_s=3600.0, asked_by="seconds")
    assert "10 users gave up while the client slept" in found(paper)["slept-too-long"].cause


def test_retries_without_a_pause_are_named_with_their_layer() -> None:
    paper = scene(PATIENT)
    for n in range(20, 30):
        attempt(paper, n, 0)
        attempt(paper, n, 0.005)
    said = found(paper)
    assert set(said) == {"no-backoff"}
    assert "10 of 10 retries" in said["no-backoff"].cause
    assert "above the SDK" in said["no-backoff"].cause


def test_a_fallback_at_the_same_address_behind_a_reset_is_no_retry_without_a_pause() -> None:
    for later in (UNREAD, {**UNREAD, "model": "small"}):
        paper = scene(PATIENT)
        for n in range(20, 30):
            attempt(paper, n, 0, **UNREAD)
            attempt(paper, n, 0.005, **later)
        assert found(paper) == {}


def test_a_loop_without_a_pause_is_named_where_a_reset_struck_before_anybody_read_a_model() -> None:
    paper = scene(PATIENT)
    for n in range(20, 30):
        for at_s in (0, 0.005, 0.01, 0.015):
            attempt(paper, n, at_s, **UNREAD)
    said = found(paper)
    assert set(said) == {"no-backoff"}
    assert "30 of 30" in said["no-backoff"].cause
    assert "by a client whose bodies the fault left unread" in said["no-backoff"].cause


def test_a_hedge_that_was_dropped_is_no_retry_without_a_pause() -> None:
    paper = scene(PATIENT)
    for n in range(20, 30):
        attempt(paper, n, 0, 1.0, status=None, end="client_gone", window=None)
        attempt(paper, n, 0.3, 0.7, **GOOD)
        attempt(paper, n, 1.001, **GOOD)
    assert found(paper) == {}


def test_a_few_that_came_at_once_are_no_habit() -> None:
    paper = scene(PATIENT)
    for n in range(20, 30):
        attempt(paper, n, 0)
        attempt(paper, n, 0.005 if n < 24 else 0.5)
    assert found(paper) == {}


def test_work_for_users_who_are_gone_is_named() -> None:
    paper = scene(ALONE)
    for n in range(20, 30):
        attempt(paper, n, 0)
        attempt(paper, n, 3, retry_count=1)
    assert set(found(paper)) == {"retries-for-nobody"}


def test_a_herd_at_the_return_is_named_and_a_queue_of_three_is_not() -> None:
    paper = scene(PATIENT)
    for n in range(60, 79):
        attempt(paper, n, 0)
        attempt(
            paper, n, (80 - n) - 1 + 1.5, retry_count=1, **GOOD
        )  # all at 81.5 s, a second and a half behind the lift
    said = found(paper)
    assert "2.9 times the baseline's load for 10 s" in said["storm-on-return"].cause
    assert "20 in one second" in said["storm-on-return"].cause
    few = scene(PATIENT)
    for n in range(76, 79):
        attempt(few, n, 0)
        attempt(few, n, (80 - n) - 1 + 1.5, retry_count=1, **GOOD)
    assert "storm-on-return" not in found(few)
    seldom = scene(PATIENT, every_s=5.0)
    for k in range(5):  # nine attempts for four users are more than twice the usual, and say nothing yet
        attempt(seldom, 79, 1.5 + k / 10, trace=f"{15:032x}", retry_count=1, **GOOD)
    assert "storm-on-return" not in found(seldom)


def test_retries_long_after_the_lift_are_named() -> None:
    paper = scene(PATIENT)
    for n in range(70, 79):
        attempt(paper, n, 0)
        attempt(paper, n, 22.0, retry_count=1, **GOOD)  # over ten seconds behind the lift at 80 s
    assert "9 retries began more than 10 s after the lift" in found(paper)["retries-outlive-the-fault"].cause


@pytest.mark.parametrize(("tokens", "wanted"), [(100, {"billed-again"}), (5, set())])
def test_tokens_that_are_paid_twice_are_named_from_a_tenth_on(tokens: int, wanted: set[str]) -> None:
    paper = scene(PATIENT)
    for n in range(20, 30):
        attempt(paper, n, 0, tokens=100, **{**GOOD, "window": "w1", "end": "cut", "terminal": False, "intact": False})
        attempt(paper, n, 1, retry_count=1, tokens=tokens, **{**GOOD, "window": "w1"})
    assert set(found(paper)) == wanted


@pytest.mark.parametrize(("good", "wanted"), [(0, {"billed-again"}), (20, {"billed-again"}), (90, set())])
def test_tokens_that_are_told_and_estimated_are_weighed_by_calls(good: int, wanted: set[str]) -> None:
    """A broken stream's bytes are mostly wrapping: its estimate would hide what the answers behind it say they cost."""
    broken = {**GOOD, "window": "w1", "end": "cut", "terminal": False, "intact": False}
    paper = scene(PATIENT)
    for n in range(20, 25):
        attempt(paper, n, 0, tokens_estimated=500, **broken)
        attempt(paper, n, 1, retry_count=1, tokens=20, **{**GOOD, "window": "w1"})
    for k in range(good):
        attempt(paper, 30 + k // 2, k % 2 / 2, tokens=20, **GOOD)
    said = found(paper)
    assert set(said) == wanted
    if not good:
        assert "5 of 10 attempts that cost tokens" in said["billed-again"].cause
        assert "100 tokens by their usage" in said["billed-again"].cause


def test_of_two_windows_each_is_looked_at() -> None:
    paper = Scene(lambda n, s, on: PATIENT if on else PRIMARY)
    again_ns = paper.lift_ns + 10 * S
    paper.add("events/proxy.jsonl", again_ns, "fault_injected", window="w2", fault="503", params={})
    paper.add("events/proxy.jsonl", again_ns + 5 * S, "fault_lifted", window="w2", why="ordered")
    for n in (89, 90, 91, 92):
        for k in range(8):
            attempt(paper, n, k * 0.01, window="w2")
    assert {"retry-storm", "no-backoff"} <= set(found(paper))
