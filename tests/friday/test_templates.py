"""Placeholders in paths, headers and bodies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.friday.templates import (
    Unfit,
    header_template,
    json_template,
    names_in,
    path_template,
    text_template,
)

_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-99, 99), st.text('ab"\\\n{}é', max_size=6)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(value=_VALUES)
def test_a_string_of_one_placeholder_is_the_value_itself(value: Any) -> None:
    assert json.loads(json_template({"a": "{{ x }}"}).fill({"x": value})) == {"a": value}


@given(value=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_value_within_text_stays_text_whatever_it_holds(value: str) -> None:
    filled = json_template([{"say": "<{{x}}>", "{{x}}": 1}]).fill({"x": value})
    assert json.loads(filled) == [{"say": f"<{value}>", value: 1}] or value == "say"


@given(value=_JSON)
def test_json_without_placeholders_is_the_same_json(value: Any) -> None:
    text = json.dumps(value)
    if "{{" not in text:
        assert json.loads(json_template(value).fill({})) == value


def test_a_value_is_never_a_template() -> None:
    assert text_template("{{ a }} {{ b }}").fill({"a": "{{ b }}", "b": "2"}) == "{{ b }} 2"
    assert json.loads(json_template("{{ a }}{{ b }}").fill({"a": "{{ b }}", "b": 2})) == "{{ b }}2"


def test_what_is_no_text_is_spelled_as_json_within_text() -> None:
    assert (
        text_template("{{a}} {{b}} {{c}} {{d}}").fill({"a": True, "b": None, "c": 1, "d": [1, "é"]})
        == 'true null 1 [1,"é"]'
    )


def test_a_path_is_percent_encoded() -> None:
    assert path_template("/t/{{ id }}?q={{q}}").fill({"id": "a/b c", "q": "é&x"}) == "/t/a%2Fb%20c?q=%C3%A9%26x"


@pytest.mark.parametrize("value", ["a\r\nX: 1", "a\nb", "é", "\x00"])
def test_a_header_takes_no_value_that_would_be_another_line(value: str) -> None:
    with pytest.raises(Unfit):
        header_template("Bearer {{ t }}").fill({"t": value})
    assert header_template("Bearer {{ t }}").fill({"t": "abc"}) == "Bearer abc"


def test_what_is_not_known_is_unfit() -> None:
    with pytest.raises(Unfit, match="ticket is not known"):
        text_template("{{ ticket }}").fill({})


def test_names_are_found_wherever_text_is() -> None:
    assert set(names_in(({"{{ a }}": ["{{b}}", {"c": "x {{ $d(1, 2) }} y"}], "n": 1}, "{{e}}", None))) == {
        "a",
        "b",
        "$d(1, 2)",
        "e",
    }
