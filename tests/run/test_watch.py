"""What a drill has to be stopped for, without one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from drillmaster.child import ChildLost
from drillmaster.clock import ManualClock
from drillmaster.conduct import State
from drillmaster.run.folder import Folder, make_folder
from drillmaster.run.pins import Pins
from drillmaster.run.traffic import Answer, Tally
from drillmaster.run.watch import BEAT_S, DEAF_S, Watch, baseline_problem, max_late_s
from tests.test_sanity import plan


class Proxy:
    """Says what it was given to say, or nothing."""

    called = "the proxy"

    def __init__(self) -> None:
        self.counts: dict[str, int] | None = {}
        self.killed = False

    async def state(self) -> dict[str, Any]:
        if self.counts is None:
            raise ChildLost("no answer in 2 s")
        return {"counts": self.counts}

    def kill(self) -> None:
        self.killed = True


class Post:
    """A watch with all it looks at."""

    def __init__(self, tmp_path: Path, **over: Any) -> None:
        self.clock = ManualClock()
        self.proxy = Proxy()
        self.folder: Folder = make_folder(tmp_path / "runs", self.clock)
        self.pins = Pins(self.folder.path)
        self.pins.hold("timeline.jsonl")
        self.tally = Tally(20)
        self.plan = plan(**over)
        self.watch = Watch(self.plan, self.folder, self.proxy, self.pins, self.clock)  # type: ignore[arg-type]  # a fake of the part
        self.watch.begin()
        self.watch.users_begin()

    def beats(self, passed: int, state: State = State.INJECTED, *, clock_s: float | None = None) -> str | None:
        self.clock.advance(passed * BEAT_S if clock_s is None else clock_s)
        return self.watch.beat(passed, state)

    def look(self, state: State = State.INJECTED) -> str | None:
        return asyncio.run(self.watch.look(state, self.tally))

    def spent(self, **counts: int) -> str | None:
        self.proxy.counts = counts
        return asyncio.run(self.watch.spent())


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path, stop={"min_free_mb": 0}, spend={"max_requests": 100, "max_tokens": 1000})


def test_a_clock_that_goes_with_the_count_is_a_clock(post: Post) -> None:
    assert [post.beats(1) for _ in range(100)] == [None] * 100


@pytest.mark.parametrize("clock_s", [1.2, 3600.0, 0.0])
def test_a_clock_that_jumps_is_told_once(post: Post, clock_s: float) -> None:
    passed = 1 if clock_s else 12  # standing still is a jump too, once it has gone on for long enough
    said = post.beats(passed, clock_s=clock_s)
    assert said is not None and "clock jumped" in said
    assert post.beats(1) is None


def test_a_process_that_was_held_up_while_users_were_played_blames_nobody_else(post: Post) -> None:
    beats = round(max_late_s(post.plan.traffic.time_limit_s) / BEAT_S) + 3
    said = post.beats(beats)
    assert said is not None and "held up" in said
    assert post.beats(beats, State.PREPARING) is None  # nobody was there


@pytest.mark.parametrize(("time_limit_s", "late_s"), [(0.4, 0.3), (1.0, 0.75), (1.5, 1.0), (4.0, 2.0), (60.0, 10.0)])
def test_how_late_is_too_late_hangs_on_the_users_patience(time_limit_s: float, late_s: float) -> None:
    assert max_late_s(time_limit_s) == pytest.approx(late_s)


@pytest.mark.parametrize(
    ("looks", "what"),
    [
        ([{"requests": 10}, {"requests": 20}], None),
        ([{"requests": 40}, {"requests": 71}], "requests"),  # 31 more, and the next 31 would be 102
        ([{"requests": 60}], "requests"),  # as many again at once
        ([{"requests": 160, "met": 120}], None),  # what a fault met did not go there
        ([{"tokens": 400}, {"tokens": 700}], None),
        ([{"tokens": 400}, {"tokens": 701}], "tokens"),
    ],
)
def test_a_cap_is_met_before_it_is_passed(post: Post, looks: list[dict[str, int]], what: str | None) -> None:
    *before, last = looks
    assert all(post.spent(**counts) is None for counts in before)
    said = post.spent(**last)
    assert (said is None) if what is None else (said is not None and f"spend.max_{what}" in said)


def test_a_silent_proxy_is_not_asked_about_money(post: Post) -> None:
    post.proxy.counts = None
    assert asyncio.run(post.watch.spent()) is None


def test_a_proxy_that_says_nothing_for_long_is_killed_and_one_that_spoke_between_is_not(post: Post) -> None:
    post.proxy.counts = None
    post.clock.advance(DEAF_S - 1)
    assert post.look() is None and not post.proxy.killed
    post.proxy.counts = {}
    assert post.look() is None
    post.proxy.counts = None
    post.clock.advance(DEAF_S - 1)
    assert post.look() is None
    post.clock.advance(2)
    said = post.look()
    assert said is not None and "does not answer" in said and post.proxy.killed


def test_evidence_that_is_lost_or_taken_away_is_seen_also_while_the_drill_drains(post: Post) -> None:
    post.proxy.counts = {"evidence_lost": 3}
    for state in (State.INJECTED, State.DRAINING):
        said = post.look(state)
        assert said is not None and "3 lines of evidence" in said
    assert post.look(State.PREPARING) is None
    post.folder.timeline.unlink()
    for state in (State.BASELINE, State.DRAINING):
        said = post.look(state)
        assert said is not None and "taken away" in said


def test_a_disk_that_fills_up_is_seen(tmp_path: Path) -> None:
    said = Post(tmp_path, stop={"min_free_mb": 10**9}).look()
    assert said is not None and "MB of disk left" in said


def test_a_share_of_failures_over_the_plan_s_is_seen_and_lateness_of_ours(tmp_path: Path) -> None:
    post = Post(tmp_path, stop={"failed_ratio": 0.5, "over_requests": 20, "min_free_mb": 0})
    lost = Answer(result="refused", status=None, answer=None, why="", sent_ns=0, first_ns=None, end_ns=1)
    for _ in range(19):
        post.tally.count(lost)
    assert post.look() is None  # not as many as the share is over
    post.tally.count(lost)
    said = post.look()
    assert said is not None and "100% of the last 20 requests failed" in said
    post = Post(tmp_path / "other", stop={"min_free_mb": 0})
    assert post.look() is None
    post.tally.late_ns = 60 * 10**9
    said = post.look()
    assert said is not None and "late" in said


@pytest.mark.parametrize(("by_hand", "remedy"), [(True, "wait for the first answers"), (False, "phases.baseline_s")])
def test_nothing_is_injected_before_anybody_was_answered(by_hand: bool, remedy: str) -> None:
    for tally in (None, Tally(20)):
        found = baseline_problem(tally, 1.0, by_hand=by_hand)
        assert found is not None
        assert remedy in found.remedy


@pytest.mark.parametrize(
    ("ok", "failed", "refused"),
    [
        (0, 1, True),
        (18, 2, True),  # 10 %, where 5 are allowed
        (19, 1, False),  # just 5 %
        (1, 0, False),
    ],
)
def test_a_baseline_in_which_too_much_failed_is_none(ok: int, failed: int, refused: bool) -> None:
    tally = Tally(20)
    tally.take(sent=ok + failed, counts={"ok": ok, "http_5xx": failed}, late_ns=0)
    found = baseline_problem(tally, 0.05, by_hand=False)
    assert (found is not None) is refused
    assert found is None or found.found.startswith(f"{failed} of {ok + failed} failed with nothing injected")
