"""What a fallback would make of an answer."""

import gzip
from typing import Any, get_args

import pytest

from drillmaster.dialects import load
from drillmaster.faults import Seen
from drillmaster.http1 import HeadReader
from drillmaster.trying.client import Got
from drillmaster.trying.reading import outcome, sentence

GOOD = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'
FRAME = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def got(
    body: bytes = b"", *, how: Any = "whole", status: int = 200, kind: str = "application/json", **more: str
) -> Got:
    fields = {"content-type": kind, **{name.replace("_", "-"): value for name, value in more.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    head = HeadReader(response=True).response(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode())
    return Got(how=how, head=head, start=body, tail=body, body_bytes=len(body))


SSE = {"kind": "text/event-stream"}


@pytest.mark.parametrize(
    ("came", "seen", "ending", "raises"),
    [
        (Got(how="refused"), "refused", None, True),
        (Got(how="unanswered"), "unanswered", None, True),
        (Got(how="reset"), "reset", None, True),
        (Got(how="closed"), "closed", None, True),
        (Got(how="late"), "silent", None, True),
        (Got(how="malformed"), "broken", None, True),  # a head that is none
        (got(how="late"), "stalled", "cut", True),
        (got(FRAME, how="reset", **SSE), "broken", "cut", True),
        (got(FRAME + LAST, how="closed", **SSE), "broken", "cut", True),
        (got(GOOD), "complete", "complete", False),
        (got(FRAME + LAST, **SSE), "complete", "complete", False),
        (got(FRAME, **SSE), "cut", "cut", False),
        (got(b"", **SSE), "cut", "cut", False),
        (got(GOOD.replace(b"stop", b"length")), "incomplete", "incomplete", False),
        (got(b'{"error":{"message":"no"}}'), "error", "error", False),
        (got(b'{"error":{"message":"no"}}', status=503), "status", "error", False),
        (got(b"", status=302), "redirect", "error", False),
        (got(b""), "broken", "cut", True),  # a JSON that is empty: every SDK raises
        (got(GOOD[:40]), "broken", "cut", True),
        (got(FRAME[:40] + b"\n\n" + LAST, **SSE), "broken", "complete", True),
        (got(GOOD, content_encoding="gzip"), "broken", "complete", True),
        (got(gzip.compress(GOOD), content_encoding="gzip"), "complete", "complete", False),
        (got(b"<html>", kind="text/html"), "cut", "cut", False),
    ],
)
def test_the_end_the_status_the_text_and_then_the_terminal_state_decide(
    came: Got, seen: str, ending: str | None, raises: bool
) -> None:
    read = outcome(came, load("openai_chat"))
    assert (read.seen, read.ending, read.raises) == (seen, ending, raises)
    assert read.finished == (ending in ("complete", "incomplete"))


def test_a_line_of_json_that_is_none_breaks_a_stream_of_lines() -> None:
    lines = b'{"message":{"content":"a"},"done":false}\n{"message":\n{"done":true,"done_reason":"stop"}\n'
    read = outcome(got(lines, kind="application/x-ndjson"), load("ollama"))
    assert (read.seen, read.why) == ("broken", "line 2 is no JSON")


def test_there_is_a_sentence_for_all_that_can_be_seen() -> None:
    assert all(sentence(seen) for seen in get_args(Seen))
