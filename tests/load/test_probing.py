"""What a probe says of one level: by what was seen, before any rounding; and what it cannot say."""

from pathlib import Path
from typing import Any

import pytest

from drillmaster.errors import Problem
from drillmaster.interviews import Calls, Level
from drillmaster.ladder import Asked, InterviewPlan
from drillmaster.load import probing
from drillmaster.load.probing import Budgets, Cold, Probed, judge_probe, least_requests
from drillmaster.load.reading import open_interview_run
from tests.interviewed import sealed

BUDGETS = Budgets(p95_ms=6_000, error_rate=0.02)


def judged(folder: Path, budgets: Budgets = BUDGETS, cold: Cold | None = None, **over: Any) -> Probed:
    fields: dict[str, Any] = {"label": "warm_c4", "kind": "closed", "n": 100, "ok_s": (1.0,) * 100} | over
    read = open_interview_run(sealed(folder))
    return judge_probe(Level(**fields), budgets, read=read, cold=cold, no_cold="there is none")


@pytest.mark.parametrize(
    ("over", "verdict", "why"),
    [
        ({}, "pass", ""),
        ({"ok_s": (6.0,) * 100}, "pass", ""),  # equal
        ({"ok_s": (6.00004,) * 100}, "exit", "p95 6000.04 ms is over 6000 ms"),
        ({"n": 2_495, "failed": {"http_503": 50}}, "exit", "error_rate 0.0200401 is over 0.02: 50 http_503"),
        ({"n": 2_500, "failed": {"http_503": 50}}, "pass", ""),  # equal
        ({"failed": {"refused": 100}, "ok_s": ()}, "exit", "error_rate 1 is over 0.02: 100 refused"),
        # Quick failures lower no latency: 97 of them, and three answers of 7 s.
        ({"failed": {"http_503": 97}, "ok_s": (7.0,) * 3}, "exit", "error_rate 0.97"),
        # A cut call took at least so long: over the budget it settles the question, under it it does not.
        ({"n": 20, "ok_s": (1.0,) * 18, "cut_s": (30.0,) * 2}, "exit", "p95 at least 30000 ms is over"),
        ({"n": 20, "ok_s": (1.0,) * 18, "cut_s": (5.0,) * 2}, "refused", "p95 cannot be told: at least 5000 ms"),
        ({"void": ("the client had no room",)}, "refused", "the client had no room"),
        ({"void": ("the client had no room",), "ok_s": (9.0,) * 100}, "refused", "the client had no room"),
        # What the endpoint answered is its own, whatever the client held; what was cut may be the client's.
        ({"void": ("few in flight",), "failed": {"http_429": 90}, "ok_s": (1.0,) * 10}, "exit", "error_rate 0.9"),
        ({"void": ("few in flight",), "failed": {"timeout": 90}, "ok_s": (1.0,) * 10}, "refused", "few in flight"),
    ],
)
def test_a_level_gets_the_verdict_of_its_budgets(tmp_path: Path, over: dict[str, Any], verdict: str, why: str) -> None:
    found = judged(tmp_path, **over)
    assert found.verdict == verdict
    assert why in "".join(found.why)
    assert int(found.exit) == {"pass": 0, "exit": 1, "refused": 2}[verdict]


def test_a_cold_budget_needs_a_cold_start(tmp_path: Path) -> None:
    budgets = Budgets(p95_ms=6_000, error_rate=0.02, cold_ms=900)
    assert judged(tmp_path / "a", budgets).why == ("there is none",)
    cold = Cold(ms=900, idle_s=1_800, run="r", age_s=5)
    assert judged(tmp_path / "b", budgets, cold).verdict == "pass"
    found = judged(tmp_path / "c", budgets, Cold(ms=900.1, idle_s=1_800, run="r", age_s=5))
    assert (found.verdict, found.why) == ("exit", ("cold start 900.1 ms is over 900 ms",))


@pytest.mark.parametrize(
    ("budget", "least"), [(0.02, 59), (0.5, 59), (0.0, 59), (0.01, 100), (0.001, 1_000), (0.003, 334)]
)
def test_as_many_requests_are_asked_for_as_the_budgets_need(budget: float, least: int) -> None:
    assert least_requests(Budgets(p95_ms=1, error_rate=budget)) == least
    plan = InterviewPlan(kind="plan", drill="interview", job="j", target=Asked(url="http://127.0.0.1/"), warm=least - 1)
    with pytest.raises(Problem, match=f"--requests {least}"):
        probing._worth_it(plan, Budgets(p95_ms=1, error_rate=budget))


def test_both_bounds_stand_beside_what_was_seen_which_decides(tmp_path: Path) -> None:
    took = [9.0 if at // 12 in (10, 61) else 1.0 for at in range(1_200)]
    calls = Calls(
        due_s=[at * 5 / 12 for at in range(1_200)],
        end_s=[at * 5 / 12 + one for at, one in enumerate(took)],
        outcome=[0] * 1_200,
        kind=[""] * 1_200,
        times={"latency": took},
    )
    said: dict[str, Any] = {"n": 1_200, "ok_s": tuple(took), "calls": calls}
    read = open_interview_run(sealed(tmp_path))

    def probed(block_s: float | None = None, **fields: Any) -> Probed:
        level = Level(label="warm_c4", kind="closed", **fields)
        return judge_probe(level, BUDGETS, read=read, cold=None, no_cold="", block_s=block_s)

    alone = probed(**said)
    assert (alone.p95_upper_ms, alone.block_s, alone.p95_upper_blocks_ms, alone.decided_by) == (
        1000.0,
        None,
        None,
        "observed",
    )
    both = probed(block_s=5.0, **said)
    assert (both.verdict, both.p95_upper_ms, both.p95_upper_blocks_ms) == ("pass", 1000.0, 9000.0)
    assert probed(block_s=500.0, **said).p95_upper_blocks_ms is None  # one block, and 59 would do
    cut = probed(n=100, ok_s=(1.0,) * 90, cut_s=(30.0,) * 10)
    assert cut.p95_upper_ms is None  # it lies among calls that were cut
    assert probed(n=20, ok_s=(1.0,) * 20).p95_upper_ms is None  # too few
