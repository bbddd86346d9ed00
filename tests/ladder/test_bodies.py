"""How the prompt, a row, a session is worded for each API, and what their digest tells apart."""

import json
from typing import Any

import pytest

from drillmaster.engines import Shot
from drillmaster.engines.shots import Shots
from drillmaster.errors import Problem
from drillmaster.ladder.bodies import Frozen, fixed_headers, frozen, payload_sha256
from drillmaster.ladder.payloads import read_payloads
from tests.ladder.test_checking import found, plan


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ({}, '{"prompt":"Why?"}'),
        ({"model": "m"}, '{"model":"m","prompt":"Why?"}'),
        (
            {"dialect": "openai_chat", "model": "m", "stream": True, "max_tokens": 9},
            '{"model":"m","messages":[{"role":"user","content":"Why?"}],"max_tokens":9,"stream":true,'
            '"stream_options":{"include_usage":true}}',
        ),
        ({"dialect": "openai_responses", "model": "m"}, '{"model":"m","input":"Why?"}'),
        (
            {"dialect": "anthropic", "model": "m"},
            '{"model":"m","max_tokens":1024,"messages":[{"role":"user","content":"Why?"}]}',
        ),
        ({"dialect": "gemini", "stream": True}, '{"contents":[{"role":"user","parts":[{"text":"Why?"}]}]}'),
        (
            {"dialect": "ollama", "model": "m"},
            '{"model":"m","messages":[{"role":"user","content":"Why?"}],"stream":false}',
        ),
        ({"method": "GET"}, ""),
    ],
)
def test_the_prompt_is_put_in_each_apis_words(target: dict[str, Any], body: str) -> None:
    one = plan({**target, "prompt": "Why?"})
    assert found(one) == []
    assert frozen(one.target, None, place="x") == Frozen((body,))


def worded(lines: bytes, target: dict[str, Any], *, name: str = "set.jsonl") -> Frozen:
    one = plan({"payloads": name, **target})
    assert found(one) == []
    return frozen(one.target, read_payloads(lines, place=name), place="x")


def test_a_payload_set_holds_prompts_and_whole_bodies() -> None:
    sent = worded(b'"a"\n\n{"messages": [1]}\r\n', {"dialect": "openai_chat", "model": "m"})
    assert sent == Frozen(('{"model":"m","messages":[{"role":"user","content":"a"}]}', '{"model":"m","messages":[1]}'))


@pytest.mark.parametrize(("url", "named"), [("ws://127.0.0.1/talk", False), ("http://127.0.0.1/v1/chat", True)])
def test_a_session_of_prompts_names_a_dialect_where_there_can_be_one(url: str, named: bool) -> None:
    with pytest.raises(Problem) as raised:
        worded(b'["a","b","c"]\n', {"url": url})
    assert "write [{...}, {...}], one whole " in raised.value.remedy
    assert ("--dialect" in raised.value.remedy) is named
    assert ("dialect" in raised.value.wanted) is named


def test_the_digest_is_of_all_that_is_asked() -> None:
    target = plan().target
    one = Frozen(('{"a":1}', '{"b":1}'))
    digests = [
        payload_sha256(target, one, path="/a"),
        payload_sha256(target, one, path="/b"),
        payload_sha256(target, Frozen(one.bodies[:1]), path="/a"),
        payload_sha256(target, Frozen(one.bodies, (2,)), path="/a"),
        payload_sha256(target, Frozen(one.bodies, (1, 1)), path="/a"),
    ]
    assert len(set(digests)) == 5


@pytest.mark.parametrize(
    ("dialect", "last"),
    [
        ("openai_chat", {"messages": [["user", "Hi"], ["assistant", "Yes?"], ["user", "Why?"]]}),
        ("mistral", {"messages": [["user", "Hi"], ["assistant", "Yes?"], ["user", "Why?"]]}),
        ("anthropic", {"messages": [["user", "Hi"], ["assistant", "Yes?"], ["user", "Why?"]]}),
        ("ollama", {"messages": [["user", "Hi"], ["assistant", "Yes?"], ["user", "Why?"]]}),
        ("openai_responses", {"input": [["user", "Hi"], ["assistant", "Yes?"], ["user", "Why?"]]}),
        ("gemini", {"contents": [["user", "Hi"], ["model", "Yes?"], ["user", "Why?"]]}),
    ],
)
def test_a_later_turn_holds_what_was_said_before_it(dialect: str, last: dict[str, Any]) -> None:
    sent = worded(b'["Hi", "Yes?", "Why?"]\n"alone"\n', {"dialect": dialect, "model": "m"})
    assert sent.turns == (2, 1)
    assert len(sent.bodies) == 3
    [(field, said)] = last.items()
    messages = json.loads(sent.bodies[1])[field]
    texts = [one["content"] if "content" in one else one["parts"][0]["text"] for one in messages]
    assert [[one["role"], text] for one, text in zip(messages, texts, strict=True)] == said
    first = worded(b'"Hi"', {"dialect": dialect, "model": "m"})
    assert sent.bodies[0] == first.bodies[0]


def test_a_session_may_be_whole_bodies_in_any_api() -> None:
    sent = worded(b'[{"q": 1}, {"q": 2}]\n{"q": 3}\n', {})
    assert sent == Frozen(('{"q":1}', '{"q":2}', '{"q":3}'), (2, 1))


