"""Two interviews by hand, and whether the second is no worse than the first."""

import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Refused
from drillmaster.interviews import Interview, Level
from drillmaster.load.blocks import Blocks, draw
from drillmaster.load.comparing import Compared, Figure, compare, interval
from drillmaster.load.manifest import InterviewManifest
from drillmaster.load.reading import InterviewRun
from tests.gates.test_interview import timed

PLAN = {
    "target": {"url": "http://x", "dialect": "plain", "stream": False, "max_tokens": None},
    "levels": [4], "warm": 100, "timeout_s": 60, "open": [{"rate_per_s": 5.0, "seconds": 60, "rate_to_per_s": None}], "drain": None,
}  # fmt: skip
MANIFEST = InterviewManifest(
    run="r", job="j", started_at="2026-11-30T12:00:00Z", mono0_ns="5", seed=1, plan=PLAN, plan_sha256="p", url="http://x",
    addresses=("127.0.0.1",), payload_sha256="sha256:a", payloads=1, payload="{}", steps=(), idle_s=1, time_limit_s=60, versions={},
    seats={}, stamps=("REHEARSAL",),
)  # fmt: skip
RNG = random.Random(3)


@pytest.fixture(autouse=True)
def drawn_anew() -> None:
    RNG.seed(3)


def run(name: str, *levels: Level, ended: str = "completed", **manifest: Any) -> InterviewRun:
    cold = timed("cold", [3.0], kind="cold")
    interview = Interview(name=name, url="http://x", declared=(), levels=(cold, *levels), digest=name)
    return InterviewRun(
        interview=interview, manifest=msgspec.structs.replace(MANIFEST, **manifest), fitness={}, idle={}, ended=ended, why="",
        torn_bytes=0,
    )  # fmt: skip


def about(seconds: float, n: int = 400) -> list[float]:
    return [seconds * RNG.uniform(0.9, 1.1) for _ in range(n)]


def compared(
    a: list[float], b: list[float], *, within: float = 0.1, errors_within: float = 0.0, **more: Any
) -> Compared:
    return compare(
        run("a", timed("warm_c4", a)), run("b", timed("warm_c4", b)), within=within, errors_within=errors_within, **more
    )


def figure(one: Compared, name: str) -> Figure:
    return next(figure for figure in one.levels[0].figures if figure.name == name)


def test_the_same_law_is_no_worse_and_the_same_runs_say_the_same_again() -> None:
    a, b = about(1.0), about(1.0)
    one = compared(a, b)
    assert (one.said, int(one.exit)) == ("no worse", 0)
    p95 = figure(one, "p95")
    assert p95.low is not None
    assert p95.high is not None
    assert 0.95 < p95.low < 1 < p95.high < 1.05
    assert p95.margin == 1.1
    assert one == compared(a, b)
    assert one.stamps == ("REHEARSAL",)


def test_slower_by_more_than_the_margin_is_worse_and_one_figure_is_enough() -> None:
    one = compared(about(1.0), about(1.3))
    assert (one.said, int(one.exit)) == ("worse", 1)
    tail = compared(about(1.0), [5.0 if at % 10 == 3 else value for at, value in enumerate(about(1.0))])
    assert (figure(tail, "p50").said, figure(tail, "p95").said, tail.said) == ("no worse", "worse", "worse")


def test_an_interval_that_holds_both_decides_nothing() -> None:
    one = compared(about(1.0), about(1.1))
    assert (one.said, int(one.exit)) == ("undecided", 2)
    assert {found.why for found in one.levels[0].figures if found.said == "undecided"} == {"the interval holds both"}


def many(levels: int, b: float, n: int = 400) -> Compared:
    """So many levels, of which the first is slower by so much."""
    pairs = [
        (timed(f"warm_c{k}", about(1.0)), timed(f"warm_c{k}", about(1.0 if k > 1 else b, n)))
        for k in range(1, levels + 1)
    ]
    return compare(
        run("a", *(pair[0] for pair in pairs)), run("b", *(pair[1] for pair in pairs)), within=0.1, errors_within=0.0
    )


def test_where_more_is_compared_one_figure_has_to_be_surer_to_make_the_whole_worse() -> None:
    one, ten = many(1, 1.0), many(10, 1.0)
    assert (one.figures, ten.figures) == (3, 30)
    assert (one.worse_confidence, ten.worse_confidence) == (pytest.approx(1 - 0.05 / 3), pytest.approx(1 - 0.05 / 30))
    RNG.seed(3)
    first = many(1, 1.11)
    RNG.seed(3)
    among = many(10, 1.11)
    single, same = first.levels[0].figures[0], among.levels[0].figures[0]
    assert (single.a, single.b) == (same.a, same.b)
    assert single.low is not None and same.low is not None
    assert same.low < single.low
    assert same.high == single.high  # all have to be no worse, and each is 95 % sure of it
    assert (first.said, among.said) == ("worse", "undecided")


