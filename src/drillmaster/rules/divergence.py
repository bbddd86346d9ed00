"""The law of replays: what of two tellings of one mission is compared, what may differ, and which difference is the first.

1. The order is that of the user's messages; within one: the tools that were called, each by name and then arguments, then the
   status, then the answer. The first difference in this order is the one that is named.
2. Attempts of one call count once: a call of the same tool with the same arguments behind one that did not end well is the
   same call. Tools that could not be seen are not compared, and whoever reports says so.
3. JSON is compared by value, other text by words; the order of names and the space between words do not count. What came in
   pieces is compared as a whole: how a stream is cut does not count, and of a word that every event repeats (`type`, `model`)
   neither does how often.
4. What is made anew each time is compared by its place: UUIDs, long hexadecimal numbers, ids with a prefix (`call_...`), times.
   Each becomes `<id-N>` or `<time>`, the same id the same N. What the user said himself is compared as it is, whatever it
   looks like: another order's number is a difference.
5. Spans under a name that says so (`ms`, `duration`, `latency_ms`) become `<span>`.
6. What was covered as a secret, three `*` or more, is the same as any other covered text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

__all__ = ["Difference", "Normal", "Said", "ToolSaid", "as_value", "difference", "first_divergence", "folded"]

What = Literal["tool", "arguments", "status", "answer", "message"]
_SHOWN_CHARS = 120
_MOST = 400_000  # characters of one text that are looked at

_ANEW = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT)"
    r"|(?P<id>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}\b"
    r"|\b[a-z]{2,16}[_-](?=[A-Za-z0-9_-]*\d)[A-Za-z0-9]{10,}\b"
    r"|\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b)"
    r"|(?P<gone>\*{3,})",
    re.ASCII,
)
_SPAN_NAME = re.compile(
    r"(?:^|[_-])(?:ms|ns|us|seconds|duration|elapsed|latency|took|took_s|uptime)$|_s$", re.IGNORECASE
)
_TIME_NAME = re.compile(r"(?:^|[_-])(?:at|time|timestamp|created|updated|created_at|date|ts|expires)$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SAME = frozenset({"type", "event", "object", "model", "role", "status", "finish_reason", "stop_reason", "id"})


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference: in which message (from 1), in what, where in it, and both sides in a few words."""

    message: int
    what: What
    where: str
    recorded: str
    now: str


class ToolSaid(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool: arguments as a JSON value or as text."""

    tool: str
    arguments: Any
    ok: bool = True


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What one message of the user came to. `tools` None: they were not seen; `answer` None: there was none."""

    tools: tuple[ToolSaid, ...] | None
    status: int | None
    answer: bytes | None
    pieces: tuple[bytes, ...] = ()
    """The answer as it came, where that was bit by bit."""


class Normal:
    """Makes values comparable, in the order in which they come; one for each side. `given` is what the user said."""

    def __init__(self, given: str) -> None:
        self._given = given
        self._ids: dict[str, str] = {}

    @property
    def made(self) -> tuple[str, ...]:
        """The ids that were made anew, in the order of their numbers."""
        return tuple(self._ids)

    def text(self, text: str) -> str:
        return " ".join(_ANEW.sub(self._one, text[:_MOST]).split())

    def value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(inner, str(key)) for key, inner in sorted(value.items())}
        if isinstance(value, list | tuple):
            return [self.value(inner, name) for inner in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and name:
            spoken = _CAMEL.sub(r"_\1", name)
            if str(value) in self._given:
                return value
            if _SPAN_NAME.search(spoken):
                return "<span>"
            if _TIME_NAME.search(spoken) and 1e9 <= abs(value) < 1e19:
                return "<time>"
        return value

    def _one(self, match: re.Match[str]) -> str:
        found = match[0]
        if match["gone"]:
            return "***"
        if found in self._given:
            return found
        return "<time>" if match["time"] else self._ids.setdefault(found, f"<id-{len(self._ids) + 1}>")


def as_value(data: bytes) -> Any:
    """Read a body as JSON; as text where it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace")


def folded(pieces: Sequence[bytes]) -> Any:
    """Put a stream together so that its cuts do not count: names with what stood under each, or the text.

    Takes events of SSE, lines of JSON, and frames that are JSON each.
    """
    whole = b"".join(pieces)
    messages = list(_messages(pieces, whole))
    if len(messages) < 2:
        return as_value(whole) if not messages else messages[0]
    under: dict[str, Any] = {}
    for message in messages:
        for name, value in _leaves(message, ""):
            last = name.rpartition("/")[2]
            if value is None or last == "index":
                continue
            if isinstance(value, str) and last not in _SAME:
                under[name] = under.get(name, "") + value
                continue
            seen = under.setdefault(name if isinstance(value, str) else f"{name} (value)", [])
            if seen[-1:] != [value]:
                seen.append(value)
    return under


def _messages(pieces: Sequence[bytes], whole: bytes) -> Iterator[Any]:
    text = whole.decode("utf-8", "replace")
    if "data:" in text:
        for line in text.splitlines():
            if line.startswith("data:"):
                yield as_value(line[5:].strip().encode())
        return
    read = [as_value(piece) for piece in pieces if piece.strip()]
    if len(read) > 1 and all(isinstance(one, dict | list) for one in read):
        yield from read
        return
    lines = [as_value(line.encode()) for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(isinstance(one, dict | list) for one in lines):
        yield from lines


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}/{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{name}/{number}")
    else:
        yield name, value


def difference(recorded: Any, now: Any, where: str = "") -> tuple[str, str, str] | None:
    """Name the first place where two normal values differ, and what is on each side; None where they are the same."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name in [*recorded, *(name for name in now if name not in recorded)]:
            at = where + name if name.startswith("/") else f"{where}/{name}"  # a folded stream's names are pointers
            if name not in now:
                return at, _shown(recorded[name]), "nothing"
            if name not in recorded:
                return at, "nothing", _shown(now[name])
            found = difference(recorded[name], now[name], at)
            if found is not None:
                return found
        return None
    if isinstance(recorded, list) and isinstance(now, list):
        for number, (one, other) in enumerate(zip(recorded, now, strict=False)):
            found = difference(one, other, f"{where}/{number}")
            if found is not None:
                return found
        if len(recorded) != len(now):
            return where or "/", f"{len(recorded)} items", f"{len(now)} items"
        return None
    if isinstance(recorded, str) and isinstance(now, str):
        return _of_texts(recorded, now, where)
    if type(recorded) is type(now) and recorded == now:
        return None
    if _is_number(recorded) and _is_number(now) and recorded == now:
        return None
    return where or "/", _shown(recorded), _shown(now)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_texts(recorded: str, now: str, where: str) -> tuple[str, str, str] | None:
    if recorded == now:
        return None
    old, new = recorded.split(" "), now.split(" ")
    at = next(
        (n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new))
    )
    place = f"word {at + 1}"
    return (
        f"{where}, {place}" if where else place,
        _shown(" ".join(old[at : at + 12])) if at < len(old) else "nothing",
        _shown(" ".join(new[at : at + 12])) if at < len(new) else "nothing",
    )


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "\u2026"