def test_plain_has_no_messages_to_hold_what_was_said() -> None:
    with pytest.raises(Problem, match=r"set\.jsonl:2: found a session of prompts"):
        worded(b'"a"\n["Hi", "Yes?", "Why?"]\n', {})


def test_rows_fill_the_prompt_in_the_words_of_the_api() -> None:
    lines = b'text,lang\n"a, b",de\n"say ""hi""\nto {lang}",fr\n'
    sent = worded(lines, {"prompt": "In {lang}: {text} {{text}} {n} {1,2}"}, name="set.csv")
    assert [json.loads(body)["prompt"] for body in sent.bodies] == [
        "In de: a, b {text} {n} {1,2}",
        'In fr: say "hi"\nto {lang} {text} {n} {1,2}',
    ]


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("Summarize this.", "set.csv:2: found the prompt names nothing of it"),
        ("{Text}", "Did you mean {text}"),
        ("{text} in {tonguee}", "{tonguee}, wanted one of {text}, {lang}"),
    ],
)
def test_a_template_that_names_no_column_is_refused(prompt: str, said: str) -> None:
    with pytest.raises(Problem) as caught:
        worded(b"text,lang\na,de\n", {"prompt": prompt}, name="set.csv")
    assert said in str(caught.value)


def test_a_row_that_leaves_the_prompt_empty_is_refused_at_its_line() -> None:
    with pytest.raises(Problem, match=r"set\.csv:3: found a row that leaves the prompt empty"):
        worded(b'text\na\n" "\n', {"prompt": "{text}"}, name="set.csv")


def test_a_field_that_names_nothing_there_is_told_by_its_place() -> None:
    one = plan({"form": {"q": "{promt}"}})
    with pytest.raises(Problem, match=r"form: found \{promt\}, wanted one of \{prompt\}; Did you mean \{prompt\}"):
        frozen(one.target, None, place="x")


def test_a_form_is_url_encoded_and_keeps_the_place_of_the_calls_number() -> None:
    one = plan({"form": {"q": "{prompt}", "id": "no {n}", "x y": "ü&="}, "prompt": "a b{"})
    assert found(one) == []
    assert frozen(one.target, None, place="x").bodies == ("q=a+b%7B&id=no+{n}&x+y=%C3%BC%26%3D",)
    assert fixed_headers(one.target)["Content-Type"] == "application/x-www-form-urlencoded"
    sent = worded(b"q,k\n1 2,3\n", {"form": {"q": "{q}", "k": "{k}"}}, name="set.csv")
    assert sent.bodies == ("q=1+2&k=3",)
    sent = worded(
        b'{"q": "a", "k": 3}\n[{"q": "b", "k": 4}, {"q": "c", "k": 5.5}]\n', {"form": {"q": "{q}", "k": "{k}"}}
    )
    assert sent == Frozen(("q=a&k=3", "q=b&k=4", "q=c&k=5.5"), (1, 2))


def test_a_get_has_its_payload_in_the_query() -> None:
    sent = worded(b'"a b"\n"c"\n', {"method": "GET", "query": {"q": "{prompt}", "lang": "en"}})
    assert sent.bodies == ("q=a+b&lang=en", "q=c&lang=en")
    assert "Content-Type" not in fixed_headers(plan({"method": "GET"}).target)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b'{"q": "a"}\n{"q": [1]}\n', "set.jsonl:2: /q"),
        (b'{"q": "a"}\n{"q": true}\n', "set.jsonl:2: /q"),
        (b'{"q": "a"}\n{"k": "a"}\n', "set.jsonl:2"),
        (b'{"k": "a"}\n', "set.jsonl:1: found {q}, wanted one of {k}"),
        (b'["a", "b", "c"]\n', "set.jsonl:1"),
    ],
)
def test_what_fills_no_form_is_refused_at_its_line(lines: bytes, said: str) -> None:
    with pytest.raises(Problem) as caught:
        worded(lines, {"form": {"q": "{q}"}})
    assert said in str(caught.value)


def sent_as(body: str, *, number: int = 7) -> Any:
    """What a call of that number has as its prompt."""
    _, _, wire = Shots(Shot(target="/", authority="h", payloads=(body,))).take(number)
    return json.loads(wire.partition(b"\r\n\r\n")[2])["prompt"]


def test_a_rows_text_is_no_template_and_braces_twice_are_the_letters() -> None:
    rows = b'text,end\nfor {n} in it,\n{,n}\n"\\{n} \xee\x80\x80{{n}}",\n'
    sent = worded(rows, {"prompt": "{n}: {text}{end} {{n}} {text}n}"}, name="set.csv")
    assert [sent_as(body) for body in sent.bodies] == [
        "7: for {n} in it {n} for {n} in itn}",
        "7: {n} {n} {n}",
        "7: \\{n} \ue000{{n}} {n} \\{n} \ue000{{n}}n}",
    ]


def test_a_rows_text_is_no_template_in_fields_either() -> None:
    sent = worded(b"text\na {n}\n", {"form": {"q": "{text}", "id": "{n} {{n}}"}}, name="set.csv")
    _, _, wire = Shots(Shot(target="/", authority="h", payloads=sent.bodies)).take(7)
    assert wire.endswith(b"\r\n\r\nq=a+%7Bn%7D&id=7+%7Bn%7D")
    sent = worded(b'"a {n}"\n{"prompt": "b {n}"}\n', {"form": {"q": "{prompt}"}})
    assert sent.bodies == ("q=a+{n}", "q=b+{n}")
