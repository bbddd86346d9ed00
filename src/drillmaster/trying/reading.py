"""What a fallback would make of an answer. Pure: the client's record in, an `Outcome` out.

1. Before and outside of an answer the transport's end decides; behind a head that is whole, the status; behind a good one,
   whether the body can be read as what it says it is (its coding, its JSON, the JSON of its events), as each SDK tries to;
   and only then the API's own terminal state.
2. `raises` is what an HTTP client raises by itself, or an SDK where it decodes. Statuses are not in it: SDKs raise at them,
   plain clients do not.
"""

import zlib

import msgspec

from drillmaster.dialects import EDGE_BYTES, Dialect, Ending
from drillmaster.http1 import Frames, Lines
from drillmaster.trying import Outcome
from drillmaster.trying.client import KEPT_BYTES, Got

__all__ = ["outcome", "sentence"]

_GZIP_OR_ZLIB = 47


def outcome(got: Got, dialect: Dialect) -> Outcome:
    """What the request was left with."""
    seen, why, ending = _seen(got, dialect)
    return Outcome(
        seen=seen,
        why=why,
        status=None if got.head is None else got.head.status,
        ending=None if ending is None else ending.value,
        finished=ending in (Ending.COMPLETE, Ending.INCOMPLETE),
        raises=seen in ("refused", "unanswered", "reset", "closed", "silent", "stalled", "broken"),
        body_bytes=got.body_bytes,
        pieces=got.pieces,
        connect_ms=_rounded(got.connect_ms),
        head_ms=_rounded(got.head_ms),
        first_ms=_rounded(got.first_ms),
        end_ms=round(got.end_ms, 1),
    )


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 1)


def _seen(got: Got, dialect: Dialect) -> tuple[str, str, Ending | None]:
    head = got.head
    if head is None:
        return {"late": "silent", "malformed": "broken"}.get(got.how, got.how), got.why, None
    coding = head.content_encoding
    body, bad_coding = _decoded(got.start, coding)
    tail = got.tail if coding in (b"", b"identity") else body
    ending = dialect.ending(head.status, head.content_type, tail[-EDGE_BYTES:], got.how == "whole")
    if got.how != "whole":
        return ("stalled" if got.how == "late" else "broken"), got.why, ending
    if head.status >= 400:
        return "status", f"status {head.status}", ending
    if head.status >= 300:
        return "redirect", f"status {head.status}", ending
    if bad_coding:
        return "broken", bad_coding, ending
    if got.body_bytes <= KEPT_BYTES and (bad := _unreadable(body, head.content_type)):
        return "broken", bad, ending
    return ending.value, "", ending


def _decoded(body: bytes, coding: bytes) -> tuple[bytes, str]:
    """The body without its coding, and what is wrong with that."""
    if coding not in (b"gzip", b"deflate", b"x-gzip"):
        return body, ""
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, 4 * KEPT_BYTES), ""
    except zlib.error as error:
        return body, f"its content-encoding says {coding.decode('latin-1')}, and it is none: {error}"


def _unreadable(body: bytes, content_type: bytes) -> str:
    """Why a client that decodes what it was promised would raise; empty: it would not."""
    kind = content_type.partition(b";")[0].strip()
    if kind == b"application/json":
        return "" if _is_json(body) else ("the body is empty" if not body else "the body is no JSON")
    if kind == b"text/event-stream":
        frames = Frames()
        for number, frame in enumerate([*frames.feed(body), frames.rest()], 1):
            lines = [line[5:].strip() for line in frame.splitlines() if line.startswith(b"data:")]
            data = b"\n".join(lines)
            if data and data != b"[DONE]" and not _is_json(data):
                return f"the data of event {number} is no JSON"
    elif kind == b"application/x-ndjson":
        lines_of = Lines()
        for number, line in enumerate([*lines_of.feed(body), lines_of.rest()], 1):
            if line.strip() and not _is_json(line):
                return f"line {number} is no JSON"
    return ""


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


_SENTENCES = {
    "refused": "an exception at once: nobody listens",
    "unanswered": "nothing: only a time limit on the connect raises; without one, the kernel's after two minutes",
    "reset": "an exception before any byte of an answer: connection reset",
    "closed": "an exception before any byte of an answer: the server disconnected",
    "silent": "no answer, not even a whole head of one: only a time limit of the client's own raises",
    "stalled": "half an answer, then nothing: only a time limit on the whole of it surely raises",
    "broken": "an exception while the answer is read, often not of the SDK's own class",
    "status": "an error status: SDKs raise their own class, plain HTTP clients nothing",
    "redirect": "a redirect: clients that follow it end elsewhere, others hold a 3xx for an answer",
    "complete": "nothing is raised: a complete answer in the API's terms; only its time or its content can tell",
    "incomplete": "nothing is raised: the answer says itself that it is short, to those who read the reason",
    "cut": "nothing is raised: it looks like an answer, and the API's terminal state is missing",
    "error": "a 200, and an error inside it: raised by some SDKs, seen by nobody who reads status and words alone",
}


def sentence(seen: str) -> str:
    """What code with a fallback would have to go by."""
    return _SENTENCES[seen]
