"""What all faults of streams keep to: other answers pass untouched, lifts let the rest through, losses stay losses."""

from typing import Any

import pytest

from drillmaster.dialects import Ending, load
from drillmaster.faults import Data, End, Frame, Head, Lost
from tests.faults.streamlab import PATHS, body_of, play, streamed, whole

PARAMS: dict[str, dict[str, Any]] = {
    "clean-end": {},
    "cut-stream": {},
    "reset-stream": {},
    "stall": {},
    "ping-stall": {},
    "error-event": {},
    "malformed-chunk": {},
    "split-utf8": {},
    "missing-terminal": {},
    "duplicate-events": {},
    "reordered-events": {},
    "slow-tokens": {"per_s": 10},
}
LONG = tuple(f" word{number}" for number in range(6))


@pytest.mark.parametrize("tag", PARAMS)
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_an_answer_that_is_no_stream_passes_untouched_and_has_not_met_the_fault(tag: str, dialect: str) -> None:
    played = play(tag, whole(dialect), dialect=dialect, **PARAMS[tag])
    assert (played.status, played.body, played.met, played.end) == (None, b"", False, "passed")


@pytest.mark.parametrize("tag", PARAMS)
@pytest.mark.parametrize(
    "head",
    [
        Lost("refused"),
        Head(503, (("content-type", "text/event-stream"),)),
        Head(200, ()),
        Head(200, (("content-type", "text/event-stream"), ("content-encoding", "br"))),
    ],
)
def test_what_is_no_readable_stream_is_left_to_the_proxy(tag: str, head: Any) -> None:
    played = play(tag, [head, End()], **PARAMS[tag])
    assert (played.status, played.met, played.end) == (None, False, "passed")


@pytest.mark.parametrize("tag", PARAMS)
@pytest.mark.parametrize("dialect", PATHS)
def test_each_of_them_meets_every_stream_of_every_api(tag: str, dialect: str) -> None:
    upstream = streamed(dialect, words=LONG)
    played = play(tag, upstream, dialect=dialect, max_actions=300, **PARAMS[tag])
    assert played.met, (tag, dialect)
    assert "content-length" not in played.headers
    if tag not in ("split-utf8", "slow-tokens", "ping-stall"):
        assert played.body != body_of(upstream)


@pytest.mark.parametrize("tag", PARAMS)
@pytest.mark.parametrize("lift_at", range(24))
def test_a_lift_at_any_step_loses_and_repeats_nothing_that_was_not_struck(tag: str, lift_at: int) -> None:
    upstream = streamed("openai_chat")
    played = play(tag, upstream, lift_at=lift_at, max_actions=400, **PARAMS[tag])
    if played.end == "passed":
        assert lift_at == 0
        return
    got = played.body.replace(b": keep-alive\n\n", b"")
    if tag in ("stall", "slow-tokens", "split-utf8", "ping-stall"):
        assert got == body_of(upstream) or played.end == "stuck"
    if tag == "reordered-events":
        assert sorted(got.split(b"\n\n")) == sorted(body_of(upstream).split(b"\n\n"))


@pytest.mark.parametrize("tag", sorted(set(PARAMS) - {"split-utf8", "malformed-chunk"}))
@pytest.mark.parametrize("why, how", [("cut", "fin"), ("reset", "rst")])
def test_a_stream_that_the_upstream_breaks_breaks_the_same_way(tag: str, why: str, how: str) -> None:
    upstream = [*streamed("openai_chat")[:2], Lost(why)]
    played = play(tag, upstream, **PARAMS[tag])
    assert (played.end, played.body) == (how, body_of(upstream))


def test_pings_and_comments_are_not_counted_as_events() -> None:
    head, *frames = streamed("anthropic")
    ping = Frame(b": ping\n\n")
    upstream = [head, ping, ping, frames[0], ping, *frames[1:]]
    played = play("reset-stream", upstream, dialect="anthropic", after_events=1)
    assert played.body == ping.body * 2 + frames[0].body + ping.body


def test_more_events_than_there_are_strike_before_the_end() -> None:
    for dialect in PATHS:
        upstream = streamed(dialect)
        played = play("reset-stream", upstream, dialect=dialect, after_events=1_000)
        assert played.end == "rst"
        assert played.met
        content = dict(upstream[0].headers)["content-type"].encode()
        assert load(dialect).ending(200, content, played.body, True) is Ending.CUT, dialect


def test_lines_of_json_are_events_however_they_are_cut() -> None:
    head, *frames = streamed("ollama")
    text = body_of([head, *frames])
    for size in (1, 7, len(text)):
        pieces = [Data(text[at : at + size]) for at in range(0, len(text), size)]
        played = play("reset-stream", [head, *pieces, End()], dialect="ollama", after_events=2)
        assert played.body == frames[0].body + frames[1].body


def test_what_an_upstream_leaves_unfinished_is_sent_on_unfinished() -> None:
    head, first, *_ = streamed("ollama")
    played = play("slow-tokens", [head, Data(first.body + b'{"half":'), End()], dialect="ollama", per_s=1)
    assert played.body == first.body + b'{"half":'
