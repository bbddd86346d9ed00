"""What a request asks of a model: read from each API's own shape, or refused as a provider refuses it."""

import json
from typing import Any

import pytest

from drillmaster.standins.provider_asks import READERS, Asked, Bad, Tool, arguments_for, read_object, wanted_tools

USER = [{"role": "user", "content": "hi"}]
GEMINI = "/v1beta/models/g:generateContent"
PARTS = [{"role": "user", "parts": [{"text": "hi"}]}]


def read(kind: str, call: Any, path: str = "/x") -> Asked:
    return READERS[kind](path, {"anthropic-version": "1"}, call)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"x"', b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(Bad):
        read_object(body)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("responses", {}),
        ("responses", {"model": "m"}),
        ("responses", {"model": "m", "input": []}),
        ("responses", {"model": "m", "input": [1]}),
        ("responses", {"model": "m", "input": "x", "stream": 1}),
        ("responses", {"model": "m", "input": "x", "max_output_tokens": 0}),
        ("responses", {"model": "m", "input": "x", "tools": {}}),
        ("responses", {"model": "m", "input": "x", "tools": [{"type": "function"}]}),
        ("chat", {"model": "m", "messages": USER, "tools": [{"type": "function", "function": {}}]}),
        ("chat", {"model": "m", "messages": [{"role": "assistant", "content": None}]}),  # says nothing, calls nothing
        ("gemini", {}),
        ("gemini", {"contents": []}),
        ("gemini", {"contents": [{}]}),
        ("gemini", {"contents": [{"parts": [1]}]}),
        ("gemini", {"contents": PARTS, "generationConfig": {"maxOutputTokens": True}}),
        ("ollama", {}),
        ("ollama", {"model": "m"}),
        ("ollama", {"model": "m", "messages": USER, "stream": "no"}),
        ("ollama", {"model": "m", "messages": [{"role": "developer", "content": "x"}]}),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(kind: str, call: Any) -> None:
    with pytest.raises(Bad):
        read(kind, call)


@pytest.mark.parametrize(
    ("kind", "call", "stream"),
    [
        ("chat", {"model": "m", "messages": USER}, False),
        ("chat", {"model": "m", "messages": USER, "stream": None}, False),
        ("responses", {"model": "m", "input": "hi", "stream": True}, True),
        ("messages", {"model": "m", "max_tokens": 1, "messages": USER, "stream": True}, True),
        ("ollama", {"model": "m", "messages": USER}, True),  # unless it says not
        ("ollama", {"model": "m", "messages": USER, "stream": False}, False),
    ],
)
def test_whether_a_stream_is_asked_for(kind: str, call: Any, stream: bool) -> None:
    assert read(kind, call).stream is stream


def test_gemini_says_model_and_stream_in_the_path() -> None:
    asked = read("gemini", {"contents": PARTS}, "/v1beta/models/g:streamGenerateContent?alt=sse")
    assert (asked.model, asked.stream, asked.prompt) == ("g", True, "hi")


def test_azure_says_the_deployment_in_the_path() -> None:
    assert read("chat", {"messages": USER}, "/openai/deployments/d/chat/completions").model == "d"


def test_all_that_was_said_is_the_prompt_and_the_last_is_known() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "one"}]},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "two"},
    ]
    asked = read("responses", {"model": "m", "input": items, "instructions": "be brief"})
    assert asked.prompt == "be brief\none\n\ntwo"
    assert asked.last == ""


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CHAT_TOOL = {"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}


@pytest.mark.parametrize(
    ("kind", "call", "path"),
    [
        ("chat", {"model": "m", "messages": USER, "tools": [CHAT_TOOL]}, "/x"),
        ("ollama", {"model": "m", "messages": USER, "tools": [CHAT_TOOL]}, "/api/chat"),
        (
            "responses",
            {
                "model": "m",
                "input": "hi",
                "tools": [{"type": "web_search"}, {"type": "function", "name": "look_up", "parameters": SCHEMA}],
            },
            "/x",
        ),
        (
            "messages",
            {"model": "m", "max_tokens": 9, "messages": USER, "tools": [{"name": "look_up", "input_schema": SCHEMA}]},
            "/x",
        ),
        (
            "gemini",
            {"contents": PARTS, "tools": [{"functionDeclarations": [{"name": "look_up", "parameters": SCHEMA}]}]},
            GEMINI,
        ),
        (
            "gemini",  # the SDK mixes the two spellings
            {
                "contents": PARTS,
                "tools": [{"function_declarations": [{"name": "look_up", "parameters_json_schema": SCHEMA}]}],
            },
            GEMINI,
        ),
    ],
)
def test_the_tools_of_every_api(kind: str, call: Any, path: str) -> None:
    assert read(kind, call, path).tools == (Tool("look_up", SCHEMA),)


@pytest.mark.parametrize(
    ("kind", "more", "choice"),
    [
        ("chat", {}, "auto"),
        ("chat", {"tool_choice": "none"}, "none"),
        ("chat", {"tool_choice": "required"}, "required"),
        ("chat", {"tool_choice": "any"}, "required"),  # Mistral's word
        ("chat", {"tool_choice": {"type": "function", "function": {"name": "f"}}}, "=f"),
        ("responses", {"tool_choice": {"type": "function", "name": "f"}}, "=f"),
        ("messages", {"tool_choice": {"type": "any"}}, "required"),
        ("messages", {"tool_choice": {"type": "none"}}, "none"),
        ("messages", {"tool_choice": {"type": "tool", "name": "f"}}, "=f"),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "required"),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}}, "=f"),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, "none"),
    ],
)
def test_the_choice_of_tools_of_every_api(kind: str, more: Any, choice: str) -> None:
    call = {"model": "m", "messages": USER, "input": "hi", "contents": PARTS, "max_tokens": 9, **more}
    assert read(kind, call, GEMINI).choice == choice


F, G = Tool("look_up", {}), Tool("refund", {})


@pytest.mark.parametrize(
    ("choice", "last", "called"),
    [
        ("auto", "hello", ()),
        ("auto", "please refund this", (G,)),
        ("auto", "look_up, then refund", (F, G)),
        ("none", "please refund this", ()),
        ("required", "hello", (F,)),
        ("required", "refund", (G,)),
        ("=refund", "hello", (G,)),
        ("=nobody", "hello", ()),
    ],
)
def test_a_tool_is_called_when_it_is_forced_or_named(choice: str, last: str, called: tuple[Tool, ...]) -> None:
    assert wanted_tools(Asked(model="m", prompt=last, last=last, tools=(F, G), choice=choice)) == called


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({}, {}),
        (SCHEMA, {"a": "text"}),
        ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "number"}}}, {"a": 1, "b": 1.5}),
        ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}, {"a": "text"}),  # Gemini's spelling
        ({"type": "object", "properties": {"a": {"enum": ["x", "y"]}}}, {"a": "x"}),
        ({"type": "object", "properties": {"a": {"type": ["boolean", "null"]}}}, {"a": True}),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}, {"a": []}),
        ({"type": "object", "properties": {"a": {"const": 3}}, "required": ["a", "b"]}, {"a": 3, "b": None}),
        ({"properties": 5, "required": "x"}, {}),
    ],
)
def test_arguments_are_the_plainest_that_a_schema_accepts(schema: dict[str, Any], arguments: Any) -> None:
    assert json.loads(arguments_for(schema)) == arguments


def test_a_schema_that_never_ends_is_followed_four_steps() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["again"] = schema
    assert json.loads(arguments_for(schema)) == {"again": {"again": {"again": {"again": None}}}}
