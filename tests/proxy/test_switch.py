"""One fault at a time, and none that outlives its deadline, whatever orders come in whatever order."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from drillmaster.clock import ManualClock
from drillmaster.proxy.switch import MAX_TTL_S, Conflict, Injection, Switch, arm
from drillmaster.targeting import Rule

RESET = arm([Rule(mode="reset")], seed=1)


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lifted: list[tuple[str, str | None]] = []
        self.switch = Switch(self.clock, lambda one: self.lifted.append((one.window, one.why)))

    def inject(self, window: str = "w1", ttl_s: float | None = 8) -> Injection:
        injection = self.switch.prepare(window, RESET, ttl_s, 0)
        self.switch.inject(injection)
        return injection


@pytest.mark.parametrize("ttl_s", [0, -1, math.nan, math.inf, MAX_TTL_S + 1])
def test_a_time_that_is_no_bound_is_refused_and_nothing_is_on(ttl_s: float) -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="ttl_s"):
        bench.inject(ttl_s=ttl_s)
    assert bench.switch.current is None
    bench.inject()
    with pytest.raises(ValueError, match="ttl_s"):
        bench.switch.renew("w1", ttl_s)


def test_a_second_fault_and_a_second_use_of_a_window_are_conflicts() -> None:
    bench = Bench()
    bench.inject("w1")
    with pytest.raises(Conflict):
        bench.inject("w2")
    bench.switch.lift("ordered")
    with pytest.raises(Conflict):
        bench.inject("w1")
    bench.inject("w2")


def test_it_is_off_at_the_deadline_and_not_before() -> None:
    bench = Bench()
    bench.inject(ttl_s=8)
    bench.clock.advance(7.999)
    assert bench.switch.expire() is None
    bench.clock.advance(0.001)
    assert bench.switch.expire() is not None
    assert bench.lifted == [("w1", "expired")]


def test_a_step_of_the_wall_clock_moves_no_deadline() -> None:
    bench = Bench()
    bench.inject(ttl_s=8)
    bench.clock.step_wall(3_600)
    assert bench.switch.expire() is None
    bench.clock.step_wall(-7_200)
    bench.clock.advance(8)
    assert bench.switch.expire() is not None


def test_a_monotonic_clock_that_went_back_has_passed_every_deadline() -> None:
    bench = Bench()
    bench.clock.advance(3_600)
    bench.inject(ttl_s=8)
    bench.clock.advance(-1)
    assert bench.switch.renew("w1", 8) is None
    assert bench.lifted == [("w1", "expired")]
    bench.inject("w2", ttl_s=8)  # time goes on from where it is
    bench.clock.advance(1)
    assert bench.switch.expire() is None


def test_a_clock_that_stands_still_holds_no_fault_on() -> None:
    bench = Bench()
    bench.inject(ttl_s=8)
    for _ in range(33):
        bench.switch.pass_time(0.25)
    assert bench.switch.current is not None
    bench.switch.renew("w1", 8)
    for _ in range(33):
        assert bench.switch.pass_time(0.25) is None
    assert bench.switch.pass_time(0.25) is not None
    assert bench.lifted == [("w1", "expired")]


def test_counted_time_does_not_end_what_is_dead_from_the_start() -> None:
    bench = Bench()
    bench.inject("dead", None)
    assert bench.switch.pass_time(1e9) is None


def test_a_renewal_after_the_deadline_comes_too_late() -> None:
    bench = Bench()
    bench.inject(ttl_s=8)
    bench.clock.advance(8)
    assert bench.switch.renew("w1", 8) is None
    assert bench.switch.current is None
    assert bench.lifted == [("w1", "expired")]


def test_renewing_another_window_moves_nothing() -> None:
    bench = Bench()
    injection = bench.inject("w1", 8)
    before = injection.deadline_ns
    assert bench.switch.renew("w2", 100) is None
    assert injection.deadline_ns == before


def test_dead_from_the_start_has_no_deadline_and_cannot_be_renewed() -> None:
    bench = Bench()
    bench.inject("dead", None)
    bench.clock.advance(1e6)
    assert bench.switch.expire() is None
    assert bench.switch.renew("dead", 8) is None


def test_cells_are_kept_by_key_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drillmaster.proxy.switch.MAX_CELLS", 3)
    injection = Bench().inject()
    injection.armed[0].cell("a")["n"] = 1
    assert injection.armed[0].cell("a") == {"n": 1}
    for key in "bcd":
        injection.armed[0].cell(key)
    assert injection.armed[0].cell("a") == {}


@given(
    orders=st.lists(
        st.one_of(
            st.tuples(st.just("inject"), st.integers(0, 5), st.floats(0.01, 30)),
            st.tuples(st.just("renew"), st.integers(0, 5), st.floats(0.01, 30)),
            st.tuples(st.just("lift"), st.integers(0, 5), st.just(0.0)),
            st.tuples(st.just("wait"), st.just(0), st.floats(0, 40)),
        ),
        max_size=40,
    )
)
def test_no_sequence_of_orders_leaves_a_fault_in_place(orders: list[tuple[str, int, float]]) -> None:
    bench = Bench()
    switch = bench.switch
    injected = set()
    for order, number, seconds in orders:
        window = f"w{number}"
        if order == "inject":
            try:
                bench.inject(window, seconds)
                injected.add(window)
            except Conflict:
                pass
        elif order == "renew":
            switch.renew(window, seconds)
        elif order == "lift" and switch.current is not None and switch.current.window == window:
            switch.lift("ordered")
        elif order == "wait":
            bench.clock.advance(seconds)
            switch.expire()
        if switch.current is not None:
            assert switch.current.deadline_ns is not None
            assert switch.current.deadline_ns - bench.clock.mono_ns() <= 30e9
    # Nobody renews any more.
    bench.clock.advance(30.001)
    switch.expire()
    assert switch.current is None
    assert sorted(window for window, _ in bench.lifted) == sorted(injected)


class Orders(RuleBasedStateMachine):
    """The same law, against a model: the proxy's state is what the orders and the clock say, at every step."""

    @initialize()
    def begin(self) -> None:
        self.bench = Bench()
        self.now = 0.0
        self.on: tuple[str, float] | None = None
        self.count = 0

    def _tick(self) -> None:
        if self.on is not None and self.now >= self.on[1]:
            self.on = None

    @rule(ttl=st.integers(1, 20))
    def inject(self, ttl: int) -> None:
        self._tick()
        self.count += 1
        if self.on is None:
            self.bench.inject(f"w{self.count}", ttl)
            self.on = (f"w{self.count}", self.now + ttl)
        else:
            with pytest.raises(Conflict):
                self.bench.inject(f"w{self.count}", ttl)

    @rule(ttl=st.integers(1, 20))
    def renew(self, ttl: int) -> None:
        self._tick()
        renewed = self.bench.switch.renew(f"w{self.count}", ttl)
        if self.on is not None and self.on[0] == f"w{self.count}":
            assert renewed is not None
            self.on = (self.on[0], self.now + ttl)
        else:
            assert renewed is None

    @rule()
    def lift(self) -> None:
        self.bench.switch.lift("ordered")
        self.on = None

    @rule(seconds=st.integers(0, 25))
    def wait(self, seconds: int) -> None:
        self.bench.clock.advance(seconds)
        self.now += seconds

    @invariant()
    def agrees(self) -> None:
        self._tick()
        self.bench.switch.expire()
        current = self.bench.switch.current
        assert (current.window if current is not None else None) == (self.on[0] if self.on is not None else None)


TestOrders = Orders.TestCase