def first_divergence(recorded: Sequence[Said], now: Sequence[Said], *, given: str) -> Difference | None:
    """Name the first difference of two tellings, by the rules above. `given` is all that the user said."""
    old, new = Normal(given), Normal(given)
    for number, (one, other) in enumerate(zip(recorded, now, strict=False), 1):
        found = _of_message(one, other, old, new, number)
        if found is not None:
            return found
    if len(recorded) != len(now):
        return Difference(
            message=min(len(recorded), len(now)) + 1,
            what="message",
            where="",
            recorded=f"{len(recorded)} messages answered",
            now=f"{len(now)} messages answered",
        )
    return None


def _of_message(one: Said, other: Said, old: Normal, new: Normal, number: int) -> Difference | None:
    if one.tools is not None and other.tools is not None:
        was, is_ = list(_calls(one.tools, old)), list(_calls(other.tools, new))
        for at in range(max(len(was), len(is_))):
            call = f"call {at + 1}"
            if at >= len(was) or at >= len(is_) or was[at][0] != is_[at][0]:
                return Difference(
                    message=number,
                    what="tool",
                    where=call,
                    recorded=was[at][0] if at < len(was) else "no further call",
                    now=is_[at][0] if at < len(is_) else "no further call",
                )
            found = difference(was[at][1], is_[at][1])
            if found is not None:
                where, recorded, now = found
                return Difference(
                    message=number,
                    what="arguments",
                    where=f"{call} of {was[at][0]}: {where}",
                    recorded=recorded,
                    now=now,
                )
    if one.status != other.status:
        return Difference(
            message=number, what="status", where="", recorded=str(one.status or "none"), now=str(other.status or "none")
        )
    if (one.answer is None) != (other.answer is None):
        return Difference(
            message=number,
            what="answer",
            where="",
            recorded="no answer" if one.answer is None else "an answer",
            now="no answer" if other.answer is None else "an answer",
        )
    found = difference(old.value(_answer(one)), new.value(_answer(other)))
    if found is None:
        return None
    where, recorded, now = found
    return Difference(message=number, what="answer", where=where, recorded=recorded, now=now)


def _answer(said: Said) -> Any:
    if said.answer is None:
        return None
    return folded(said.pieces or (said.answer,))


def _calls(tools: Iterable[ToolSaid], normal: Normal) -> Iterator[tuple[str, Any]]:
    """Give each call once, whatever its attempts (rule 2)."""
    before: tuple[str, Any, bool] | None = None
    for one in tools:
        call = (one.tool, normal.value(one.arguments))
        if before is None or before[2] or before[:2] != call:
            yield call
        before = (*call, one.ok)
