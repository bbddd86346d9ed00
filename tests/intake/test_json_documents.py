"""Documents behind one another: where each ends, and that each is read as the strict loader reads it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.intake.json_documents import documents


def documents_of(data: bytes) -> Iterator[tuple[Any, int]]:
    return documents(data, "x", wanted="rows", how="write rows")


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3), min_size=1, max_size=5), st.data()
)
def test_documents_behind_one_another_are_parted_whatever_lies_between(
    rows: list[dict[str, str]], data: st.DataObject
) -> None:
    gap = st.sampled_from(["", "\n", " \n\n", "\r\n"])
    indent = data.draw(st.sampled_from([None, 2]))
    text = "".join(json.dumps(row, indent=indent) + data.draw(gap) for row in rows)
    try:
        found = list(documents_of(text.encode("utf-8", "surrogatepass")))
    except Problem:
        return  # a name that the strict loader does not take
    assert [value for value, _ in found] == rows
    assert found[0][1] == 1


TEXTS = st.sampled_from(["a", "b", "é", "\x7f", "e\u0301", 'q"', "\\", "\u0000", "{", "]", "1e5", ",1234567890123456"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=400)
@given(
    rows=st.lists(VALUES.filter(lambda one: isinstance(one, dict | list)), min_size=1, max_size=3), twice=st.booleans()
)
@example(rows=[{"a": [1], "b": {}}], twice=True)
@example(rows=[{"a": float("nan")}], twice=False)
@example(rows=[{"a": 2**53}], twice=False)
@example(rows=[{"a": [2**53]}], twice=False)
@example(rows=[{"a": 1e300}], twice=False)
def test_documents_are_read_as_the_strict_loader_reads_each(rows: list[Any], twice: bool) -> None:
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    if twice:
        texts = [text.replace('"b"', '"a"') for text in texts]
    data = "\n".join(texts).encode("utf-8", "surrogatepass")
    try:
        wanted = [strict.load(text.encode("utf-8", "surrogatepass"), place="x", fmt="json") for text in texts]
    except Problem:
        with pytest.raises(Problem):
            list(documents_of(data))
        return
    assert list(documents_of(data)) == [(value, line) for line, value in enumerate(wanted, 1)]


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b'{"a": 1}\n{"a": 1, "a": 2}', "x:2"),
        (b'{"a": 1}\n\n{"a": "\xff"}', "x:3"),
        (b'{"a": 1}\n{"a": NaN}', "x:2"),
        (b'{"a": 1}\n{"a": 1e999}', "x:2"),
        (b'{"a": 1}{"a": ' + b"9" * 5000 + b"}", "x:1"),
        (b'\xef\xbb\xbf{"a": 1}', "x:1"),
        (b'{"a": 1}\n{"a": ', "x:2"),
        (b'{"a": 1},\n{"a": 1}', "x:1"),
        (b"[" * (strict.MAX_DEPTH + 1) + b"]" * (strict.MAX_DEPTH + 1), "x:1"),
        (b"[" * 100_000, "x:1"),
        (b'{"a": 1}\x00', "x:1"),
        (b'{"a": "\\ud800"}', "x:1"),
    ],
)
def test_what_the_strict_loader_refuses_is_refused_with_its_line(data: bytes, where: str) -> None:
    with pytest.raises(Problem) as told:
        list(documents_of(data))
    assert told.value.place == where and told.value.remedy
    assert "x:" not in told.value.remedy  # a command in it names the file


def test_many_documents_that_need_a_closer_look_cost_no_more_than_their_length() -> None:
    row = '{"a": "é"}\n'
    assert len(list(documents_of((row * 20_000).encode()))) == 20_000
