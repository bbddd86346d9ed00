"""A test's words for a fault, read as rules or refused."""

from typing import Any

import pytest

from drillmaster.backstage.asking import rule_of, rules_of, shown
from drillmaster.errors import Problem
from drillmaster.targeting import Rule, When


def rule(mode: object, params: object = None, **words: Any) -> Rule:
    return rule_of(mode, params, words, "here")


@pytest.mark.parametrize(
    ("mode", "params", "words", "wanted"),
    [
        ("503", {}, {}, Rule(mode="503")),
        (503, {}, {}, Rule(mode="503")),
        ("stall", {}, {"after_events": 3}, Rule(mode="stall", params={"after_events": 3})),
        ("stall", {"after_events": 3}, {"first": 1}, Rule(mode="stall", params={"after_events": 3}, first=1)),
        ("503", {}, {"when": {"model": "a*", "stream": True}}, Rule(mode="503", when=When(model="a*", stream=True))),
        ("503", {}, {"nth": (1, 3), "name": "odd"}, Rule(mode="503", nth=(1, 3), name="odd")),
        ("stale-keep-alive", {"nth": 3}, {}, Rule(mode="stale-keep-alive", params={"nth": 3})),
    ],
)
def test_a_word_is_the_rules_or_the_faults(mode: object, params: Any, words: Any, wanted: Rule) -> None:
    assert rule(mode, params, **words) == wanted


@pytest.mark.parametrize(
    ("mode", "params", "words", "said"),
    [
        ("", {}, {}, "drillmaster fault list"),
        ("stll", {}, {}, "did you mean stall"),
        (None, {}, {}, "wanted a fault's tag"),
        (True, {}, {}, "wanted a fault's tag"),
        ("stall", {}, {"frist": 1}, "did you mean first"),
        ("stall", {}, {"after_event": 1}, "did you mean after_events"),
        ("503", {}, {"may_mis": True}, "did you mean may_miss"),
        ("stale-keep-alive", {}, {"nth": 2}, "wanted one of the two"),  # of the rule, or of the fault?
        ("tool-unknown", {}, {"name": "x"}, "wanted one of the two"),
        (
            "stall",
            {},
            {"after_events": -1},
            "here: fault stall: found after_events=-1, wanted after_events as `int` >= 0",
        ),
        ("stall", {}, {"after_events": "3"}, "found after_events='3', wanted after_events as `int | null`"),
        ("stall", {"after_events": 3}, {"after_events": 1}, "here: found after_events twice"),
        ("stall", 3, {}, "found params=3, wanted a mapping"),
        ("504", {}, {}, "here: fault: found '504'"),  # and not "did you mean 503"
        (504, {}, {}, "any status is the fault `status`, with the parameter status=504"),
        ("503", {}, {"first": 0}, "here: /first: found 0, wanted at least 1; correct it"),
        ("503", {}, {"share": 7.0}, "here: /share: found 7.0, wanted 0 < share <= 1"),
        ("refused", {}, {"first": 1}, "here: /mode: found refused, which acts on the port before"),
        ("503", {}, {"when": {"modell": "x"}}, "model"),
        ("503", {}, {"first": "1"}, "first"),
    ],
)
def test_what_is_neither_or_both_is_refused(mode: object, params: Any, words: Any, said: str) -> None:
    with pytest.raises(Problem) as raised:
        rule(mode, params, **words)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            [{"mode": "503"}, {"mode": "stall", "params": {"after_events": -1}}],
            "here: /1: fault stall: found after_events",
        ),
        ([{"mode": "503"}, {"mode": "stll"}], "here: /1: fault: found 'stll'"),
        ([{"mode": "503"}, {"mode": "503", "first": 0}], "here: /1/first: found 0"),
        (
            [{"mode": "503", "name": "a"}, {"mode": "hang", "name": "a"}],
            "here: /1/name: found 'a', wanted a name of its",
        ),
        ([{"mode": "503"}, {"mode": "refused"}], "here: /1/mode: found refused, which acts on the port"),
        ([{"mode": "503"}, {"mode": "hang", "may_miss": "no"}], "here: /1: found may_miss='no', wanted True or False"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_number(rules: Any, said: str) -> None:
    with pytest.raises(Problem) as raised:
        rules_of(rules, "here")
    assert said in str(raised.value)


def test_rules_say_for_themselves_whether_they_may_miss() -> None:
    given, missing = rules_of([{"mode": "503"}, {"mode": "hang", "may_miss": True}, Rule(mode="reset")], "here")
    assert [one.tag for one in given] == ["503", "hang", "reset"]
    assert missing == {1}


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([], "found no rule"),
        ([{}], "mode"),
        ([{"mode": "stll"}], "did you mean stall"),
        ([{"mode": "503", "frist": 1}], "first"),
        ([Rule(mode="stall", params={"after_events": -1})], ">= 0"),
    ],
)
def test_senseless_rules_are_refused(rules: Any, said: str) -> None:
    with pytest.raises(Problem) as raised:
        rules_of(rules, "here")
    assert said in str(raised.value)


def test_a_rule_is_shown_as_it_was_written_and_without_secrets() -> None:
    assert shown(rule("503")) == "503"
    assert shown(rule("stall", after_events=3, first=1)) == "stall(after_events=3, first=1)"
    secret = "sk-" + "a1B2" * 8
    assert secret not in shown(rule("503", when={"header": {"authorization": secret}}))
