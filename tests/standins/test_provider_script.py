"""What a test has models say: whose line it is, and how each API words it."""

import json
from typing import Any

import pytest

from drillmaster.dialects import assert_finished
from drillmaster.standins.provider import reply_to
from drillmaster.standins.provider_asks import Asked
from drillmaster.standins.provider_script import Call, Line, Script, worded

HELLO = [{"role": "user", "content": "hello there"}]
TOOL = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}
REFUND = Line(text="One moment.", tools=(Call(name="refund", arguments={"order": "A1"}),))


def asked(model: str = "m") -> Asked:
    return Asked(model=model, prompt="hello", last="hello")


def said(script: Script, *models: str) -> list[str | None]:
    found = [script.next_for(asked(model)) for model in models]
    return [None if line is None else line.text for line in found]


def test_lines_are_said_in_order_and_the_last_one_stays() -> None:
    script = Script()
    script.put("*", [Line(text="a"), Line(text="b")])
    assert said(script, "m", "n", "m") == ["a", "b", "b"]


def test_a_model_takes_the_pattern_that_was_given_last() -> None:
    script = Script()
    script.put("*", [Line(text="all")])
    script.put("small-*", [Line(text="small")])
    assert said(script, "small-1", "large", "Small-1") == ["small", "all", "all"]
    script.put("*", [Line(text="anew")])
    assert said(script, "small-1") == ["anew"]


def test_no_line_is_a_model_that_speaks_for_itself() -> None:
    script = Script()
    assert said(script, "m") == [None]
    script.put("m", [Line(text="a")])
    script.put("m", [])
    assert said(script, "m") == [None]
    script.put("m", [Line(text="a")])
    script.clear()
    assert said(script, "m") == [None]


@pytest.mark.parametrize("text", ["", "one", "two words", " edge ", "\n\n", "a\n\nb\t", "ünï ☃ "])
def test_a_text_cut_into_pieces_is_that_text(text: str) -> None:
    reply = worded(Line(text=text), asked(), call_prefix="call_", answer_id="1", now_s=0, input_tokens=3)
    assert reply.text == text
    assert (reply.finish, reply.input_tokens) == ("stop", 3)
    assert len(reply.pieces) <= max(1, 2 * len(text.split()))


def test_what_the_line_says_wins() -> None:
    line = Line(pieces=("a", "b"), finish="length", input_tokens=7, output_tokens=0, tools=(Call(name="x", id="i"),))
    reply = worded(line, asked(), call_prefix="call_", answer_id="1", now_s=0, input_tokens=3)
    assert (reply.pieces, reply.finish, reply.input_tokens, reply.output_tokens) == (("a", "b"), "length", 7, 0)
    assert reply.tools[0].id == "i"


def test_arguments_as_text_go_out_as_they_are() -> None:
    line = Line(tools=(Call(name="x", arguments='{"broken":'),))
    assert (
        worded(line, asked(), call_prefix="", answer_id="1", now_s=0, input_tokens=1).tools[0].arguments == '{"broken":'
    )


def test_a_token_limit_cuts_no_line_and_no_other_tool_is_called() -> None:
    script = Script()
    script.put("*", [Line(text="one two three")])
    call = {"model": "m", "messages": [{"role": "user", "content": "lookup"}], "max_tokens": 1, "tools": [TOOL]}
    body = ask("/v1/chat/completions", call, script)
    assert json.loads(body)["choices"][0]["message"]["content"] == "one two three"


def ask(path: str, call: dict[str, Any], script: Script) -> bytes:
    headers = {"anthropic-version": "2023-06-01"}
    reply = reply_to("POST", path, headers, json.dumps(call).encode(), number=1, now_s=0, script=script)
    assert reply.status == 200
    return reply.body if reply.body is not None else b"".join(reply.events)


CHAT: dict[str, Any] = {"model": "m", "messages": HELLO}
GEMINI: dict[str, Any] = {"contents": [{"parts": [{"text": "hello"}]}]}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("dialect", "path", "call"),
    [
        ("openai_chat", "/v1/chat/completions", CHAT),
        ("openai_responses", "/v1/responses", {"model": "m", "input": "hello"}),
        ("anthropic", "/v1/messages", {**CHAT, "max_tokens": 99}),
        ("mistral", "/mistral/v1/chat/completions", CHAT),
        ("groq", "/openai/v1/chat/completions", CHAT),
        ("openrouter", "/api/v1/chat/completions", CHAT),
        ("ollama", "/api/chat", CHAT),
    ],
)
def test_every_api_words_a_line_whole_and_streamed(dialect: str, path: str, call: dict[str, Any], stream: bool) -> None:
    script = Script()
    script.put("m", [REFUND])
    body = ask(path, {**call, "stream": stream}, script)
    assert b"refund" in body and b"A1" in body and b"moment" in body
    assert_finished(body, dialect)


@pytest.mark.parametrize("path", ["generateContent", "streamGenerateContent?alt=sse"])
def test_gemini_words_it_too(path: str) -> None:
    script = Script()
    script.put("g", [REFUND])
    body = ask(f"/v1beta/models/g:{path}", GEMINI, script)
    assert b"refund" in body and b"A1" in body and b"moment" in body
    assert_finished(body, "gemini")
