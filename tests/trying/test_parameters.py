"""Parameters as the entries declare them."""

from typing import Any

import msgspec
import pytest

from drillmaster import faults
from drillmaster.errors import Problem
from drillmaster.trying.parameters import filled, parameters, parse, schema


def named(tag: str, name: str) -> Any:
    return next(one for one in parameters(faults.load(tag)) if one.name == name)


def test_units_bounds_and_defaults_are_those_of_the_entry() -> None:
    delay = named("first-byte-delay", "delay_ms")
    assert (delay.kind, delay.unit, delay.bounds, delay.default) == ("a whole number", "ms", "1 to 600,000", "")
    wait = named("rate-limit", "retry_after_s")
    assert (wait.kind, wait.unit, wait.default) == ("a number or null", "s", "null")
    assert wait.bounds == "above 0, at most 2,147,483,648"
    pace = named("body-drip", "bytes_per_s")
    assert (pace.unit, pace.bounds) == ("bytes a second", "0.01 to 1,000")
    assert named("cut-body", "how").kind == "fin, rst"
    assert named("daily-quota", "day_s").default == "86400"
    assert "None" not in named("stall", "after_events").description


@pytest.mark.parametrize("tag", faults.names())
def test_a_schema_names_every_parameter_and_no_other(tag: str) -> None:
    kind = faults.load(tag)
    shape = schema(kind)
    fields = msgspec.structs.fields(kind)
    assert list(shape["properties"]) == [field.name for field in fields]
    assert set(shape.get("required", ())) == {field.name for field in fields if field.required}
    assert shape["additionalProperties"] is False


@pytest.mark.parametrize("tag", faults.names())
def test_the_examples_of_an_entry_make_a_fault(tag: str) -> None:
    params, names = filled(tag, faults.load(tag), {})
    faults.make(tag, params)
    assert set(names) == set(params)


def test_what_is_given_is_kept_and_only_the_rest_is_an_example() -> None:
    kind = faults.load("rate-limit")
    assert filled("rate-limit", kind, {}) == ({"retry_after_s": 60}, ("retry_after_s",))
    assert filled("rate-limit", kind, {"form": "date"}) == ({"form": "date", "retry_after_s": 60}, ("retry_after_s",))
    assert filled("rate-limit", kind, {"form": "none"}) == ({"form": "none"}, ())
    assert filled("cut-body", faults.load("cut-body"), {"after_bytes": 7}) == ({"after_bytes": 7}, ())


@pytest.mark.parametrize(
    ("tag", "words", "params"),
    [
        ("cut-body", ("after_bytes=60", "how=fin"), {"after_bytes": 60, "how": "fin"}),
        ("status", ("html=true", "should_retry=null"), {"html": True, "should_retry": None}),
        ("wrong-model", ("model=4",), {"model": "4"}),  # text stays text, whatever it looks like
        ("wrong-model", ("model=a=b",), {"model": "a=b"}),
        ("weaker-answer", ("model=null",), {"model": None}),
        ("usage-skew", ("factor=1.3",), {"factor": 1.3}),
    ],
)
def test_words_are_read_as_the_parameter_takes_them(tag: str, words: tuple[str, ...], params: dict[str, Any]) -> None:
    assert parse(tag, faults.load(tag), words) == params


@pytest.mark.parametrize(
    ("tag", "words", "said"),
    [
        ("cut-body", ("after_bytes",), "NAME=VALUE"),
        ("cut-body", ("after_byts=1",), "did you mean after_bytes"),
        ("hang", ("x=1",), "hang has no parameters"),
        ("cut-body", ("how=fin", "how=rst"), "two values"),
        ("wrong-model", ("model=" + "x" * 3_000,), "3000 characters"),
    ],
)
def test_a_word_that_cannot_be_read_is_a_problem_with_a_remedy(tag: str, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Problem, match=said):
        parse(tag, faults.load(tag), words)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"after_bytes": "abc"}, '--param after_bytes: found "abc", wanted a whole number, bytes, 1 to 1,000,000,000'),
        ({"after_bytes": 0}, "--param after_bytes: found 0, wanted a whole number"),
        ({"after_bytes": True}, "--param after_bytes: found true"),
        ({"how": "slow"}, '--param how: found "slow", wanted fin, rst'),
    ],
)
def test_a_wrong_value_is_told_at_its_parameter_with_its_bounds(params: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem) as caught:
        filled("cut-body", faults.load("cut-body"), params)
    assert said in str(caught.value)
