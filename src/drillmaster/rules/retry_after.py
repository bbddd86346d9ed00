"""The law of Retry-After: how long an answer asks its client to wait, wherever it says so.

1. `Retry-After` has two forms (RFC 9110, 10.2.3): whole seconds, or an HTTP-date. Seconds with a decimal fraction are
   read too, since gateways send them and SDKs obey them, and are marked as no standard.
2. An HTTP-date has three spellings, all in GMT (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94
   08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`. Names are case-sensitive; two digits of a year mean the latest such moment that is
   at most 50 years ahead. A day of the week that is not the date's makes it none: nobody knows which of the two was meant.
3. A date counts from the answer's own `Date`, which the same clock wrote; without a readable one, from our time. A date
   that has passed asks for no wait.
4. `retry-after-ms` (OpenAI, Azure) is finer, and goes first. Beside it `Retry-After` is the same wait, rounded up: longer by less
   than a second, or as a date by two at most. One that is longer is another, and holds.
5. Bodies count where no field can be read: `google.rpc.RetryInfo` (Gemini sends nothing else), then the error's own
   message in the wordings of `_SAID`. What decides on a retry reads no prose: `retry_info` reads the first of these alone.
6. Of several values the longest holds: nobody may come too early. No sign, exponent, unit or name of a number is read.
   What is longer than `MAX_WAIT_S` is read as that, and never as less.
7. A field that is there and cannot be read is told apart from one that is missing. Only what goes without either asks
   for nothing.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

__all__ = ["MAX_WAIT_S", "Told", "Unreadable", "http_date", "parse_http_date", "read", "retry_info"]

MAX_WAIT_S = 2_147_483_648.0
"""2^31 seconds, which RFC 9111 (1.2.2) reads for what is too large to be held."""
MAX_BODY_BYTES = 65_536
_ROUNDED_S = 2.0
"""By so much at most a wait is longer as a date: it and the `Date` beside it are rounded each."""

By = Literal["ms", "seconds", "date", "body"]


class Told(msgspec.Struct, frozen=True):
    """What an answer asks for: `wait_s` from when it was written, 0..`MAX_WAIT_S`."""

    wait_s: float
    by: By
    standard: bool = True
    """Whether RFC 9110 knows this form."""


class Unreadable(msgspec.Struct, frozen=True):
    """The answer says something, in `field`, that means nothing."""

    field: Literal["retry-after", "retry-after-ms"]


_DECIMAL = re.compile(r"([0-9]+)(\.[0-9]+)?", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DAY = "(?P<weekday>" + "|".join(_DAYS) + ")"
_LONG_DAY = "(?P<weekday>Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_SPELLINGS = (
    re.compile(rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT", re.ASCII),
    re.compile(rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT", re.ASCII),
    re.compile(rf"{_DAY} {_MONTH} (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})", re.ASCII),
)
# OpenAI and Groq, Gemini, Azure; a duration as Go prints it, or a number of seconds.
_SAID = (
    re.compile(r"(?:try again|retry) in (?P<go>(?:[0-9.]+(?:ms|h|m|s))+)", re.ASCII),
    re.compile(r"(?:try again|retry) (?:in|after) (?P<seconds>[0-9]+(?:\.[0-9]+)?) seconds?\b", re.ASCII),
)
_GO_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)", re.ASCII)
_GO_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def http_date(wall_s: float) -> str:
    """Write a moment (seconds since 1970 UTC) as an HTTP-date, cut to the second."""
    at = datetime.fromtimestamp(wall_s // 1, UTC)
    return f"{_DAYS[at.weekday()]}, {at.day:02} {_MONTHS[at.month - 1]} {at.year:04} {at:%H:%M:%S} GMT"


def parse_http_date(text: str, *, now_s: float) -> float | None:
    """Read an HTTP-date as seconds since 1970 UTC; None when it is none. `now_s` settles years of two digits."""
    for spelling in _SPELLINGS:
        match = spelling.fullmatch(text)
        if match is None:
            continue
        year, second = int(match["year"]), int(match["second"])
        if len(match["year"]) == 2:
            now = datetime.fromtimestamp(now_s, UTC)
            rest = _MONTHS.index(match["month"]) + 1, int(match["day"]), match["hour"], match["minute"], match["second"]
            year += now.year - now.year % 100 + 100
            while (year, *rest) > (now.year + 50, now.month, now.day, *f"{now:%H:%M:%S}".split(":")):
                year -= 100
        try:
            at = datetime(
                year,
                _MONTHS.index(match["month"]) + 1,
                int(match["day"]),
                int(match["hour"]),
                int(match["minute"]),
                min(second, 59),
                tzinfo=UTC,
            )
        except ValueError:
            return None
        if match["weekday"][:3] != _DAYS[at.weekday()]:
            return None
        # `:60` is a leap second and the grammar allows it; beyond it there is none.
        return at.timestamp() + (second == 60) if second <= 60 else None
    return None


def read(fields: Iterable[tuple[str, str]], body: bytes = b"", *, now_s: float) -> Told | Unreadable | None:
    """What an answer asks for, by its head's `fields` (names in any case) and its decoded `body`.

    `now_s`: our time in seconds since 1970 UTC, used where a date has no `Date` beside it. None: it asks for nothing.
    """
    fine: list[str] = []
    plain: list[str] = []
    dates: list[str] = []
    for name, value in fields:
        match name.lower():
            case "retry-after-ms":
                fine.append(value.strip(" \t"))
            case "retry-after":
                plain.append(value.strip(" \t"))
            case "date":
                dates.append(value.strip(" \t"))
    if not (fine or plain or body):
        return None
    told = [Told(_cap(seconds / 1e3), "ms", False) for text in fine if (seconds := _decimal(text)) is not None]
    coarse = [one for text in plain if (one := _plain(text, dates, now_s)) is not None]
    if told:
        fine_s = max(one.wait_s for one in told)
        coarse = [
            one
            for one in coarse
            if one.wait_s > fine_s + _ROUNDED_S or (one.by == "seconds" and one.wait_s >= fine_s + 1)
        ]
    told += coarse
    if told:
        return max(told, key=lambda one: one.wait_s)
    in_body = _body(body)
    if in_body is not None:
        return Told(_cap(in_body), "body", False)
    if plain or fine:
        return Unreadable("retry-after" if plain else "retry-after-ms")
    return None


def retry_info(body: bytes) -> Told | None:
    """Read the wait of a `google.rpc.RetryInfo` in an error's decoded `body`, and nothing else of it."""
    error = _error(body)
    seconds = None if error is None else _delay(error)
    return None if seconds is None else Told(_cap(seconds), "body", False)


