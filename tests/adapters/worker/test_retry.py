"""The order of one call, told step by step, without a socket or a clock that runs."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.adapters.worker.recording import Recorder
from drillmaster.adapters.worker.retry import (
    Body,
    Ledger,
    Outcome,
    Put,
    Refused,
    Retries,
    Send,
    Wait,
    carry,
    carry_async,
    job,
    outcome_of,
)
from drillmaster.adapters.worker.retry_loops import failed, status_of
from drillmaster.guards import Decision
from drillmaster.guards.retry import REASONS, Retry
from drillmaster.rules.later import Word
from drillmaster.stores.one_process import OneProcess

LIMITS = Retry(max_calls=3, deadline_ms=60_000, base_ms=100, cap_ms=5_000, budget_tokens=10, refund=0.5)
KEPT = msgspec.structs.replace(LIMITS, hold_ms=60_000, keep_ms=3_600_000)


def told(status: int, **fields: str) -> Any:
    return status, lambda: [(name.replace("_", "-"), value) for name, value in fields.items()]


def played(
    retries: Retries,
    answers: list[Any],
    *,
    key: str = "k",
    stops: bool = False,
    body: Any = b"",
    store: OneProcess | None = None,
) -> list[Any]:
    """Carry out a call by hand, with these answers one after another: its steps, and at the end what it returned or raised."""
    store, seen = store or OneProcess(), list[Any]()
    steps = retries.call("POST", key, replayable=True)
    got: Any = None
    try:
        while True:
            step = steps.send(got)
            seen.append(step)
            if isinstance(step, Put):
                got = store.ask(step.law, step.ask.key, step.ask.question)
            elif isinstance(step, Send):
                got = answers.pop(0)
            elif isinstance(step, Body):
                got = body
            else:
                got = not stops
    except StopIteration as end:
        seen.append(end.value)
    except Refused as refused:
        seen.append(refused.decision)
    return seen


def words(steps: list[Any]) -> list[str]:
    def word(step: Any) -> str:
        if isinstance(step, Put):
            return str(getattr(step.ask.question, "what", step.law.name))
        return f"wait {step.wait_ms}" if isinstance(step, Wait) else type(step).__name__.lower()

    return [word(step) for step in steps[:-1]]


def test_a_call_that_goes_well_asks_nobody() -> None:
    retries = Retries(LIMITS, None)
    assert words(played(retries, [told(200)])) == ["send"]
    assert retries.ledger.ratio() == 0.0


def test_a_retry_is_one_question_and_waits_as_asked() -> None:
    steps = played(Retries(LIMITS, None), [told(503, retry_after="3"), told(200)])
    assert words(steps)[:3] == ["send", "retry_budget", "wait 3010"]  # the answer may end a little after its head
    assert words(steps)[3:] == ["send"] and steps[-1] is None


def test_good_calls_are_paid_back_once_they_come_to_a_token() -> None:
    retries, store = Retries(LIMITS, None), OneProcess()
    played(retries, [told(503), told(503), told(404)], store=store)
    played(retries, [told(503), told(503), told(404)], store=store)  # four are missing
    said = [words(played(retries, [told(200)], store=store)) for _ in range(8)]
    assert said == [["send"], ["send", "retry_budget"]] * 4


def test_while_the_budget_is_full_good_calls_say_so_far_less_often() -> None:
    retries, store = Retries(LIMITS, None), OneProcess()
    said = [words(played(retries, [told(200)], store=store)) for _ in range(2 + 3 * 10)]
    asked = [n for n, one in enumerate(said, 1) if one != ["send"]]
    assert asked == [2, 12, 22, 32]  # it was full, and five tokens are the half of it


def test_a_retry_of_a_silent_worker_gives_the_token_it_kept_with_the_same_question() -> None:
    retries, store = Retries(LIMITS, None), OneProcess()
    for _ in range(7):
        played(retries, [told(200)], store=store)
    steps = played(retries, [told(503), told(503), told(404)], store=store)
    assert words(steps) == ["send", "retry_budget", words(steps)[2], "send", "retry_budget", words(steps)[5], "send"]
    first, second = (one.ask.question for one in steps if isinstance(one, Put))
    assert (first.take_milli, first.give_milli, first.full_milli) == (1_000, 1_000, 10_000)
    assert (second.take_milli, second.give_milli) == (1_000, 0)


class Played:
    """One library's end of a call, in memory. An answer that is an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent = self.dropped = 0

    def send(self, left_ms: int | None) -> Any:
        self.sent += 1
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def body(self) -> bytes:
        return b""

    def drop(self) -> None:
        self.dropped += 1


