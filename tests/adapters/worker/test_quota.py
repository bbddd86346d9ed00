"""A spender: what is not granted is not called, and nobody waits longer than the bound."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.guarding import Guarding
from drillmaster.adapters.worker.quota import QuotaDenied, Spender, limited
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.stores import Unavailable

FILE = """
kind: guards
version: 1
source: contract-2026-07
owner: payments
reviewers: [a@example.com]
review_by: "2199-01-01"
guards:
  - guard: quota
    name: ledger
    partner: ledger
    identity: prod
    window_ms: 60000
    max_per_window: 30
    burst: 5
    also:
      - {name: tokens, counts: tokens, window_ms: 60000, max_per_window: 1000, burst: 1000}
      - {name: again, counts: retries, window_ms: 60000, max_per_window: 2, burst: 1}
"""


class OneStore:
    """The law itself, on a clock that moves when it is told; `down` is a server that is not there."""

    place = "one"

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.states, self.down = clock, {}, False  # type: ignore[var-annotated]  # of any law

    def ask(self, law: Any, key: str, question: Any) -> Any:
        if self.down:
            raise Unavailable("one", found="nothing", wanted="an answer", remedy="start it")
        then = law.step(self.states.get(key), question, self.clock.wall_ns() // 1_000)
        self.states[key] = then.state
        return then.told

    def prepare(self) -> None: ...

    def close(self) -> None: ...


class AsyncOneStore:
    place = "one"

    def __init__(self, one: OneStore) -> None:
        self.one = one

    async def ask(self, law: Any, key: str, question: Any) -> Any:
        return self.one.ask(law, key, question)

    async def close(self) -> None: ...


class Scene:
    def __init__(self, tmp_path: Path, **options: Any) -> None:
        self.clock = ManualClock()
        self.store = OneStore(self.clock)
        self.slept: list[float] = []
        path = tmp_path / "guards.yaml"
        path.write_text(FILE)
        self.guarding = Guarding(path, store=self.store, async_store=AsyncOneStore(self.store), clock=self.clock)
        self.spender = Spender(
            self.guarding, "ledger", clock=self.clock, sleep=self.sleep, sleep_async=self.sleep_async, **options
        )

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


def spent(scene: Scene, n: int = 5) -> None:
    for _ in range(n):
        scene.spender.take(tokens=1)


def test_a_denial_says_why_and_for_how_long_and_nobody_waits_unasked(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    spent(scene)
    with pytest.raises(QuotaDenied) as denied:
        scene.spender.take(tokens=1)
    assert (denied.value.decision.reason, denied.value.retry_after_s, denied.value.left) == ("over-burst", 2.0, 25)
    assert "ask again after 2000 ms" in str(denied.value) and scene.slept == []


def test_it_waits_as_long_as_was_told_within_the_bound(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_wait_s=2)
    spent(scene)
    assert scene.spender.take(tokens=1).allowed and scene.slept == [2.0]
    short = Scene(tmp_path, max_wait_s=1.999)
    spent(short)
    with pytest.raises(QuotaDenied, match="over-burst"):
        short.spender.take(tokens=1)
    assert short.slept == []


def test_the_bound_is_over_all_waits_of_a_call(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_wait_s=3)
    spent(scene)

    def another_comes_first(seconds: float) -> None:
        scene.sleep(seconds)
        Spender(scene.guarding, "ledger", clock=scene.clock).take(tokens=1)

    slow = Spender(scene.guarding, "ledger", max_wait_s=3, clock=scene.clock, sleep=another_comes_first)
    with pytest.raises(QuotaDenied, match="over-burst"):
        slow.take(tokens=1)
    assert scene.slept == [2.0]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"tokens": 1_001}, "never"),
        ({}, "tokens-unknown"),
        ({"tokens": 0}, "facts-unusable"),
        ({"requests": 6, "tokens": 1}, "never"),
    ],
)
def test_what_no_wait_helps_is_raised_at_once(tmp_path: Path, asked: dict[str, Any], reason: str) -> None:
    scene = Scene(tmp_path, max_wait_s=3_600)
    with pytest.raises(QuotaDenied, match=reason):
        scene.spender.take(**asked)
    assert scene.slept == []


def test_a_store_that_is_down_denies_and_is_not_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_wait_s=3_600)
    scene.store.down = True
    with pytest.raises(QuotaDenied, match="store-unavailable"):
        scene.spender.take(tokens=1)
    with pytest.raises(QuotaDenied, match="store-unavailable"):
        asyncio.run(scene.spender.take_async(tokens=1))


def test_retries_have_a_budget_of_their_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert scene.spender.take(tokens=1, retry=True).allowed
    with pytest.raises(QuotaDenied, match="of again"):
        scene.spender.take(tokens=1, retry=True)
    assert scene.spender.take(tokens=1).allowed


def test_a_function_is_called_when_it_is_granted_and_else_not(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    called: list[str] = []

    @limited(scene.spender, tokens=len)
    def plain(prompt: str) -> str:
        called.append(prompt)
        return prompt.upper()

    @limited(scene.spender, tokens=7)
    async def in_a_loop(prompt: str) -> str:
        called.append(prompt)
        return prompt.upper()

    assert plain("abc") == "ABC" and asyncio.run(in_a_loop("abc")) == "ABC"
    spent(scene, 3)
    for call in (lambda: plain("abc"), lambda: asyncio.run(in_a_loop("abc"))):
        with pytest.raises(QuotaDenied):
            call()
    assert called == ["abc", "abc"] and plain.__name__ == "plain"


def test_a_generator_cannot_be_limited_where_it_would_be_granted_before_it_begins(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with pytest.raises(TypeError, match="generator"):

        @limited(scene.spender)
        def pages() -> Any:
            yield 1


def test_a_quota_that_the_file_does_not_have_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with pytest.raises(Problem, match="no quota called legder"):
        Spender(scene.guarding, "legder")
    with pytest.raises(ValueError, match="max_wait_s"):
        Spender(scene.guarding, "ledger", max_wait_s=float("nan"))


def test_limits_that_were_lowered_and_loaded_again_hold_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    spent(scene, 3)
    (tmp_path / "guards.yaml").write_text(
        FILE.replace("max_per_window: 30", "max_per_window: 3").replace("burst: 5", "burst: 3")
    )
    scene.guarding.reload()
    with pytest.raises(QuotaDenied, match="over-cap"):
        scene.spender.take(tokens=1)