def test_a_figure_that_is_far_beyond_its_margin_is_worse_among_many_too() -> None:
    assert [many(levels, 1.4).said for levels in (1, 10)] == ["worse", "worse"]


@pytest.mark.parametrize(("n", "said"), [(59, "undecided"), (79, "undecided"), (80, "worse")])
def test_so_few_calls_that_none_bounds_it_surely_enough_make_nothing_worse(n: int, said: str) -> None:
    found = figure(compared(about(1.0), about(9.0, n)), "p95")  # p95 of three figures: 80 calls
    assert (found.said, found.low is None, found.high is None) == (said, said != "worse", False)
    assert ("80 would do to call it worse" in found.why) is (said != "worse")


def test_so_few_calls_may_be_no_worse() -> None:
    assert figure(compared(about(1.0), about(0.5, 59)), "p95").said == "no worse"


def test_quicker_is_no_worse() -> None:
    assert compared(about(1.0), about(0.5)).said == "no worse"


def test_slow_calls_in_one_burst_decide_nothing_and_scattered_ones_do() -> None:
    burst = [5.0 if 100 <= at < 140 else value for at, value in enumerate(about(1.0))]
    assert figure(compared(about(1.0), burst), "p95").said == "undecided"
    scattered = [5.0 if at % 10 == 3 else value for at, value in enumerate(about(1.0))]
    assert figure(compared(about(1.0), scattered), "p95").said == "worse"


@pytest.mark.parametrize(
    ("n", "why"), [(10, "10 calls with a latency, and 59 would do"), (58, "58 calls with a latency, and 59 would do")]
)
def test_too_few_calls_decide_nothing_and_say_how_many_would(n: int, why: str) -> None:
    found = figure(compared(about(1.0), about(1.0, n)), "p95")
    assert (found.said, found.why, found.low) == ("undecided", why, None)


def test_blocks_as_long_as_a_level_decide_nothing() -> None:
    found = figure(compared(about(1.0), about(1.0), block_s=40.0), "p50")
    assert (found.said, "10 blocks of time" in found.why) == ("undecided", True)


def test_cut_calls_of_the_second_may_have_taken_for_ever_and_of_the_first_nobody_knows() -> None:
    cut = [-60.0 if at % 4 == 0 else 1.0 for at in range(400)]
    worse = figure(compared(about(1.0), cut), "p95")
    assert (worse.said, worse.high) == ("worse", None)
    assert figure(compared(cut, cut), "p95").said == "undecided"
    assert "calls of the first run were cut" in figure(compared(cut, about(1.0)), "p95").why


