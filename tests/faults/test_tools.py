"""What the faults of tools keep to: a request that offers no tool passes."""

import json

import pytest

from drillmaster import faults
from drillmaster.dialects import Says, load
from drillmaster.faults import Data, End, Read, Send
from drillmaster.faults._answers import LOOK_BYTES
from tests.faults.streamlab import PATHS, context, play

TAGS = ("tool-bad-json", "tool-unknown", "tool-duplicate-id")
OFFERS = {
    "openai_chat": {"tools": [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]},
    "openai_responses": {"tools": [{"type": "function", "name": "look_up"}]},
    "anthropic": {"tools": [{"name": "look_up", "input_schema": {}}]},
    "gemini": {"tools": [{"functionDeclarations": [{"name": "look_up"}]}]},
    "ollama": {"tools": [{"type": "function", "function": {"name": "look_up"}}]},
}


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize(
    "asked", [b"{}", b'{"tools":[]}', b'{"messages":["\\"tools\\":[{\\"name\\":\\"x\\"}]"]}', b"not json"]
)
def test_a_request_without_tools_passes(tag: str, asked: bytes) -> None:
    played = play(tag, [], asked=asked)
    assert (played.status, played.met, played.end) == (None, False, "passed")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("dialect", OFFERS)
@pytest.mark.parametrize("stream", [True, False])
def test_every_api_words_the_call(tag: str, dialect: str, stream: bool) -> None:
    asked = json.dumps({"model": "m", "stream": stream, **OFFERS[dialect]}).encode()
    path = PATHS[dialect] if stream or dialect != "gemini" else "/v1beta/models/m:generateContent"
    played = play(tag, [], dialect=dialect, asked=asked, path=path)
    assert (played.status, played.end) == (200, "end")
    assert (b"no_such_tool" if tag == "tool-unknown" else b"look_up") in played.body
    content = played.headers["content-type"].encode()
    assert load(dialect).finished(200, content, played.body[-4096:], True)
    if stream:
        assert any(load(dialect).says(piece) & Says.TOOL for piece in played.pieces)


@pytest.mark.parametrize("tag", TAGS)
def test_tools_behind_a_long_history_are_found_and_a_request_too_large_to_keep_passes(tag: str) -> None:
    tools = json.dumps(OFFERS["openai_chat"]).encode()[1:]
    for size, met in ((150_000, True), (400_000, False)):
        asked = b'{"messages":["' + b"x" * size + b'"],' + tools
        script = faults.make(tag).script(context("openai_chat", None, asked))
        pieces = [Data(asked[at : at + 60_000]) for at in range(0, len(asked), 60_000)]
        value, read_bytes, sent = None, 0, False
        while True:
            try:
                action = script.send(value)
            except StopIteration:
                break
            value = None
            if isinstance(action, Read):
                value = pieces.pop(0) if pieces else End()
                read_bytes += len(value.body) if isinstance(value, Data) else 0
            sent = sent or isinstance(action, Send)
        assert sent is met
        assert met or read_bytes < LOOK_BYTES + 60_000


@pytest.mark.parametrize("tag", TAGS)
def test_a_large_request_whose_tools_come_first_is_read_to_its_end_before_it_is_answered(tag: str) -> None:
    asked = json.dumps(OFFERS["openai_chat"]).encode()[:-1] + b',"messages":["' + b"x" * 400_000 + b'"]}'
    script = faults.make(tag).script(context("openai_chat", None, asked))
    pieces = [Data(asked[at : at + 60_000]) for at in range(0, len(asked), 60_000)]
    value = None
    while True:
        action = script.send(value)
        if isinstance(action, Send):
            break
        value = pieces.pop(0) if pieces else End()
    assert pieces == []