class PlayedAsync:
    """The same in an event loop."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self.entered = asyncio.Event()

    async def send(self, left_ms: int | None) -> Any:
        self.entered.set()
        if not self._played.answers:
            await asyncio.Event().wait()  # for good
        return self._played.send(left_ms)

    async def body(self) -> bytes:
        return b""

    async def drop(self) -> None:
        self._played.drop()


class Awake(Retries):
    def sleep(self, wait_ms: int) -> bool:
        return True

    async def sleep_async(self, wait_ms: int) -> bool:
        return True


@given(st.lists(st.sampled_from([200, 301, 503, 429, 404, None]), min_size=4, max_size=4), st.booleans())
def test_a_call_that_is_sent_before_its_steps_are_made_takes_the_same_steps(
    statuses: list[int | None], keyed: bool
) -> None:
    key = "k" if keyed else ""
    by_hand = Retries(LIMITS, None)
    steps = played(by_hand, [None if one is None else told(one) for one in statuses], key=key)
    answers = [ValueError("lost") if one is None else told(one) for one in statuses]
    for in_a_loop in (False, True):
        retries, wire = Awake(LIMITS, OneProcess()), Played(*answers)
        found: Outcome | None
        try:
            if in_a_loop:
                found = asyncio.run(carry_async(retries, PlayedAsync(wire), "POST", key, replayable=True))
            else:
                found = carry(retries, wire, "POST", key, replayable=True)
        except ValueError as lost:
            found = lost.drillmaster  # type: ignore[attr-defined]  # for `outcome_of`
        assert (None if found is None else found.calls) == (None if steps[-1] is None else steps[-1].calls)
        assert wire.sent == sum(isinstance(one, Send) for one in steps)
        assert (retries.ledger.requests, retries.ledger.retries) == (1, by_hand.ledger.retries)
        assert retries.ledger.counts() == by_hand.ledger.counts()


def test_a_call_that_is_ended_while_it_is_out_is_counted_and_lets_its_answer_go() -> None:
    retries, wire = Retries(LIMITS, None), Played(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        carry(retries, wire, "POST", "k", replayable=True)
    assert (retries.ledger.requests, wire.dropped) == (1, 1)


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_a_call_that_is_ended_while_it_is_out_keeps_its_key_in_flight(in_a_loop: bool) -> None:
    store = OneProcess()
    retries = Retries(KEPT, store)

    async def cancelled() -> None:
        played = Played()
        wire = PlayedAsync(played)
        task = asyncio.ensure_future(carry_async(retries, wire, "POST", "k", replayable=True))
        await wire.entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert played.dropped == 1

    if in_a_loop:
        asyncio.run(cancelled())
    else:
        with pytest.raises(KeyboardInterrupt):
            carry(retries, Played(KeyboardInterrupt()), "POST", "k", replayable=True)
    second = Played(told(200))
    with pytest.raises(Refused, match="call-in-flight") as refused:  # it may have had its effect
        carry(Retries(KEPT, store), second, "POST", "k", replayable=True)
    assert second.sent == 0 and 0 < refused.value.decision.wait_ms <= 60_000


def test_a_call_that_is_ended_while_it_waits_keeps_its_key_for_the_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    store = OneProcess()
    retries, first, second = Retries(KEPT, store), Played(told(503, retry_after="5")), Played(told(200))

    def ended(wait_ms: int) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(retries, "sleep", ended)
    with pytest.raises(KeyboardInterrupt):
        carry(retries, first, "POST", "k", replayable=True)
    with pytest.raises(Refused, match="call-in-flight") as refused:
        carry(Retries(KEPT, store), second, "POST", "k", replayable=True)
    assert (first.dropped > 0, second.sent) == (True, 0) and 60_000 < refused.value.decision.wait_ms <= 65_000


def test_a_kept_key_is_told_as_it_begins_waits_and_is_let_go() -> None:
    steps = played(Retries(KEPT, None), [told(503, retry_after="1"), told(404)])
    assert words(steps) == ["begin", "send", "retry_budget", "wait", "wait 1010", "begin", "send", "leave"]
    assert steps[-1] == Outcome(decision=Decision(allowed=False, reason="status-not-retryable"), calls=2)
    assert words(played(Retries(KEPT, None), [told(200)], key="")) == ["send"]


def test_a_worker_that_takes_over_goes_on_counting() -> None:
    store = OneProcess()
    assert played(Retries(KEPT, None), [told(404)], store=store)[-1].calls == 1
    second = played(Retries(KEPT, None), [told(503), told(503)], store=store)
    assert second[-1] == Outcome(decision=Decision(allowed=False, reason="budget-exhausted"), calls=3)
    third = played(Retries(KEPT, None), [], store=store)
    assert words(third) == ["begin"] and third[-1].reason == "budget-exhausted"


def test_decisions_are_written_down_without_the_key(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    retries = Retries(KEPT, None, recorder=Recorder(log), name="refunds")
    played(retries, [told(503, retry_after="1"), told(404)], key="refund-9f3c")
    rows = [msgspec.json.decode(line) for line in log.read_bytes().splitlines() if line]
    assert [(row["event"], row["reason"], row["attempt"], row["code"]) for row in rows] == [
        ("guard_decision", "pinned-status", 1, 503),
        ("guard_decision", "status-not-retryable", 2, 404),
    ]
    assert {row["entry"] for row in rows} == {"refunds"} and b"9f3c" not in log.read_bytes()


def test_a_call_without_an_answer_is_never_sent_again() -> None:
    steps = played(Retries(LIMITS, None), [None])
    assert words(steps) == ["send"] and steps[-1].decision.reason == "status-not-retryable"


def test_a_job_is_kept_where_a_wait_is_over_the_cap_and_nowhere_else() -> None:
    retries = Retries(LIMITS, None, queue="later")
    with job("job-7"):
        steps = played(retries, [told(429, retry_after="3600")])
    assert steps[-1].kept == "job-7" and steps[-1].decision.wait_ms == 3_600_000
    put = steps[-2]
    assert put.ask.key == "later" and put.ask.question == Word(what="put", name="job-7", span_us=3_600_000_000)
    with job("job-7"):
        assert words(played(retries, [told(404)])) == ["send"]
        assert words(played(Retries(LIMITS, None), [told(429, retry_after="3600")])) == ["send"]
    assert played(retries, [told(429, retry_after="3600")])[-1].kept == ""


def test_a_body_is_read_where_the_pinned_dialect_says_so() -> None:
    wait = b'{"error":{"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"2s"}]}}'
    gemini = msgspec.structs.replace(LIMITS, dialect="gemini")
    steps = played(Retries(gemini, None), [told(429), told(200)], body=wait)
    assert words(steps) == ["send", "body", "retry_budget", "wait 2010", "send"]
    assert words(played(Retries(gemini, None), [told(500)], body=wait)) == ["send"]
    assert played(Retries(gemini, None), [told(429)], body=None)[-1].decision.reason == "retry-after-unreadable"
    assert "body" not in words(played(Retries(LIMITS, None), [told(429), told(200)], body=wait))


def test_a_worker_that_stops_lets_the_key_go() -> None:
    steps = played(Retries(KEPT, None), [told(503)], stops=True)
    assert words(steps)[-1] == "leave" and steps[-1].reason == "stopped"


@pytest.mark.parametrize(
    ("fields", "refused"),
    [({}, False), *(({"x-stainless-retry-count": one}, one not in ("", "0")) for one in ("", "0", "1", "2", "x"))],
)
def test_what_the_library_above_calls_its_retry_is_refused(fields: dict[str, str], refused: bool) -> None:
    retries = Retries(LIMITS, None)
    if refused:
        with pytest.raises(Refused, match="nested-retries"):
            retries.check_nested(fields)
    else:
        retries.check_nested(fields)
    assert retries.ledger.counts()["nested-retries"] == refused


@given(st.lists(st.sampled_from([200, 503, 429, 404, 500, None]), min_size=4, max_size=4), st.booleans())
def test_whatever_comes_the_calls_are_within_the_limits_and_each_decision_is_counted(
    statuses: list[int | None], keyed: bool
) -> None:
    retries = Retries(LIMITS, None)
    steps = played(retries, [None if one is None else told(one) for one in statuses], key="k" if keyed else "")
    sent = sum(isinstance(one, Send) for one in steps)
    assert sent <= (LIMITS.max_calls if keyed else 1)
    assert (retries.ledger.requests, retries.ledger.retries) == (1, sent - 1)
    counts = retries.ledger.counts()
    assert set(counts) == set(REASONS)
    assert counts["pinned-status"] == sent - 1
    failed_calls = sum(one is None or one >= 400 for one in statuses[:sent])
    assert sum(counts.values()) == failed_calls


def test_jitter_is_over_the_whole_of_the_wait() -> None:
    waits = []
    for _ in range(300):
        steps = played(Retries(LIMITS, None), [told(503), told(200)])
        waits.append(next(one.wait_ms for one in steps if isinstance(one, Wait)))
    assert 0 <= min(waits) < 20 and 80 < max(waits) <= 100 and len(set(waits)) > 40


def test_a_ledger_without_requests_has_no_ratio() -> None:
    assert Ledger().ratio() is None


def test_an_outcome_is_found_where_each_library_keeps_it() -> None:
    outcome = Outcome(decision=Decision(allowed=False, reason="deadline"), calls=1)

    class Answer:
        def __init__(self, **held: Any) -> None:
            self.__dict__.update(held)

    assert outcome_of(Answer(extensions={"drillmaster": outcome})) is outcome
    assert outcome_of(Answer(response=Answer(drillmaster=outcome))) is outcome
    assert outcome_of(Answer(extensions={}, drillmaster="prose")) is None
    assert outcome_of(None) is None


def test_a_loop_is_told_method_and_key_by_the_request_or_the_caller() -> None:
    class Answer:
        status_code = 503
        headers = {"retry-after": "3"}  # noqa: RUF012 - an answer
        request = type("Request", (), {"method": "PUT", "headers": {"idempotency-key": "k-9"}})()

    error = type("Failed", (Exception,), {"response": Answer()})()
    retries = Retries(LIMITS, None)
    facts = failed(retries, error, method="", key="", attempt=2, elapsed_s=1.5)
    assert (facts.method, facts.idempotency_key, facts.code, facts.asked_wait_ms) == ("PUT", "k-9", 503, 3_000)
    assert (facts.attempt, facts.elapsed_ms) == (2, 1_500)
    bare = failed(retries, ValueError("no"), method="", key="", attempt=1, elapsed_s=0.0)
    assert (bare.method, bare.code) == ("", None) and status_of(ValueError()) is None
    assert failed(retries, error, method="POST", key="mine", attempt=1, elapsed_s=0.0).method == "POST"


def test_a_worker_that_was_held_up_past_the_deadline_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now_ns = 0

        def monotonic_ns(self) -> int:
            self.now_ns += 4_000_000_000  # each look at it is as far behind the last
            return self.now_ns

        def time(self) -> float:
            return 0.0

    monkeypatch.setattr("drillmaster.adapters.worker.retry.time", Clock())
    retries = Retries(msgspec.structs.replace(LIMITS, deadline_ms=7_000), None)
    steps = played(retries, [told(503)])
    assert [type(step) for step in steps[:-1]].count(Send) == 1
    assert (steps[-1].allowed, steps[-1].reason) == (False, "deadline")
    assert retries.ledger.counts()["deadline"] == 1 and retries.ledger.retries == 0


def test_what_is_sent_again_is_told_how_long_it_may_take() -> None:
    steps = played(Retries(LIMITS, None), [told(503), told(200)])
    first, second = (step.left_ms for step in steps if isinstance(step, Send))
    assert first is None
    assert second is not None and 0 < second <= LIMITS.deadline_ms


def test_blanks_around_a_key_which_the_wire_takes_away_make_no_other_key() -> None:
    retries = Retries(LIMITS, None)
    assert {retries.key_of({"idempotency-key": key}) for key in ("k-1", "k-1 ", "\tk-1")} == {"k-1"}
