"""Whether an answer is what a mission's step expects, and what later steps take from it. Pure.

1. The first thing that is wrong is the result: status, then an error in the body, then what the pointer leads to, its length,
   its value, the patterns, and what is to be captured.
2. `{"error": ...}` with status 200 is no answer (`error_body`), unless the step allows it.
3. What is captured stays within the mission: it is a stranger's text, and never written down.
"""

import re
from typing import Any

import msgspec

from drillmaster.friday.missions import Expect, Step
from drillmaster.friday.templates import as_text

__all__ = ["Judge"]

MATCHED_CHARS = 200_000
CAPTURED_CHARS = 65_536
_NOTHING = object()


class Judge:
    """Of one step's answers; made once a drill."""

    __slots__ = ("_capture", "_expect", "_least", "_matching", "_not_matching", "_status", "_structured")

    def __init__(self, step: Step) -> None:
        expect: Expect = step.expect
        self._expect = expect
        self._least = 0 if step.method == "HEAD" else expect.min_chars  # its answers have no body
        self._status = frozenset(status for one in expect.status for status in _statuses(one))
        self._capture = {name: _parts(pointer) for name, pointer in step.capture.items()}
        self._structured = expect.pointer is not None or bool(step.capture)
        self._matching = None if expect.matching is None else re.compile(expect.matching)
        self._not_matching = None if expect.not_matching is None else re.compile(expect.not_matching)

    def judge(self, status: int | None, body: bytes) -> tuple[str, str, dict[str, Any]]:
        """The result's word, why, and what was captured by name. `status` None: a message, which has none."""
        if status is not None and status not in self._status:
            return "status", f"status {status}", {}
        expect = self._expect
        value: Any = _NOTHING
        may_be_error = not expect.error_allowed and b'"error"' in body and body.lstrip()[:1] == b"{"
        if self._structured or may_be_error:
            try:
                value = msgspec.json.decode(body)
            except (ValueError, RecursionError):
                if self._structured:
                    return "no_json", "the body is no JSON", {}
        if may_be_error and isinstance(value, dict) and value.get("error"):
            return "error_body", "an error in the body", {}
        text = None
        if expect.pointer is not None:
            found = _follow(value, _parts(expect.pointer))
            if found is _NOTHING or found is None:
                return "pointer", f"nothing at {expect.pointer}", {}
            if expect.equals is not msgspec.UNSET and not _same(found, expect.equals):
                return "pointer", f"another value at {expect.pointer}", {}
            text = as_text(found)
        if self._least or self._matching or self._not_matching:
            text = body.decode("utf-8", "replace") if text is None else text
            stripped = text.strip()
            if len(stripped) < self._least:
                return "short", f"{len(stripped)} characters, at least {self._least} wanted", {}
            if self._matching is not None and not self._matching.search(text[:MATCHED_CHARS]):
                return "pattern", "does not match", {}
            if self._not_matching is not None and self._not_matching.search(text[:MATCHED_CHARS]):
                return "pattern", "matches not_matching", {}
        captured: dict[str, Any] = {}
        for name, parts in self._capture.items():
            found = _follow(value, parts)
            if found is _NOTHING or found is None:
                return "pointer", f"nothing to capture as {name}", {}
            if len(as_text(found)) > CAPTURED_CHARS:
                return "pointer", f"too much to capture as {name}", {}
            captured[name] = found
        return "ok", "", captured


def _statuses(said: int | str) -> range:
    first = said if isinstance(said, int) else int(said[0]) * 100
    return range(first, first + (1 if isinstance(said, int) else 100))


def _same(found: Any, wanted: Any) -> bool:
    return type(found) is type(wanted) and bool(found == wanted)


def _parts(pointer: str) -> tuple[str, ...]:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def _follow(value: Any, parts: tuple[str, ...]) -> Any:
    """Follow a JSON pointer (RFC 6901); `_NOTHING` where it leads nowhere."""
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return _NOTHING
    return value
