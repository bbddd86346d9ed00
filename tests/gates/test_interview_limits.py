"""What a policy may ask of a level beside its latency: other times, kinds of failure, goodput, Apdex, drain, cost."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import reports
from drillmaster.errors import Problem
from drillmaster.interviews import Interview, Level, limit_name, limit_names
from drillmaster.stats import block_bound, order_bound
from drillmaster.verdict import AtLeast, Check, Exact
from tests.gates.test_interview import COLD, by_id, gate_of, level, raw, timed

NAN = math.nan


def check(one: Any, field: str, *, decide: str = "observed", **limits: Any) -> Check:
    return by_id(raw(COLD, one, decide=decide, **limits))[f"{one.label}.{field}"]


# Times


@pytest.mark.parametrize(
    ("limit", "status", "said"),
    [
        ({"ttft_p95_s": 0.5}, "pass", "first token p95 at most 0.5 s (observed 0.5 s"),
        ({"ttft_p95_s": 0.4}, "fail", "observed 0.5 s"),
        ({"ttft_p50_s": 0.2}, "pass", "observed 0.2 s"),
        ({"ttft_p99.9_s": 0.4}, "fail", "first token p99.9"),
        ({"ttft_max_s": 0.5}, "pass", "first token max"),
        ({"itl_p99_s": 0.1}, "pass", "gap between tokens p99 at most 0.1 s (observed 0.03 s, n 400"),
        ({"itl_max_s": 0.1}, "fail", "observed 2 s"),
        ({"connect_p50_s": 1}, "refused", "no call opened a connection"),
        ({"service_p75_s": 1}, "refused", "no call has a service"),
    ],
)
def test_each_quantile_of_each_time_has_a_limit(limit: dict[str, float], status: str, said: str) -> None:
    first = [0.2] * 90 + [0.5] * 10
    gaps = [0.03] * 399 + [2.0]
    one = timed("warm_c1", [1.0] * 100, times={"ttft": first}, gaps_s=gaps, gap_at_s=[at / 4 for at in range(400)])
    found = check(one, next(iter(limit)).removesuffix("_s"), **limit)
    assert (found.status, said in found.title) == (status, True), found.title
    assert (found.remedy != "") == (status == "refused")


def test_a_cut_stream_waits_at_least_so_long_for_its_words() -> None:
    one = timed("warm_c1", [1.0] * 9, gaps_s=[0.1, -4.0], gap_at_s=[0.0, 1.0])
    assert check(one, "itl_max", itl_max_s=3).status == "fail"
    open_end = check(one, "itl_max", itl_max_s=5)
    assert isinstance(open_end.observed, AtLeast)
    assert (open_end.status, "--timeout" in open_end.remedy) == ("refused", True)


def test_gaps_of_one_stall_are_no_independent_ones() -> None:
    # 1,200 gaps in ten minutes; the slow ones came together, in 2 of 120 blocks.
    gaps = [2.0 if at // 10 in (3, 70) else 0.02 for at in range(1_200)]
    one = timed("warm_c1", [1.0] * 600, gaps_s=gaps, gap_at_s=[at / 2 for at in range(1_200)])
    found = check(one, "itl_p95", decide="bound", block_s=5, itl_p95_s=0.1)
    assert found.status == "fail"
    assert check(one, "itl_p95", itl_p95_s=0.1).status == "pass"


def test_a_name_of_a_limit_says_its_time_and_its_quantile() -> None:
    assert limit_names()["p95_s"] == ("latency", "p95")
    assert limit_names()["itl_p99.9_s"] == ("itl", "p99.9")
    assert all(limit_name(*key) == name for name, key in limit_names().items())
    assert len(limit_names()) == 63


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"ttft_p96_s": 1}, "Did you mean ttft_p9"),
        ({"p95": 1}, "Did you mean p95_s"),
        ({"p95_s": 0}, "p95_s"),
        ({"p95_s": math.nan}, "p95_s"),
        ({}, "no limit"),
        ({"error_rates": {}}, "no kind of failure"),
        ({"error_rates": {"timeouts": 0.1}}, "did you mean timeout?"),
        ({"error_rates": {"ok": 0.1}}, "no failure is called 'ok'"),
        ({"error_rates": {"http_200": 0.1}}, "no failure is called 'http_200'"),
        ({"error_rates": {"timeout": 1.0}}, "error_rates"),
        ({"goodput": {"slo": {}, "min_ratio": 0.9}}, "no span"),
        ({"goodput": {"slo": {"latency_s": 1}}}, "give min_ratio or min_per_s"),
        ({"goodput": {"slo": {"latency_s": 1}, "min_ratio": 95}}, "min_ratio"),
        ({"apdex": {"t_s": 1}}, "min_score"),
        ({"max_requests": 0}, "max_requests"),
        ({"min_tokens_per_s": -1}, "min_tokens_per_s"),
    ],
)
def test_a_limit_that_means_nothing_is_refused_where_it_stands(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem) as refused:
        gate_of(decide="observed", levels={"warm_c1": limits})
    assert said in str(refused.value)
    assert "warm_c1" in refused.value.place


# The client's own share


@pytest.mark.parametrize(
    ("took", "own", "status"),
    [
        (0.05, {"client_s": 0.009}, "pass"),
        (0.05, {"client_s": 0.011}, "refused"),  # over a tenth of 0.1 s
        (0.105, {"client_s": 0.002}, "fail"),
        (0.105, {"client_s": 0.006}, "refused"),  # without the client's own it may have kept its limit
        (0.05, {"client_s": 0.001, "longest_turn_s": 5.0}, "pass"),  # once, and p95 is no far end
    ],
)
def test_a_limit_of_which_the_client_is_a_visible_part_is_not_judged(
    took: float, own: dict[str, float], status: str
) -> None:
    found = check(timed("warm_c1", [took] * 100, **own), "p95", p95_s=0.1)
    assert (found.status, "client's own" in found.why) == (status, status == "refused")


def test_one_long_turn_is_all_it_takes_at_the_far_end() -> None:
    one = timed("warm_c1", [0.05] * 100, client_s=0.001, longest_turn_s=0.02)
    assert check(one, "max", max_s=0.1).status == "refused"
    assert check(one, "p99.9", **{"p99.9_s": 0.1}).status == "refused"
    assert check(one, "p99", p99_s=0.1).status == "pass"


# Failures


def test_each_kind_of_failure_has_its_own_cap() -> None:
    kinds = {0: "http_429", 1: "http_429", 2: "http_400", 3: "timeout"}
    one = timed("warm_c1", [1.0] * 100, kinds=kinds)
    caps = {"http_429": 0.02, "http_4xx": 0.02, "timeout": 0.01, "http_5xx": 0.0, "reset": 0.1}
    verdict = raw(COLD, one, error_rates=caps)
    found = {name: check.status for name, check in by_id(verdict).items() if ".errors." in name}
    assert found == {
        "warm_c1.errors.http_429": "pass", "warm_c1.errors.http_4xx": "fail", "warm_c1.errors.timeout": "pass",
        "warm_c1.errors.http_5xx": "pass", "warm_c1.errors.reset": "pass",
    }  # fmt: skip
    assert verdict.headline[-1] == "BREACH: warm_c1 errors.http_4xx 0.03"


def test_a_bound_of_a_rate_says_what_it_takes_for_granted() -> None:
    one = timed("warm_c1", [1.0] * 100, every_s=5.0)
    found = check(one, "errors", decide="bound", block_s=5, error_rate=0.05)
    assert (found.status, "if each fails on its own" in found.title) == ("pass", True)
    few = check(timed("warm_c1", [1.0] * 20), "errors", decide="bound", block_s=5, error_rate=0.05)
    assert (few.status, few.remedy) == ("refused", "make 59 calls at this level or more")


# Goodput and Apdex


def test_goodput_is_of_all_that_was_due_and_per_second() -> None:
    took = [1.0] * 80 + [3.0] * 10 + [-60.0] * 5 + [0.1] * 5
    one = timed("warm_c1", took, kinds=dict.fromkeys(range(95, 100), "http_5xx"))
    slo = {"slo": {"latency_s": 2}}
    share = check(one, "goodput", goodput={**slo, "min_ratio": 0.8})
    assert (share.status, share.observed) == ("pass", Exact(0.8, n=100, low=pytest.approx(0.7225, abs=1e-3)))
    assert check(one, "goodput", goodput={**slo, "min_ratio": 0.81}).status == "fail"
    assert check(one, "goodput", decide="bound", block_s=5, goodput={**slo, "min_ratio": 0.8}).status == "refused"
    rate = check(one, "goodput_per_s", goodput={**slo, "min_per_s": 0.6})  # 80 in 94 + 60 s
    assert (rate.status, "80 in 154 s" in rate.title) == ("fail", True)
    both = check(one, "goodput", goodput={"slo": {"latency_s": 2, "ttft_s": 1}, "min_ratio": 0.1})
    assert both.status == "fail"  # none has a first token
    silent = timed("warm_c1", [1.0] * 10, times={"ttft": [-1.0] * 5 + [0.5] * 5})  # half of the streams carried no word
    words = check(silent, "goodput", goodput={"slo": {"ttft_s": 2}, "min_ratio": 0.5})
    assert words.observed == Exact(0.5, n=10, low=pytest.approx(0.222, abs=1e-3))


@pytest.mark.parametrize(
    ("took", "score", "shown"),
    [
        ([1.0] * 60 + [4.0] * 30 + [8.1] * 10, 0.75, "0.75 [2]: 60 satisfied, 30 tolerating, 10 frustrated"),
        ([2.0] * 50 + [8.0] * 50, 0.75, "0.75 [2]: 50 satisfied, 50 tolerating, 0 frustrated"),  # equal is within
        ([1.0] * 10, 1.0, "1.00 [2]*: 10 satisfied"),  # a small group
        ([1.0] * 99 + [-60.0], 0.99, "0.99 [2]: 99 satisfied, 0 tolerating, 1 frustrated"),
    ],
)
def test_an_apdex_is_satisfied_and_half_of_the_tolerating(took: list[float], score: float, shown: str) -> None:
    found = check(timed("warm_c1", took), "apdex", apdex={"t_s": 2, "min_score": score})
    assert (found.status, shown in found.title) == ("pass", True), found.title
    assert check(timed("warm_c1", took), "apdex", apdex={"t_s": 1.99, "min_score": 1.0}).status in ("fail", "pass")


def test_a_failed_call_is_a_frustrated_one_however_quick() -> None:
    one = timed("warm_c1", [0.01] * 100, kinds=dict.fromkeys(range(50), "http_5xx"))
    assert check(one, "apdex", apdex={"t_s": 2, "min_score": 0.51}).status == "fail"


# Drain and cost


def test_a_drain_takes_until_its_last_end_whatever_became_of_it() -> None:
    one = timed("drain", [1.0] * 9 + [5.0], every_s=0.0, kind="drain", kinds={9: "http_5xx"})
    assert check(one, "drain", drain_s=5).status == "pass"
    assert check(one, "drain", drain_s=4.9).status == "fail"
    cut = timed("drain", [1.0] * 9 + [-60.0], every_s=0.0, kind="drain")
    assert check(cut, "drain", drain_s=59).status == "fail"
    assert "--timeout" in check(cut, "drain", drain_s=100).remedy
    assert check(timed("warm_c1", [1.0]), "drain", drain_s=9).status == "refused"


def test_what_a_level_costs_is_counted() -> None:
    one = timed("warm_c1", [1.0] * 11, tokens=[10] * 11, attempts=[1] * 10 + [3])  # 11 s
    assert check(one, "requests", max_requests=13).status == "pass"
    assert check(one, "requests", max_requests=12).status == "fail"
    cost = check(one, "tokens", max_tokens=110)
    assert cost.status == "pass"
    assert reports.measure(cost.observed, cost.unit) == "110 tokens (n = 11)"  # and not "110 of 11"
    assert check(one, "tokens", max_tokens=109).status == "fail"
    assert check(one, "tokens_per_s", min_tokens_per_s=10).status == "pass"
    assert check(one, "tokens_per_s", min_tokens_per_s=10.1).status == "fail"
    assert check(one, "calls_per_s", min_calls_per_s=1).status == "pass"
    untold = timed("warm_c1", [1.0] * 11, tokens=[10] * 10 + [-1])
    assert check(untold, "tokens", max_tokens=110).status == "refused"
    assert check(untold, "tokens", max_tokens=99).status == "fail"
    assert check(untold, "tokens_per_s", min_tokens_per_s=10).status == "refused"
    failed = timed("warm_c1", [1.0] * 11, tokens=[10] * 10 + [-1], kinds={10: "reset"})
    assert check(failed, "tokens", max_tokens=100).status == "pass"
    for kind in ("timeout", "cut", "unfinished", "error_body"):  # it may have been worked for, and be on the bill
        begun = timed("warm_c1", [1.0] * 11, tokens=[10] * 10 + [-1], kinds={10: kind})
        assert check(begun, "tokens", max_tokens=100).status == "refused"
        assert check(begun, "tokens", max_tokens=99).status == "fail"
        assert check(begun, "tokens_per_s", min_tokens_per_s=9).status == "pass"


@pytest.mark.parametrize(
    ("field", "limits"),
    [
        ("goodput", {"goodput": {"slo": {"latency_s": 1}, "min_ratio": 0.9}}),
        ("apdex", {"apdex": {"t_s": 1, "min_score": 0.9}}),
        ("tokens", {"max_tokens": 9}),
        ("drain", {"drain_s": 9}),
        ("ttft_p95", {"ttft_p95_s": 9}),
    ],
)
def test_figures_alone_say_nothing_of_calls(field: str, limits: dict[str, Any]) -> None:
    found = check(level("warm_c1", [1.0] * 100), field, **limits)
    assert (found.status, bool(found.remedy)) == ("refused", True)


def test_a_time_that_a_file_of_rows_has_not_is_in_the_runs_folder() -> None:
    rows = Level(label="warm_c1", kind="closed", n=10, known={"p50": 1.0, "p95": 1.0, "max": 1.0})
    for field in ("ttft_p95", "p99"):
        found = check(rows, field, **{f"{field}_s": 9})
        assert (found.status, "judge the run's folder" in found.remedy) == ("refused", True)


def test_a_breach_is_named_by_its_level_whatever_is_in_its_name() -> None:
    one = timed("open_r0.5", [9.0] * 100, kind="open")
    assert raw(COLD, one, p95_s=2.0).headline[-1] == "BREACH: open_r0.5 p95 9s"


# Whether it is the interview that was meant


def meant(interview: dict[str, Any], **limits: Any) -> dict[str, str]:
    gate = gate_of(decide="observed", levels={"warm_c1": {"p95_s": 2}}, **limits)
    levels = (COLD, timed("warm_c1", [1.0] * 9))
    one = Interview(name="r", url="http://x/v1", declared=("cold", "warm_c1"), levels=levels, **interview)
    return {
        check.id: check.status for check in gate.checks(one.as_of(10**18)) if check.id in ("fresh", "url", "payload")
    }


@pytest.mark.parametrize(
    ("interview", "limits", "found"),
    [
        ({}, {}, {}),
        ({"ended_wall_ns": 10**18 - 60 * 10**9}, {"max_age_s": 60}, {"fresh": "pass"}),
        ({"ended_wall_ns": 10**18 - 61 * 10**9}, {"max_age_s": 60}, {"fresh": "refused"}),  # last month's file
        ({}, {"max_age_s": 60}, {"fresh": "refused"}),  # no date
        ({}, {"url": "http://x/v1"}, {"url": "pass"}),
        ({}, {"url": "http://y/v1"}, {"url": "refused"}),
        ({"payload_sha256": "sha256:a"}, {"payload_sha256": "sha256:a"}, {"payload": "pass"}),
        ({"payload_sha256": "sha256:b"}, {"payload_sha256": "sha256:a"}, {"payload": "refused"}),
        ({}, {"payload_sha256": "sha256:a"}, {"payload": "refused"}),
    ],
)
def test_an_interview_that_is_old_or_of_something_else_is_refused(
    interview: dict[str, Any], limits: dict[str, Any], found: dict[str, str]
) -> None:
    assert meant(interview, **limits) == found


# Laws

TOOK = st.lists(st.floats(0.01, 10) | st.floats(-10, -0.01), min_size=1, max_size=130)


@given(TOOK, st.floats(0.1, 9), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from(["p50_s", "p95_s", "p99_s", "max_s"]))
def test_what_passes_by_bound_is_bounded_by_calls_and_by_blocks(
    took: list[float], cap: float, every_s: float, field: str
) -> None:
    one = timed("warm_c1", took, every_s=every_s)
    found = check(one, field.removesuffix("_s"), decide="bound", block_s=1, **{field: cap})
    if found.status != "pass":
        assert found.status == "fail" or found.remedy
        return
    assert isinstance(found.observed, Exact)
    assert math.isfinite(found.observed.value)
    assert found.observed.value <= cap
    if field != "max_s":
        q = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}[field]
        samples = [(at * every_s, value if value >= 0 else math.inf) for at, value in enumerate(took)]
        bounds = (order_bound([value for _, value in samples], q), block_bound(samples, q, block_s=1))
        assert all(bound is not None and bound <= cap for bound in bounds)


@given(TOOK, st.floats(0.1, 9), st.integers(1, 40))
def test_failed_calls_change_no_judgement_of_a_latency(took: list[float], cap: float, failed: int) -> None:
    without = check(timed("warm_c1", took), "p95", p95_s=cap)
    more = [*took, *([0.001] * failed)]
    with_them = check(
        timed("warm_c1", more, kinds=dict.fromkeys(range(len(took), len(more)), "http_5xx")), "p95", p95_s=cap
    )
    assert (with_them.status, with_them.observed) == (without.status, without.observed)


@given(TOOK, st.floats(0.1, 9))
def test_a_call_that_is_cut_never_makes_a_pass_of_a_failure(took: list[float], cap: float) -> None:
    before = check(timed("warm_c1", took), "p95", p95_s=cap).status
    after = check(timed("warm_c1", [*took, -10.0]), "p95", p95_s=cap).status
    assert not (before == "fail" and after == "pass")


@pytest.mark.parametrize("block_s", [1e-320, 1e-9, 0.0009, 90_000])
def test_a_block_that_is_no_span_of_time_is_refused(block_s: float) -> None:
    one = timed("warm_c1", [1.0] * 600)
    with pytest.raises(Problem, match=r"block_s: found .*, wanted a number >= 0\.001 and <= 86400"):
        raw(COLD, one, decide="bound", block_s=block_s, p95_s=2.0)