def test_errors_are_a_difference_of_shares() -> None:
    def of(a: int, b: int, within: float) -> Figure:
        levels = [
            timed("warm_c4", [1.0] * 400, kinds=dict.fromkeys(range(7, 400, 400 // n) if n else (), "reset"))
            for n in (a, b)
        ]
        return figure(compare(run("a", levels[0]), run("b", levels[1]), within=0.1, errors_within=within), "errors")

    assert of(0, 80, 0.0).said == "worse"
    assert of(80, 80, 0.1).said == "no worse"
    assert of(80, 0, 0.0).said == "no worse"
    assert of(4, 8, 0.01).said == "undecided"


def test_where_nobody_failed_no_resampling_finds_a_failure() -> None:
    census = figure(compared(about(1.0), about(1.0)), "errors")
    assert (census.said, census.high) == ("no worse", pytest.approx(0.00746, abs=1e-4))
    some = figure(compared(about(1.0), about(1.0), errors_within=0.005), "errors")
    assert (some.said, some.why) == ("undecided", "none failed, and 598 calls would show it")
    assert figure(compared(about(1.0), about(1.0), errors_within=0.01), "errors").said == "no worse"


def test_where_nobody_was_answered_nothing_is_decided_but_errors_are() -> None:
    dead = timed("warm_c4", [1.0] * 400, kinds=dict.fromkeys(range(400), "reset"))
    one = compare(run("a", timed("warm_c4", about(1.0))), run("b", dead), within=0.1, errors_within=0.0)
    assert [(found.name, found.said) for found in one.levels[0].figures] == [
        ("p50", "undecided"), ("p95", "undecided"), ("errors", "worse"),
    ]  # fmt: skip
    assert one.said == "worse"


def test_what_there_is_one_of_is_shown_and_decides_nothing() -> None:
    def with_drain(name: str, seconds: float) -> InterviewRun:
        return run(name, timed("warm_c4", about(1.0)), timed("drain", [seconds] * 9, kind="drain"))

    one = compare(with_drain("a", 1.0), with_drain("b", 9.0), within=0.1, errors_within=0)
    assert [(single.label, single.a, single.b) for single in one.singles] == [("cold", 3.0, 3.0), ("drain", 1.0, 9.0)]
    assert one.said == "no worse"


OTHER: dict[str, tuple[dict[str, Any], str]] = {
    "payload": ({"payload_sha256": "sha256:b"}, "other payloads"),
    "target": ({"url": "http://y"}, "other targets: http://x and http://y"),
    "levels": ({"plan": {**PLAN, "levels": [4, 8]}}, "levels [4] and [4,8]"),
    "rate": (
        {"plan": {**PLAN, "open": [{"rate_per_s": 6.0, "seconds": 60, "rate_to_per_s": None}]}},
        "other plans: open",
    ),
    "stream": ({"plan": {**PLAN, "target": {**PLAN["target"], "stream": True}}}, "target.stream false and true"),  # type: ignore[dict-item]
    "max_tokens": ({"plan": {**PLAN, "target": {**PLAN["target"], "max_tokens": 9}}}, "target.max_tokens null and 9"),  # type: ignore[dict-item]
    "time limit": ({"plan": {**PLAN, "timeout_s": 30}}, "timeout_s 60 and 30"),
    "place": ({"plan": {**PLAN, "measured_from": "Oslo"}}, "measured_from"),
    "stopped": ({"ended": "aborted"}, "the second was stopped before its end"),
}


@pytest.mark.parametrize("case", OTHER)
def test_what_asked_something_else_is_refused_and_named(case: str) -> None:
    more, said = OTHER[case]
    with pytest.raises(Refused) as refused:
        compare(
            run("a", timed("warm_c4", about(1.0))),
            run("b", timed("warm_c4", about(1.0)), **more),
            within=0.1,
            errors_within=0,
        )
    assert said in refused.value.found
    assert refused.value.remedy


def test_how_many_calls_were_made_and_for_how_long_may_differ() -> None:
    longer = {**PLAN, "warm": 900, "seconds": 300, "open": [{"rate_per_s": 5.0, "seconds": 90, "rate_to_per_s": None}]}
    one = compare(
        run("a", timed("warm_c4", about(1.0))),
        run("b", timed("warm_c4", about(1.0)), plan=longer),
        within=0.1,
        errors_within=0,
    )
    assert one.said == "no worse"


def test_a_void_level_a_level_that_is_missing_and_a_run_beside_itself_are_refused() -> None:
    good = run("a", timed("warm_c4", about(1.0)))
    void = run("b", timed("warm_c4", about(1.0), void=("the client was full",)))
    for other, said in (
        (void, "is void: the client was full"),
        (run("b"), "other levels"),
        (good, "the same run twice"),
    ):
        with pytest.raises(Refused, match=said):
            compare(good, other, within=0.1, errors_within=0)


def test_an_interval_covers_the_true_change_as_often_as_it_says() -> None:
    runs, upper, lower = 120, 0, 0
    for seed in range(runs):
        rng = random.Random(f"compare/{seed}")

        def stalled(rng: random.Random = rng) -> list[tuple[float, float]]:
            """Blocks of ten seconds, one in four of them slow."""
            return [
                (at * 10 + n, rng.uniform(1, 2) * slow)
                for at in range(20)
                for slow in [1 + 4 * (rng.random() < 0.25)]
                for n in range(10)
            ]

        a, b = Blocks(stalled(), 10.0), Blocks(stalled(), 10.0)
        low, high = interval(lambda rng, a=a, b=b: b.mean(draw(20, rng)) / a.mean(draw(20, rng)), 20, worse=0.95)  # type: ignore[misc]
        upper += high >= 1
        lower += low <= 1
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / runs)
    assert upper / runs >= least
    assert lower / runs >= least


@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(0, 5)), min_size=1, max_size=60),
    st.floats(0.01, 1),
    st.randoms(use_true_random=False),
)
def test_a_quantile_of_drawn_blocks_is_that_of_their_values_laid_together(
    samples: list[tuple[float, float]], q: float, rng: random.Random
) -> None:
    blocks = Blocks(samples, 2.0, start=0.0)
    times = draw(blocks.blocks, rng)
    numbers = sorted({int(at / 2.0) for at, _ in samples})
    together = sorted(value for at, value in samples for _ in range(times[numbers.index(int(at / 2.0))]))
    assert blocks.quantile(q, times) == together[max(1, math.ceil(q * len(together) - 1e-9)) - 1]
    assert blocks.mean(times) == pytest.approx(sum(together) / len(together))