def _cap(seconds: float) -> float:
    return min(seconds, MAX_WAIT_S)


def _decimal(text: str) -> float | None:
    return float(text) if _DECIMAL.fullmatch(text) else None


def _plain(text: str, dates: list[str], now_s: float) -> Told | None:
    if match := _DECIMAL.fullmatch(text):
        return Told(_cap(float(text)), "seconds", match[2] is None)
    until_s = parse_http_date(text, now_s=now_s)
    if until_s is None:
        return None
    written_s = parse_http_date(dates[0], now_s=now_s) if len(dates) == 1 else None
    return Told(_cap(max(0.0, until_s - (now_s if written_s is None else written_s))), "date")


def _body(body: bytes) -> float | None:
    error = _error(body)
    if error is None:
        return None
    seconds = _delay(error)
    if seconds is not None:
        return seconds
    message = error.get("message")
    return _said(message) if isinstance(message, str) else None


def _error(body: bytes) -> dict[str, Any] | None:
    """Find an error's object; one that is a text alone counts as its message."""
    if not body or len(body) > MAX_BODY_BYTES:
        return None
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # Gemini's streams wrap an error so
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, dict):
        return error
    return {**value, "message": error} if isinstance(error, str) and value.get("message") is None else value


def _delay(error: dict[str, Any]) -> float | None:
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type")).endswith("google.rpc.RetryInfo"):
            delay = detail.get("retryDelay")
            # protobuf's JSON form of a Duration: decimal seconds and an `s`.
            if isinstance(delay, str) and delay.endswith("s") and (seconds := _decimal(delay[:-1])) is not None:
                return seconds
    return None


def _said(message: str) -> float | None:
    go, seconds = (pattern.search(message) for pattern in _SAID)
    if go is not None:
        parts = _GO_PART.findall(go["go"])
        if parts and "".join(number + unit for number, unit in parts) == go["go"]:
            return sum(float(number) * _GO_S[unit] for number, unit in parts)
    return None if seconds is None else float(seconds["seconds"])
