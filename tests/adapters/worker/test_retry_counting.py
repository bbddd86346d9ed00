"""What a worker counts: no good call is lost between threads, and nothing is given back twice."""

import os
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.adapters.worker.retry import Retries, carry
from drillmaster.adapters.worker.retry_counting import Earned, Ledger
from drillmaster.guards.retry import Retry
from drillmaster.rules import AnyLaw
from drillmaster.stores import Unavailable
from drillmaster.stores.one_process import OneProcess

LIMITS = Retry(max_calls=2, deadline_ms=60_000, base_ms=1, cap_ms=1, budget_tokens=10, refund=0.1)


def limits(**changed: Any) -> Retry:
    return msgspec.structs.replace(LIMITS, **changed)


class Watched(OneProcess):
    """A store that says what it was asked, and may lose its answer before or behind the step."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []
        self.loses = ""

    def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        self.asked.append(question)
        if self.loses == "before":
            raise Unavailable("the store", found="it is gone", wanted="an answer", remedy="start it")
        told = super().ask(law, key, question)
        if self.loses == "behind":
            raise Unavailable("the store", found="it is gone", wanted="an answer", remedy="start it")
        return told

    @property
    def given(self) -> int:
        return sum(one.give_milli for one in self.asked)


class Wire:
    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)

    def send(self, left_ms: int | None) -> tuple[int, Any]:
        return self.statuses.pop(0), tuple

    def body(self) -> bytes:
        return b""

    def drop(self) -> None: ...


class Awake(Retries):
    def sleep(self, wait_ms: int) -> bool:
        return True


def goes(retries: Retries, *statuses: int) -> bool:
    """Make one call; say whether it was sent again."""
    before = retries.ledger.retries
    carry(retries, Wire(*statuses), "GET", "", replayable=True)
    return retries.ledger.retries > before


def drained(store: OneProcess, guard: Retry) -> None:
    retries = Awake(guard, store)
    while goes(retries, 503, 503):
        pass


@pytest.mark.parametrize(("tokens", "refund", "calls"), [(1, 1.0, 1), (1, 0.1, 10), (1, 0.3, 4), (1, 0.001, 1_000)])
def test_a_budget_of_one_token_is_never_silent(tokens: int, refund: float, calls: int) -> None:
    store, guard = Watched(), limits(budget_tokens=tokens, refund=refund)
    retries = Awake(guard, store)
    for _ in range(3 * calls):
        goes(retries, 200)
    assert len(store.asked) == 3  # full each time, and told of each token nonetheless


@pytest.mark.parametrize(
    ("tokens", "refund", "calls"),
    [(2, 0.1, 10), (20, 0.1, 100), (40, 0.1, 200), (1_000_000, 0.1, 200), (20, 1.0, 10), (20, 0.5, 20)],
)
def test_a_full_budget_is_asked_again_when_half_of_it_was_earned_and_at_most_twenty_tokens(
    tokens: int, refund: float, calls: int
) -> None:
    store = Watched()
    retries = Awake(limits(budget_tokens=tokens, refund=refund), store)
    for _ in range(round(1 / refund)):  # a token is there, and the bucket was full
        goes(retries, 200)
    assert len(store.asked) == 1
    for _ in range(calls - 1):
        goes(retries, 200)
    assert len(store.asked) == 1
    goes(retries, 200)
    assert len(store.asked) == 2 and store.asked[1].give_milli == 1_000  # the rest would have run over


def test_without_a_refund_nothing_is_ever_given_back() -> None:
    store = Watched()
    retries = Awake(limits(refund=0.0), store)
    for _ in range(3_000):
        goes(retries, 200)
    retries.repay()
    goes(retries, 503, 200)
    retries.repay()
    assert store.given == 0 and len(store.asked) == 1


def test_a_drained_budget_comes_back_a_token_at_a_time() -> None:
    store = Watched()
    drained(store, LIMITS)
    retries = Awake(LIMITS, store)
    assert not goes(retries, 503, 503)
    for _ in range(3):
        for _ in range(10):
            goes(retries, 200)
        assert goes(retries, 503, 503) and not goes(retries, 503, 503)


def test_what_others_took_meanwhile_is_given_back_a_token_at_a_time_again() -> None:
    store = Watched()
    silent = Awake(LIMITS, store)
    for _ in range(10):
        goes(silent, 200)
    drained(store, LIMITS)
    store.asked.clear()
    for _ in range(50):
        goes(silent, 200)
    assert store.given == 1_000
    for _ in range(30):
        goes(silent, 200)
    assert store.given == 4_000


@pytest.mark.parametrize("tokens", [1, 3, 10, 20, 40])
def test_a_worker_that_has_all_failures_is_not_starved_by_silent_ones(tokens: int) -> None:
    store, guard = Watched(), limits(budget_tokens=tokens)
    good, failing = [Awake(guard, store) for _ in range(3)], Awake(guard, store)
    again = 0
    for _ in range(100):
        for one in good:
            for _ in range(10):
                goes(one, 200)
            again += goes(failing, 503, 200)  # as often as good calls pay for it
    assert again >= 300 * 2 / 3


def test_repay_gives_what_is_less_than_a_token() -> None:
    store = Watched()
    drained(store, limits(budget_tokens=1))
    retries = Awake(limits(budget_tokens=1), store)
    for _ in range(7):
        goes(retries, 200)
    retries.repay()
    retries.repay()
    assert store.given == 700


@pytest.mark.parametrize("loses", ["before", "behind"])
def test_a_giving_whose_answer_is_lost_is_not_said_again(loses: str) -> None:
    store = Watched()
    drained(store, LIMITS)
    retries = Awake(LIMITS, store)
    store.loses = loses
    for _ in range(10):
        goes(retries, 200)
    store.loses = ""
    for _ in range(9):
        goes(retries, 200)
    assert store.given == 1_000
    goes(retries, 200)
    assert store.given == 2_000


@pytest.mark.parametrize("loses", ["before", "behind"])
def test_a_store_that_dies_on_giving_and_taking_denies_and_nothing_is_said_again(loses: str) -> None:
    store = Watched()
    retries = Awake(LIMITS, store)
    for _ in range(40):  # silent, with three tokens' calls
        goes(retries, 200)
    store.loses = loses
    store.asked.clear()
    assert not goes(retries, 503, 503)
    assert [(one.take_milli, one.give_milli) for one in store.asked] == [(1_000, 1_000)]
    store.loses = ""
    assert goes(retries, 503, 503)
    assert store.given == 1_000 and retries.ledger.counts()["store-unavailable"] == 1


def test_threads_lose_no_call_and_give_nothing_back_twice() -> None:
    store, ledger = Watched(), Ledger()
    drained(store, limits(budget_tokens=500))
    store.asked.clear()
    retries = Awake(limits(budget_tokens=500), store, ledger=ledger)
    seen: list[int] = []

    def work() -> None:
        for n in range(400):
            goes_by_itself = Wire(200) if n % 10 else Wire(503, 200)
            carry(retries, goes_by_itself, "GET", "", replayable=True)
            if n % 50 == 0:
                seen.append(ledger.requests)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    retries.repay()
    good = 8 * 400 - ledger.counts()["retry-budget"]
    assert ledger.requests == 3_200 and max(seen) <= 3_200
    assert 0 < store.given <= good * 100
    assert ledger.retries * 1_000 <= store.given


def test_a_forked_child_gives_back_nothing_that_its_parent_counted() -> None:
    store = Watched()
    drained(store, LIMITS)
    retries = Awake(LIMITS, store)
    for _ in range(9):
        goes(retries, 200)
    store.asked.clear()
    child = os.fork()
    if child == 0:
        goes(retries, 200)
        retries.repay()
        os._exit(store.given // 100)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1  # its own call alone
    retries.repay()
    assert store.given == 900


def test_a_count_that_is_looked_at_is_not_changed_by_it() -> None:
    earned, ledger = Earned(LIMITS), Ledger()
    for _ in range(9):
        next(earned.numbers)
        assert earned.take() == 0
        next(ledger.numbers)
        assert ledger.requests == ledger.requests
    assert next(earned.numbers) >= earned.due
    assert earned.take() == 10 and ledger.requests == 9


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["good", "bad", "lost"])), max_size=200),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]),
)
def test_retries_in_a_row_are_at_most_the_budget_and_what_each_worker_holds(
    moves: list[tuple[int, str]], tokens: int, refund: float
) -> None:
    store, guard = Watched(), limits(budget_tokens=tokens, refund=refund)
    workers = [Awake(guard, store) for _ in range(3)]
    in_a_row = made = good = 0
    for who, what in moves * 3:
        if what == "good":
            in_a_row, good = 0, good + 1
            goes(workers[who], 200)
            continue
        store.loses = "behind" if what == "lost" else ""
        again = goes(workers[who], 503, 503)
        store.loses = ""
        in_a_row, made = in_a_row + again, made + again
        assert in_a_row <= tokens + 3 * (1 + refund)
    assert made * 1_000 <= tokens * 1_000 + good * round(refund * 1_000)
