"""Multi-window, multi-burn-rate."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.burn_rate import WORKBOOK, Pair, Tally, Watch, burning, rules_file, rules_test, span


def pair(**extra: Any) -> Pair:
    return Pair(**{"long_s": 300, "short_s": 30, "factor": 10.0, "severity": "sev2", **extra})


def watch(*pairs: Pair, target: float = 0.99, least: int = 0) -> Watch:
    return Watch(rule="ToolFailures", target=target, pairs=pairs or (pair(),), least=least)


def tally(*seconds: tuple[float, int, int]) -> Tally:
    made = Tally(300)
    for at_s, bad, events in seconds:
        made.add(at_s, bad, events)
    return made


def burns(found: Tally, now_s: float, **extra: Any) -> bool:
    return burning(watch(**extra), found, now_s)[0].burns


STEADY = [(float(second), 0, 10) for second in range(1, 301)]


def test_failures_burn_once_both_windows_say_so() -> None:
    failing = [(float(second), 5, 10) for second in range(301, 361)]
    found = tally(*STEADY, *failing)
    # a share above 0.1 over 300 s is 60 seconds of half: reached with the last of them, and not exceeded
    assert not burns(found, 359) and not burns(found, 360)
    found.add(361, 5, 10)
    assert burns(found, 361)


def test_it_stops_with_the_short_window() -> None:
    failing = [(float(second), 10, 10) for second in range(301, 361)]
    after = [(float(second), 0, 10) for second in range(361, 401)]
    found = tally(*STEADY, *failing, *after)
    assert burns(found, 385)  # 5 of the last 30 seconds failed
    assert not burns(found, 388)
    burn = burning(watch(), found, 388)[0]
    assert burn.long > 10 >= burn.short


def test_the_far_edge_of_a_window_is_not_in_it() -> None:
    found = tally((10, 1, 1), (40, 0, 1))
    assert found.counts(40, 30) == (0, 1)
    assert found.counts(39.5, 30) == (1, 1)


def test_an_event_is_of_the_second_that_it_falls_into() -> None:
    found = tally((12.3, 1, 1))
    assert found.counts(12.9, 30) == (0, 0)
    assert found.counts(13, 30) == (1, 1)


def test_nothing_is_no_burn_and_too_few_are_none() -> None:
    assert not burns(Tally(300), 100)
    assert burns(tally((100, 1, 1)), 100)
    assert not burns(tally((100, 1, 1)), 100, least=2)
    assert burns(tally((99, 1, 1), (100, 1, 1)), 100, least=2)


EVENTS = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3), st.integers(1, 5)), max_size=60)


@given(EVENTS, st.integers(600, 900), st.integers(1, 300))
def test_a_tally_counts_what_a_list_counts(events: list[tuple[int, int, int]], now_s: int, window_s: int) -> None:
    found = Tally(300)
    for at_s, bad, more in events:
        found.add(at_s, bad, bad + more)
    inside = [(bad, bad + more) for at_s, bad, more in events if now_s - window_s < at_s <= now_s]
    latest = max((at_s for at_s, _, _ in events), default=0)
    if now_s - window_s >= latest - 300:  # what is older is forgotten, in time
        assert found.counts(now_s, window_s) == (sum(bad for bad, _ in inside), sum(all_ for _, all_ in inside))


@given(EVENTS, st.integers(0, 900))
def test_one_more_failure_never_makes_it_burn_less(events: list[tuple[int, int, int]], now_s: int) -> None:
    found, worse = Tally(300), Tally(300)
    for at_s, bad, more in events:
        found.add(at_s, bad, bad + more)
        worse.add(at_s, bad + 1, bad + more)
    for one, other in zip(burning(watch(), found, now_s), burning(watch(), worse, now_s), strict=True):
        assert other.long >= one.long and other.short >= one.short


def test_a_long_watch_forgets_what_is_older_than_its_longest_window() -> None:
    found = Tally(10)
    for second in range(10_000):
        found.add(second, 1, 2)
    assert len(found._seconds) < 200
    assert found.counts(9_999, 10) == (10, 20)


@pytest.mark.parametrize(
    "extra",
    [{"long_s": 30}, {"short_s": 0}, {"factor": 0}, {"factor": math.nan}, {"factor": math.inf}, {"long_s": 10**9}],
)
def test_what_is_no_pair_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"window|factor"):
        pair(**extra)


@pytest.mark.parametrize("target", [0, 1, -1, 2, math.nan])
def test_a_target_leaves_a_budget(target: float) -> None:
    with pytest.raises(ValueError, match="target"):
        watch(target=target)


def test_a_factor_that_no_share_of_failures_reaches_is_refused() -> None:
    with pytest.raises(ValueError, match="more failures than there are calls"):
        watch(pair(factor=14.4), target=0.9)


def test_the_rules_of_prometheus_say_the_same_windows_and_factors() -> None:
    pairs = [pair(long_s=long_s, short_s=short_s, factor=factor) for long_s, short_s, factor in WORKBOOK]
    text = rules_file(watch(*pairs, least=20), bad="bad_total", total='all_total{job="a"}', every_s=15)
    assert (
        "(ToolFailures:failed_share:rate1h > (14.4 * 0.01) and ToolFailures:failed_share:rate5m > (14.4 * 0.01)" in text
    )
    assert "or (ToolFailures:failed_share:rate6h > (6 * 0.01) and ToolFailures:failed_share:rate30m" in text
    assert 'sum(rate(bad_total[3d])) / sum(rate(all_total{job="a"}[3d]))' in text
    assert 'sum(increase(all_total{job="a"}[5m])) >= 20' in text
    assert "interval: 15s" in text


def test_the_test_for_promtool_expects_alerts_and_none() -> None:
    text = rules_test(watch(), rules="a.yml", bad="b", total="t{x='y'}", every_s=5, share=0.5)
    assert text.count("exp_alerts: []") > 10 and text.count("severity: sev2") > 3
    assert "series: 't{x=''y''}'" in text


@pytest.mark.parametrize(("seconds", "said"), [(90, "90s"), (300, "5m"), (3_600, "1h"), (259_200, "3d"), (1, "1s")])
def test_a_window_is_written_as_prometheus_does(seconds: int, said: str) -> None:
    assert span(seconds) == said
