"""What the faults of content keep to: how requests are read, and what of an answer is left as it is."""

import gzip
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from drillmaster import faults
from drillmaster.dialects import Ending, Reply, load
from drillmaster.faults import SEEN_BYTES, Data, End, Frame, Head, Lost, Unfolding
from drillmaster.faults._answers import MAX_BODY_BYTES
from tests.faults.stage import Stage
from tests.faults.streamlab import PATHS, body_of, context, play, streamed, whole

REWRITES: dict[str, dict[str, Any]] = {"wrong-model": {"model": "other"}, "usage-skew": {"factor": 3}}
SPEAKERS = ("weaker-answer", "cut-answer", "refusal")
CANNED = (*SPEAKERS, "empty-200", "empty-object", "html-200", "login-redirect", "error-in-200", "context-length")
STREAM = b'{"model":"m-7","stream":true,"messages":[]}'
WHOLE = b'{"model":"m-7","messages":[]}'


@pytest.mark.parametrize("tag", CANNED)
@pytest.mark.parametrize("dialect", PATHS)
def test_an_answer_that_is_our_own_never_asks_the_upstream(tag: str, dialect: str) -> None:
    played = play(tag, [], dialect=dialect, asked=WHOLE)
    assert (played.asked, played.met, played.end) == (False, True, "end")
    assert played.headers.get("content-length", str(len(played.body))) == str(len(played.body))


@pytest.mark.parametrize("tag", SPEAKERS)
@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("asked", [WHOLE, STREAM])
def test_it_is_worded_as_the_request_wants_it_and_reaches_the_terminal_state(
    tag: str, dialect: str, asked: bytes
) -> None:
    path = PATHS[dialect]
    if dialect == "gemini" and asked is WHOLE:
        path = "/v1beta/models/m-7:generateContent"
    if dialect == "ollama" and asked is WHOLE:
        asked = b'{"model":"m-7","stream":false}'
    played = play(tag, [], dialect=dialect, asked=asked, path=path)
    assert played.status == 200
    content = played.headers["content-type"].encode()
    is_stream = content.startswith((b"text/event-stream", b"application/x-ndjson"))
    assert is_stream is (asked is STREAM)
    short = tag == "cut-answer"
    ended = load(dialect).ending(200, content, played.body, True)
    assert ended is (Ending.INCOMPLETE if short else Ending.COMPLETE)


def test_a_large_request_is_read_at_its_ends() -> None:
    asked = b'{"messages":["' + b"x" * 300_000 + b'"],"model":"m-7","stream":true}'
    played = play("weaker-answer", [], asked=asked)
    assert played.headers["content-type"].startswith("text/event-stream")
    assert b'"model":"m-7"' in played.body


FOLDED = [("gzip", gzip.compress), ("X-GZip", gzip.compress), ("deflate", zlib.compress)]


@pytest.mark.parametrize(("coding", "fold"), FOLDED)
def test_a_compressed_request_is_answered_as_it_asks(coding: str, fold: Callable[[bytes], bytes]) -> None:
    played = play("weaker-answer", [], asked=fold(STREAM), coding=coding)
    assert played.headers["content-type"].startswith("text/event-stream")
    assert b'"model":"m-7"' in played.body


def test_a_large_compressed_request_is_read_at_its_ends_as_they_were_before() -> None:
    long = random.Random(1).randbytes(300_000).hex().encode()
    asked = gzip.compress(b'{"messages":["' + long + b'"],"model":"m-7","stream":true}')
    assert len(asked) > SEEN_BYTES  # and begins with no end in sight
    played = play("weaker-answer", [], asked=asked, coding="gzip")
    assert played.headers["content-type"].startswith("text/event-stream")
    assert b'"model":"m-7"' in played.body


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("br", STREAM),
        ("gzip", STREAM),  # it is none
        ("gzip", gzip.compress(STREAM)[:-9]),  # short of its end
        ("gzip, gzip", gzip.compress(gzip.compress(STREAM))),
    ],
    ids=["unknown", "none", "short", "twice"],  # gzip writes the time: two workers would name them differently
)
def test_a_request_that_cannot_be_unfolded_is_answered_whole(coding: str, body: bytes) -> None:
    played = play("weaker-answer", [], asked=body, coding=coding)
    assert played.status == 200 and played.headers["content-type"] == "application/json"


def test_what_a_request_unfolds_to_has_a_bound() -> None:
    unfolding = Unfolding("gzip", 1_000_000)
    bomb = gzip.compress(b"[" + b" " * 20_000_000)
    assert sum(len(piece) for piece in unfolding.feed(bomb)) == 1_000_000
    assert not unfolding.whole
    assert list(unfolding.feed(bomb)) == []


