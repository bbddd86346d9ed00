"""What is on and what is killed, under a clock that is told what time it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.flags.board import Board, Conflict
from drillmaster.friday.flags import Registry, Switched, last_instant_ns, load_registry

REGISTRY = b"""
kind: flags
version: 1
service: concierge
flags:
  - {name: slow, owner: o, purpose: p, deadline: 2027-01-31, auto_off_s: 100, kind: latency, params: {delay_s: 1}}
  - {name: broken, owner: o, purpose: p, deadline: 2026-01-05, auto_off_s: 1000, kind: error}
  - {name: refund, owner: o, purpose: p, kind: kill}
"""


def registry() -> Registry:
    return load_registry(REGISTRY, place="flags.yaml")


class Told:
    """A board that remembers what it told."""

    def __init__(self) -> None:
        self.clock = ManualClock(mono_ns=5_000_000_000)
        self.board = Board(registry(), self.clock, mark="m")
        self.lines: list[str] = []
        self.board.on_off = lambda on, why: self.lines.append(f"off {on.flag.name} {why}")
        self.board.on_lift = lambda window, why: self.lines.append(f"lift {window.window} {why}")

    def put_on(self, window: str, *names: str, ttl_s: float = 30) -> None:
        held, fresh = self.board.prepare(window, [Switched(flag=name) for name in names], ttl_s, "lead")
        self.board.put_on(held, fresh)


def test_a_window_that_nobody_renews_ends() -> None:
    told = Told()
    told.put_on("w", "slow", ttl_s=2)
    told.clock.advance(1.9)
    told.board.expire()
    assert told.board.state("slow") == "on"
    told.clock.advance(0.1)
    told.board.expire()
    assert told.lines == ["off slow expired", "lift w expired"]


def test_a_renewal_moves_the_deadline_and_never_the_auto_off() -> None:
    told = Told()
    told.put_on("w", "slow", ttl_s=2)
    for _ in range(99):
        told.clock.advance(1)
        assert told.board.renew("w", 2)
    told.clock.advance(1)
    assert not told.board.renew("w", 2)
    assert told.lines == ["off slow auto-off", "lift w expired"]


def test_a_flag_of_a_window_may_end_before_the_others() -> None:
    told = Told()
    told.put_on("w", "slow", "broken", ttl_s=500)
    told.clock.advance(100)
    told.board.expire()
    assert told.lines == ["off slow auto-off"]
    assert told.board.state("broken") == "on"


def test_the_deadlines_day_ends_what_is_on() -> None:
    told = Told()  # its wall stands at 2026-01-01
    told.put_on("w", "broken", ttl_s=500)
    told.clock.step_wall(5 * 86_400)
    told.board.expire()
    assert told.lines == ["off broken deadline", "lift w expired"]
    with pytest.raises(Problem, match="a deadline that has passed"):
        told.board.prepare("w2", [Switched(flag="broken")], 1, "lead")


def test_a_wall_that_steps_back_puts_nothing_on_again() -> None:
    told = Told()
    told.put_on("w", "broken", ttl_s=500)
    told.clock.step_wall(5 * 86_400)
    told.board.expire()
    told.clock.step_wall(-5 * 86_400)
    told.board.expire()
    assert told.board.state("broken") == "off"


def test_time_that_is_counted_ends_a_window_whose_clock_stands() -> None:
    told = Told()
    told.put_on("w", "slow", ttl_s=2)
    for _ in range(24):
        told.board.pass_time(0.1)
    assert told.board.state("slow") == "on"
    told.board.pass_time(0.2)
    assert told.lines == ["off slow expired", "lift w expired"]


def test_a_clock_that_went_back_has_passed_every_deadline() -> None:
    told = Told()
    told.put_on("w", "slow", ttl_s=30)
    told.board.expire()
    told.clock.advance(-1)
    told.board.expire()
    assert told.board.state("slow") == "off"


def test_two_windows_have_flags_of_their_own() -> None:
    told = Told()
    told.put_on("w1", "slow")
    with pytest.raises(Conflict, match="slow is on already"):
        told.put_on("w2", "slow")
    told.put_on("w2", "broken")
    told.board.lift("w1", "ordered")
    assert told.lines == ["off slow ordered", "lift w1 ordered"]
    assert told.board.state("broken") == "on"


def test_a_windows_name_is_used_once() -> None:
    told = Told()
    told.put_on("w", "slow")
    first = told.board.lift("w", "ordered")
    told.clock.advance(1)
    assert told.board.lift("w", "ordered") == first
    with pytest.raises(Conflict, match="has been already"):
        told.put_on("w", "slow")


def test_an_order_with_one_wrong_name_changes_nothing() -> None:
    told = Told()
    before = told.board.revision
    with pytest.raises(Problem, match="Did you mean 'broken'"):
        told.put_on("w", "slow", "brokn")
    assert (told.board.revision, told.board.on) == (before, {})
    told.put_on("w", "slow")


def test_a_kill_outlasts_every_lift() -> None:
    told = Told()
    assert told.board.kill("refund", "bea")
    assert not told.board.kill("refund", "bea")
    told.board.lift_all("exit")
    told.clock.advance(1e6)
    told.board.expire()
    assert told.board.state("refund") == "killed"
    assert told.board.restore("refund")
    assert told.board.state("refund") == "off"


@pytest.mark.parametrize("name", ["slow", "refnd", ""])
def test_what_is_no_capability_cannot_be_killed(name: str) -> None:
    with pytest.raises(Problem, match="capability"):
        Told().board.kill(name, "bea")


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan"), float("inf"), 3_601])
def test_a_window_has_a_bound(ttl_s: float) -> None:
    with pytest.raises(ValueError, match="ttl_s"):
        Told().put_on("w", "slow", ttl_s=ttl_s)


def test_revisions_of_another_server_stand_in_no_order() -> None:
    board = Told().board
    assert board.number("m-0") == 0
    assert board.number("n-0") is None
    assert board.number("m-x") is None
    assert board.number("") is None


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("on"), st.sampled_from(["slow", "broken", "refund"]), st.floats(0.1, 50)),
            st.tuples(st.just("renew"), st.integers(0, 5), st.floats(0.1, 50)),
            st.tuples(st.just("lift"), st.integers(0, 5), st.just(0.0)),
            st.tuples(st.just("wait"), st.just(0), st.floats(0, 60)),
        ),
        max_size=30,
    )
)
def test_no_orders_leave_a_flag_on(orders: list[tuple[str, object, float]]) -> None:
    told = Told()
    windows: list[str] = []
    for verb, what, seconds in orders:
        if verb == "on":
            windows.append(f"w{len(windows)}")
            try:
                told.put_on(windows[-1], str(what), ttl_s=seconds)
            except Conflict:
                continue
        elif verb == "wait":
            told.clock.advance(seconds)
        elif windows:
            window = windows[int(str(what)) % len(windows)]
            if verb == "renew":
                told.board.renew(window, seconds)
            else:
                told.board.lift(window, "ordered")
    told.clock.advance(51)
    told.board.expire()
    assert (told.board.on, told.board.windows) == ({}, {})
    lifted = [line.split()[1] for line in told.lines if line.startswith("lift")]
    assert len(lifted) == len(set(lifted))


def test_a_deadline_lasts_to_the_end_of_its_day() -> None:
    told = Told()
    told.clock.step_wall(((last_instant_ns("2026-01-05") or 0) - told.clock.wall_ns()) / 1e9 - 1)
    told.put_on("w", "broken")
    assert told.board.state("broken") == "on"
