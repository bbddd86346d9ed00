"""A request of each API, and what a fault says to it without a socket."""

import json

import msgspec
import pytest

from drillmaster import dialects, faults
from drillmaster.errors import Problem
from drillmaster.http1 import HeadReader
from drillmaster.matrix import why_not as cell_why_not
from drillmaster.proxy.hub import NAMED
from drillmaster.standins.provider import reply_to
from drillmaster.trying.asks import ask_for, by_analogy, usual, why_not
from drillmaster.trying.parameters import filled
from drillmaster.trying.playing import said
from tests.faults.streamlab import PATHS, play, streamed, whole

PLAIN = faults.make("reset")


def fault(tag: str) -> faults.Fault:
    return faults.make(tag, filled(tag, faults.load(tag), {})[0])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", dialects.names())
def test_each_api_knows_its_request_and_the_stand_in_answers_it_to_its_end(name: str, stream: bool) -> None:
    dialect = dialects.load(name)
    ask = ask_for(PLAIN, name, stream=stream)
    lines = [f"{ask.method} {ask.path} HTTP/1.1", "host: x", *(f"{key}: {value}" for key, value in ask.fields)]
    assert dialect.speaks(HeadReader(NAMED).request(("\r\n".join(lines) + "\r\n\r\n").encode()))
    reply = reply_to("POST", ask.path, dict(ask.fields), ask.body, number=1, now_s=1, dialect=name)
    assert reply.status == 200
    if name != "mcp":
        assert (reply.body is None) == stream
    body = b"".join(reply.events) if reply.body is None else reply.body
    dialects.assert_finished(body, name, content_type=reply.content_type)


def test_a_model_cannot_break_out_of_a_path() -> None:
    ask = ask_for(PLAIN, "gemini", stream=False, model="a b\r\nx: y?z")
    assert ask.path == "/v1beta/models/a%20b%0D%0Ax:%20y%3Fz:generateContent"


def test_an_unknown_api_is_a_problem() -> None:
    with pytest.raises(Problem, match="wanted auto or one of"):
        ask_for(PLAIN, "opnai", stream=False)


def test_what_a_fault_needs_is_what_is_asked() -> None:
    assert usual(fault("mcp-error")) == ("mcp", False)
    assert usual(fault("stall")) == ("openai_chat", True)
    assert usual(PLAIN) == ("openai_chat", False)
    assert "tools" in json.loads(ask_for(fault("tool-unknown"), "openai_chat", stream=False).body)
    assert json.loads(ask_for(fault("mcp-changed-tools"), "mcp", stream=False).body)["method"] == "tools/list"


@pytest.mark.parametrize(
    ("tag", "dialect", "stream", "why"),
    [
        ("mcp-hang", "openai_chat", False, "MCP"),
        ("clean-end", "openai_chat", False, "--stream"),
        ("malformed-json", "openai_chat", True, "--whole"),
        ("clean-end", "plain", True, "after_events=2"),
        ("wrong-model", "plain", False, "--dialect"),
        ("tool-unknown", "mcp", False, "MCP is none"),
        ("reset", "mcp", False, None),
        ("clean-end", "ollama", True, None),
    ],
)
def test_why_a_request_passes_is_said(tag: str, dialect: str, stream: bool, why: str | None) -> None:
    found = why_not(fault(tag), dialect, stream=stream)
    assert (found is None) if why is None else (found is not None and why in found)


def test_a_word_that_an_api_lacks_is_told() -> None:
    assert by_analogy({}, "openai_chat") == by_analogy({"status": 500}, "mcp") == ()
    assert by_analogy({"condition": "rate-tokens"}, "openai_chat") == ()
    assert by_analogy({"shape": "data-error"}, "openai_chat") == ()
    (told,) = by_analogy({"condition": "money-deepseek"}, "anthropic")
    assert told.startswith("anthropic documents no condition money-deepseek")
    (told,) = by_analogy({"shape": "flat", "after_events": 1}, "openai_chat")
    assert told.startswith("openai_chat has no shape flat")


def test_a_fault_says_by_itself_what_each_api_would() -> None:
    words = {}
    for name in dialects.names():
        answer = said(fault("overloaded"), dialects.load(name), ask_for(PLAIN, name, stream=False))
        assert answer is not None
        words[name] = (answer.status, answer.source)
    assert words["anthropic"][0] == 529
    assert words["groq"] == (498, "D console.groq.com/docs/flex-processing")


def test_a_quota_speaks_once_it_is_used_up_and_what_relays_says_nothing() -> None:
    openai = dialects.load("openai_chat")
    ask = ask_for(PLAIN, "openai_chat", stream=False)
    for tag in ("requests-per-minute", "tokens-per-minute", "daily-quota"):
        answer = said(fault(tag), openai, ask)
        assert answer is not None
        assert answer.status == 429
    assert [said(fault(tag), openai, ask) for tag in ("reset", "hang", "clean-end", "cut-body", "date-skew")] == [
        None
    ] * 5


MODELS_ALONE = sorted(
    tag
    for tag in faults.names()
    if {"model", "tools"} & set(faults.load(tag).needs) and "mcp" not in faults.load(tag).needs
)
OFFERS = b'{"model":"m-7","tools":[{"type":"function","function":{"name":"weigh"}}],"messages":[]%b}'


@pytest.mark.parametrize("tag", MODELS_ALONE)
@pytest.mark.parametrize("dialect", ["plain", "mcp"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_said_to_pass_passes(tag: str, dialect: str, stream: bool) -> None:
    """A proxy that knows no model's API behind the call, and an endpoint that answers like one all the same."""
    params = {"wrong-model": {"model": "other"}, "usage-skew": {"factor": 3}}.get(tag, {})
    given = faults.make(tag, params)
    assert why_not(given, dialect, stream=stream) and cell_why_not(given, dialect, stream=stream)
    asked = OFFERS % (b',"stream":true' if stream else b"")
    answers = streamed("openai_chat") if stream else whole("openai_chat")
    assert not play(tag, answers, dialect=dialect, asked=asked, **params).met
    assert play(tag, answers, asked=asked, **params).met or "stream" in given.needs


@pytest.mark.parametrize("tag", [tag for tag in faults.names() if faults.load(tag).scope == "exchange"])
@pytest.mark.parametrize("stream", [False, True])
def test_no_fault_strikes_what_it_is_said_to_let_pass(tag: str, stream: bool) -> None:
    given = fault(tag)
    params = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    for dialect in dialects.names():
        said_of_it = cell_why_not(given, dialect, stream=stream)
        if said_of_it is None:
            continue
        assert why_not(given, dialect, stream=stream)
        ask = ask_for(given, dialect, stream=stream)
        like = dialect if dialect in PATHS else "openai_chat"
        answers = streamed(like) if stream else whole(like)
        played = play(tag, answers, dialect=dialect, asked=ask.body, path=ask.path, **params)
        assert not played.met, (dialect, said_of_it)
