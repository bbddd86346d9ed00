"""Payload sets, line by line: what each is, and what is wrong with one that is none."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.ladder.payloads import fill, read_payloads


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "set.jsonl"),
        (b'"a"\n3\n', "set.jsonl:2"),
        (b'"a"\n"  "\n', "set.jsonl:2"),
        (b'{"a":1,"a":2}', "set.jsonl:1"),
        (b'"a"\n{"n": NaN}', "set.jsonl:2"),
        (b'"a"\n[]', "set.jsonl:2"),
        (b'["a", "b"]', "set.jsonl:1"),  # an answer at the end
        (b'["a", "b", 3]', "set.jsonl:1: /2"),
        (b'["a", {"b": 1}, "c"]', "set.jsonl:1: /1"),
        (b'[{"b": 1}, "c"]', "set.jsonl:1: /1"),
        (b'["a", " ", "c"]', "set.jsonl:1: /1"),
        (b'[["a"]]', "set.jsonl:1: /0"),
        (b'[{"role": "user", "content": "a"}]', "set.jsonl:1"),
    ],
)
def test_a_payload_set_that_is_none_is_refused_at_its_line(data: bytes, place: str) -> None:
    with pytest.raises(Problem) as caught:
        read_payloads(data, place="set.jsonl")
    assert caught.value.place.startswith(place)


def test_a_line_is_a_prompt_a_body_or_a_session_and_knows_where_it_stands() -> None:
    read = read_payloads(b'"a"\n\n{"b": 1}\r\n["c", "d", "e"]\n', place="set.jsonl")
    assert [one.place for one in read] == ["set.jsonl:1", "set.jsonl:3", "set.jsonl:4"]
    assert [one.value for one in read] == ["a", {"b": 1}, ["c", "d", "e"]]


@pytest.mark.parametrize(
    ("data", "place", "said"),
    [
        (b"", "set.csv", "nothing"),
        (b"q,k\n", "set.csv", "no row"),
        (b"q,k\na\n", "set.csv:2", "1 fields"),
        (b"q,k\na,b\n\na,b,c\n", "set.csv:4", "3 fields"),
        (b'q,k\n"a\nb",c\n"d\n', "set.csv:4", "unexpected end"),
        (b'q\na"b"\n"c"d\n', "set.csv:3", "expected after"),
        (b"q,q\na,b\n", "set.csv:1", "'q' twice"),
        (b"q,\na,b\n", "set.csv:1", "as column 2"),
        (b"q,n\na,b\n", "set.csv:1", "a column n"),
        (b"{q}\na\n", "set.csv:1", "'{q}' as column 1"),
        (b"\xef\xbb\xbfq\na\n", "set.csv:1", "byte order mark"),
        (b"q\na\n\xff\n", "set.csv:3", "0xff"),
    ],
)
def test_csv_that_is_none_is_refused_at_its_line(data: bytes, place: str, said: str) -> None:
    with pytest.raises(Problem) as caught:
        read_payloads(data, place="set.csv")
    assert caught.value.place == place
    assert said in caught.value.found


text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=20)


@given(rows=st.lists(st.tuples(text, text), min_size=1, max_size=10))
def test_what_a_csv_writer_wrote_is_read_as_it_was(rows: list[tuple[str, str]]) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["q", "k"])
    writer.writerows(rows)
    read = read_payloads(file.getvalue().encode(), place="set.CSV")
    assert [(one.value["q"], one.value["k"]) for one in read] == rows


def test_a_row_knows_the_line_that_it_begins_on() -> None:
    read = read_payloads(b'q\n"a\nb"\nc\n', place="set.csv")
    assert [one.place for one in read] == ["set.csv:2", "set.csv:4"]


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("{q}", "1"),
        ("{q}{k}{q}", "121"),
        ("{{q}}", "{q}"),
        ("{n} {q}", "{n} 1"),
        ('{"q": "{q}"}', '{"q": "1"}'),
        ("{}{ }{1}", "{}{ }{1}"),
        ("{k", "{k"),
    ],
)
def test_braces_that_are_no_name_stay_as_they_are(template: str, wanted: str) -> None:
    assert fill(template, {"q": "1", "k": "2"}, place="x") == wanted


def test_a_field_that_is_too_long_is_told_so() -> None:
    with pytest.raises(Problem, match=r"set\.csv:2: found a field of over 1,048,576 letters, .*write the set as JSONL"):
        read_payloads(b"text\n" + b"y" * 1_048_577 + b"\n", place="set.csv")
