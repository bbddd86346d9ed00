"""The arithmetic of an alert's delay."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules._alert_expr import crossing, duration_s, matchers_of
from drillmaster.rules.alert_delay import (
    At,
    Estimate,
    Facts,
    Inhibit,
    Matcher,
    Recording,
    Route,
    Rule,
    against,
    estimate,
    routes_of,
)


def at(seconds: float) -> At:
    return At(seconds, "file:1")


def rule(**extra: Any) -> Rule:
    plain: dict[str, Any] = {
        "name": "ToolFailures",
        "place": "rules.yml:4",
        "expression": "rate(tool_failures_total[5m]) > 0",
        "group": "agent",
        "interval": at(60),
        "held": at(0),
        "labels": {"severity": "sev2"},
    }
    return Rule(**{**plain, **extra})


def facts(**extra: Any) -> Facts:
    plain: dict[str, Any] = {
        "scrapes": {"agent": at(60)},
        "rule": rule(),
        "route": Route(place="am:1", receiver="pager"),
    }
    return Facts(**{**plain, **extra})


def of(found: Facts, **asked: Any) -> Estimate:
    said = estimate(found, **asked)
    assert said is not None
    return said


def test_stock_prometheus_and_alertmanager_take_150_s_at_worst_and_30_at_best() -> None:
    found = of(facts())
    assert (found.best_s, found.worst_s) == (30, 150)
    assert found.sum == "scrape 60 + evaluation 60 + group_wait 30"
    assert against(found, 60) == (
        "unsure",
        "60 s is not certain: scrape 60 + evaluation 60 + group_wait 30 = 150 s at worst",
    )
    assert against(found, 151)[0] == "fits"


def test_what_takes_as_long_as_the_limit_at_best_is_impossible() -> None:
    found = of(facts(rule=rule(held=at(60))))
    assert against(found, 90) == ("impossible", "90 s is impossible: for 60 + group_wait 30 = 90 s at best")
    assert against(found, 91)[0] == "unsure"


@pytest.mark.parametrize(
    ("held", "interval", "taken"), [(60, 60, 60), (61, 60, 120), (10, 15, 15), (30, 15, 30), (1, 60, 60)]
)
def test_for_is_held_out_in_whole_evaluations(held: float, interval: float, taken: float) -> None:
    found = of(facts(rule=rule(held=at(held), interval=at(interval))))
    (term,) = [term for term in found.terms if term.name == "for"]
    assert (term.best_s, term.worst_s) == (taken, taken)


def test_a_query_offset_is_always_added() -> None:
    found = of(facts(rule=rule(query_offset=at(20))))
    assert (found.best_s, found.worst_s) == (50, 170)


@pytest.mark.parametrize(
    ("scrapes", "asked", "expression", "worst"),
    [
        ({"a": 15, "b": 60}, None, "x > 0", 60),  # not said: the slowest
        ({"a": 15, "b": 60}, "a", "x > 0", 15),
        ({"a": 15, "b": 60}, None, 'x{job="a"} > 0', 15),
        ({"a": 15, "b": 60}, None, 'x{job="a"} / y{job="b"} > 0', 60),
        ({"a": 15}, None, "x > 0", 15),
    ],
)
def test_the_scrape_is_that_of_the_job_that_is_read(
    scrapes: dict[str, float], asked: str | None, expression: str, worst: float
) -> None:
    found = of(
        facts(scrapes={name: at(seconds) for name, seconds in scrapes.items()}, rule=rule(expression=expression)),
        job=asked,
    )
    assert found.terms[0].worst_s == worst


RATIO = "sum(rate(bad[5m])) / sum(rate(all[5m])) > 0.1"


@pytest.mark.parametrize(
    ("expression", "share", "best", "worst"),
    [
        ("up == 0", None, 0, 0),
        ("tool_failures > 5", None, 0, 0),
        ("rate(bad[5m]) > 0", None, 0, 0),
        ("0 < rate(bad[5m])", None, 0, 0),
        ("increase(bad[1m]) > 0", None, 0, 0),
        ("rate(bad[5m]) > 3", None, 0, None),
        (RATIO, None, 30, None),
        (RATIO, 1.0, 30, 30),
        (RATIO, 0.5, 60, 60),
        (RATIO, 0.1, math.inf, math.inf),
        (f"({RATIO})", 0.5, 60, 60),
        ("sum by (job) (rate(bad[5m])) / sum by (job) (rate(all[5m])) > (14.4 * 0.001)", 1.0, 4.32, 4.32),
        ("1 - sum(rate(good[5m])) / sum(rate(all[5m])) > 0.1", 0.5, 60, 60),
        ("sum(rate(good[5m])) / sum(rate(all[5m])) < 0.9", 0.5, 60, 60),
        (f"{RATIO} and sum(rate(bad[1h])) / sum(rate(all[1h])) > 0.1", 1.0, 360, 360),
        (f"{RATIO} or sum(rate(bad[1h])) / sum(rate(all[1h])) > 0.1", 1.0, 30, 30),
        (f"({RATIO}) and on() (up == 1)", 1.0, 30, 30),
        (f"{RATIO} and rate(bad[5m]) > 3", 1.0, 30, None),
        (f"{RATIO} unless maintenance == 1", 1.0, 30, None),
        ("histogram_quantile(0.95, sum by (le) (rate(b_bucket[5m]))) > 2.5", 1.0, 0, None),
        ("rate(bad[5m])", 1.0, 0, None),
        ("rate(bad[5m]) / rate(all[1h]) > 0.1", 1.0, 0, None),
        ("job:bad:ratio5m > 0.1", 0.5, 60, 60),
        ('job:bad:ratio5m{job="a > b and c"} > 0.1', 0.5, 60, 60),
        ("absent(up) # and rate(x[5m]) > 3", None, 0, 0),
        (RATIO.replace("0.1", "1"), 1.0, math.inf, None),
        ("((((", None, 0, 0),
        ("", None, 0, 0),
    ],
)
def test_a_condition_crosses_when_its_form_says(
    expression: str, share: float | None, best: float, worst: float | None
) -> None:
    found = crossing(expression, {"job:bad:ratio5m": "sum(rate(bad[5m])) / sum(rate(all[5m]))"}, share)
    assert found.best_s == pytest.approx(best)
    assert found.worst_s is None if worst is None else found.worst_s == pytest.approx(worst)


def test_recording_rules_without_an_end_are_unknown() -> None:
    for recorded in ({"a": "a + a"}, {"a": "b", "b": "a"}, {"a": "x" * 50_000}, {"a": " + ".join(["a"] * 5_000)}):
        found = crossing("a + a > 0", recorded, 0.5)
        assert found.worst_s is None and "recording rules" in found.why


@given(st.text(max_size=200))
def test_no_expression_breaks_the_reader(expression: str) -> None:
    found = crossing(expression, {"x": "x"}, 0.5)
    assert found.best_s >= 0 and found.why
    matchers_of(expression)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1m", 60), ("1h30m", 5_400), ("1d", 86_400), ("500ms", 0.5), ("0", 0), ("0s", 0), ("1y2w", 32_745_600),
     ("", None), ("60", None), ("1m30", None), ("30s1m", None), ("-1m", None), ("1.5m", None), ("1M", None), ("²s", None)],
)  # fmt: skip  # one text a piece
def test_a_duration_is_read_as_prometheus_does(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


def test_a_recording_rule_of_another_group_is_evaluated_before() -> None:
    recordings = {
        "job:bad:ratio5m": Recording(expression="rate(bad[5m]) / rate(all[5m])", group="other", interval=at(45)),
        "job:unused": Recording(expression="x", group="other", interval=at(600)),
    }
    found = of(facts(recordings=recordings, rule=rule(expression="job:bad:ratio5m > 0.1")), share=0.5)
    assert [(term.name, term.worst_s) for term in found.terms] == [
        ("scrape", 60),
        ("crossing", 60),
        ("recording", 45),
        ("evaluation", 60),
        ("group_wait", 30),
    ]


def m(label: str, op: str, value: str) -> Matcher:
    return Matcher(label=label, op=op, value=value)


ROOT = Route(
    place="am:1",
    receiver="default",
    group_wait=at(10),
    routes=(
        Route(
            place="am:2", receiver="audit", matchers=(m("severity", "=~", "sev."),), continues=True, group_wait=at(0)
        ),
        Route(
            place="am:3",
            matchers=(m("severity", "=", "sev2"),),
            receiver="team",
            routes=(
                Route(place="am:4", matchers=(m("team", "=", "agents"),), receiver="pager", group_interval=at(5)),
                Route(place="am:5", matchers=(m("team", "!=", ""),), receiver="other"),
            ),
        ),
        Route(place="am:6", receiver="never", matchers=(m("severity", "=", "sev2"),)),
    ),
)


@pytest.mark.parametrize(
    ("labels", "taken"),
    [
        ({"severity": "sev2", "team": "agents"}, [("audit", 0, 300), ("pager", 10, 5)]),
        ({"severity": "sev2", "team": "x"}, [("audit", 0, 300), ("other", 10, 300)]),
        ({"severity": "sev2"}, [("audit", 0, 300), ("team", 10, 300)]),
        ({"severity": "sev33"}, [("default", 10, 300)]),  # an expression matches the whole value
        ({}, [("default", 10, 300)]),
    ],
)
def test_a_route_is_found_as_alertmanager_finds_it(labels: dict[str, str], taken: list[Any]) -> None:
    assert [(one.receiver, one.group_wait.s, one.group_interval.s) for one in routes_of(ROOT, labels)] == taken


def test_an_estimate_is_of_the_receiver_that_was_asked_for() -> None:
    found = of(facts(route=ROOT), receiver="pager", labels={"team": "agents"})
    assert (found.receiver, found.best_s, found.also) == ("pager", 10, ("audit",))
    assert estimate(facts(route=ROOT), receiver="nobody") is None


@pytest.mark.parametrize(
    ("extra", "labels", "taken"),
    [
        ({}, {}, "root"),
        ({"labels": {"team": "agents"}}, {}, "pager"),
        ({"labels": {"team": "{{ $labels.team }}"}}, {}, "root"),  # unknown until it is said
        ({"labels": {"team": "{{ $labels.team }}"}}, {"team": "agents"}, "pager"),
        ({"expression": 'sum(rate(bad{team="agents"}[5m])) > 0'}, {}, "root"),  # the sum has no labels
    ],
)
def test_labels_that_are_not_known_are_taken_for_absent_and_said(
    extra: dict[str, Any], labels: dict[str, str], taken: str
) -> None:
    route = Route(
        place="am:1",
        receiver="root",
        routes=(Route(place="am:2", receiver="pager", matchers=(m("team", "=", "agents"),)),),
    )
    found = of(facts(route=route, rule=rule(**extra)), labels=labels)
    assert found.receiver == taken
    assert any("(team)" in note for note in found.notes) is (taken == "root")


def test_a_rules_own_label_goes_before_an_external_one() -> None:
    route = Route(
        place="am:1",
        receiver="root",
        routes=(Route(place="am:2", receiver="pager", matchers=(m("severity", "=", "sev2"),)),),
    )
    assert of(facts(route=route, external_labels={"severity": "sev5"})).receiver == "pager"


def test_what_is_in_no_sum_is_said() -> None:
    inhibit = Inhibit(place="am:9", source=(m("alertname", "=", "Down"),), target=(m("severity", "=", "sev2"),))
    elsewhere = Inhibit(place="am:10", source=(), target=(m("severity", "=", "sev3"),))
    found = of(
        facts(
            route=Route(
                place="am:1",
                receiver="pager",
                muted_by=("weekends",),
                routes=(Route(place="am:2", matchers=(m("x", "=", "y"),)),),
            ),
            inhibits=(inhibit, elsewhere),
            rule=rule(keep_firing=at(300)),
            notes=("read elsewhere",),
        )
    )
    said = "\n".join(found.notes)
    for words in (
        "read elsewhere",
        "group_interval 300 s",
        "weekends",
        'alertname="Down"',
        "keeps firing 300 s",
        "(x)",
    ):
        assert words in said
    assert "am:10" not in said


def test_an_alert_that_never_fires_is_impossible_whatever_the_limit() -> None:
    found = of(facts(rule=rule(expression=RATIO)), share=0.05)
    verdict, said = against(found, 10_000)
    assert verdict == "impossible" and "never" in said


def test_what_is_unknown_is_not_certain() -> None:
    found = of(facts(rule=rule(expression=RATIO)))
    assert found.worst_s is None
    assert against(found, 10_000) == (
        "unsure",
        "10000 s is not certain: scrape 60 + crossing unknown + evaluation 60 + group_wait 30",
    )


@given(*(st.integers(0, 600) for _ in range(3)), st.integers(1, 600))
def test_the_worst_case_is_never_better_than_the_best(scrape: int, held: int, wait: int, interval: int) -> None:
    found = of(
        facts(
            scrapes={"a": at(scrape)},
            rule=rule(held=at(held), interval=at(interval)),
            route=Route(place="r", receiver="p", group_wait=at(wait)),
        )
    )
    assert found.worst_s is not None and found.best_s <= found.worst_s
    assert found.worst_s - found.best_s == scrape + interval