def test_the_tools_of_a_compressed_request_are_seen() -> None:
    asked = b'{"tools":[{"type":"function","function":{"name":"weigh"}}],"messages":[]}'
    assert b"no_such_tool" in play("tool-unknown", [], asked=gzip.compress(asked), coding="gzip").body
    assert not play("tool-unknown", [End()], asked=gzip.compress(WHOLE), coding="gzip").met


def test_the_id_of_a_compressed_call_is_known() -> None:
    asked = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}'
    for tag in ("mcp-error", "503", "overloaded", "key-expired"):
        assert json.loads(play(tag, [], dialect="mcp", asked=asked).body)["id"] == 7, tag
        played = play(tag, [], dialect="mcp", asked=gzip.compress(asked), coding="gzip")
        assert json.loads(played.body)["id"] == 7, tag


@pytest.mark.parametrize("tag", ["status", "rate-limit", "requests-per-minute"])
def test_an_error_knows_what_the_query_says(tag: str) -> None:
    params: dict[str, Any] = {"status": {"status": 429}, "rate-limit": {"retry_after_s": 1}}.get(tag, {"requests": 1})
    fault = faults.make(tag, params)
    path = "/openai/deployments/d/chat/completions?api-version=2031-01-01"
    stage = Stage("azure_openai")
    answers = [stage.play(fault, path=path).sent for _ in range(2)]
    assert b"API version 2031-01-01" in answers[1]


@pytest.mark.parametrize("tag", CANNED)
def test_a_request_that_breaks_off_is_answered_by_nobody(tag: str) -> None:
    script = faults.make(tag).script(context("openai_chat"))
    assert isinstance(next(script), faults.Read)
    with pytest.raises(StopIteration):
        script.send(Lost("cut"))


@pytest.mark.parametrize("tag", [*REWRITES, "malformed-json"])
@pytest.mark.parametrize(
    "head",
    [
        Lost("refused"),
        Head(503, (("content-type", "application/json"),)),
        Head(200, (("content-type", "text/plain"),)),
        Head(200, (("content-type", "application/json"), ("content-encoding", "br"))),
    ],
)
def test_what_cannot_be_read_is_left_to_the_proxy(tag: str, head: Any) -> None:
    played = play(tag, [head, End()], **REWRITES.get(tag, {}))
    assert (played.status, played.met) == (None, False)


@pytest.mark.parametrize("tag", [*REWRITES, "malformed-json"])
@pytest.mark.parametrize("lift_at", range(6))
def test_a_lift_while_a_body_is_read_lets_it_through_as_it_is(tag: str, lift_at: int) -> None:
    upstream = whole("openai_chat")
    played = play(tag, upstream, lift_at=lift_at, **REWRITES.get(tag, {}))
    if lift_at == 0:
        assert played.end == "passed"
    elif lift_at < 4:
        assert (played.body, played.end) == (body_of(upstream), "end")
    else:
        assert (played.met, played.end) == (True, "end")


@pytest.mark.parametrize("why, how", [("cut", "fin"), ("reset", "rst")])
def test_a_body_that_breaks_off_breaks_off(why: str, how: str) -> None:
    upstream = [*whole("openai_chat")[:2], Lost(why)]
    played = play("usage-skew", upstream, factor=2)
    assert (played.body, played.end) == (body_of(upstream), how)
    assert "content-length" not in played.headers


def test_a_body_too_large_to_hold_goes_on_as_it_is() -> None:
    head = Head(200, (("content-type", "application/json"), ("content-length", "9")))
    piece = Data(b'"prompt_tokens":1,' * 200_000)
    upstream = [head, *[piece] * 6, End()]
    assert 6 * len(piece.body) > MAX_BODY_BYTES
    played = play("usage-skew", upstream, factor=2)
    assert played.body == body_of(upstream)
    assert not played.met


def test_a_stream_is_changed_event_by_event() -> None:
    upstream = streamed("openai_chat")
    played = play("wrong-model", upstream, model="other")
    assert [json.loads(piece[6:])["model"] for piece in played.pieces[:-1]] == ["other"] * (len(upstream) - 3)
    assert len(played.pieces) == len(upstream) - 2


def test_what_a_model_writes_is_not_taken_for_a_field() -> None:
    text = 'say "model":"x" and "prompt_tokens":5 {"model":"y"}'
    answer = load("openai_chat").answer(Reply(model="m", pieces=(text,)))
    for tag, params in REWRITES.items():
        played = play(tag, [Head(200, answer.headers), Data(answer.body), End()], **params)
        assert json.loads(played.body)["choices"][0]["message"]["content"] == text
    frames = load("anthropic").stream(Reply(model="m", pieces=(text,))).frames
    upstream = [Head(200, (("content-type", "text/event-stream"),)), *map(Frame, frames), End()]
    played = play("wrong-model", upstream, dialect="anthropic", model="z")
    assert sum(old != new for old, new in zip(frames, played.pieces, strict=True)) == 1
