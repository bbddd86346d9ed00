"""HDR: latencies of an interview as HdrHistogram's log, version 1.3, for programs that read and merge those.

1. One line a level and time, whose tag names both (`warm_c4.latency`). Values are whole microseconds; each lies in a bucket whose
   width is at most a thousandth of it (three digits), so a quantile read from there may be that much off. The gate never reads it.
2. Good calls are in it, and calls that were cut, which count as what they had taken: such a line is preceded by a comment with
   their number. Failed calls are in no line.
3. The format is HdrHistogram's V2: counts from the lowest bucket on as ZigZag LEB128 of at most nine bytes, runs of empty ones as
   one negative number, behind a header of 40 bytes, deflated, in base 64.
"""

import base64
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

from drillmaster.interviews import Interview, Level, Time

__all__ = ["BUCKET_RATIO", "bucket_of", "encoded", "render", "value_at"]

DIGITS = 3
BUCKET_RATIO = 0.001
"""The widest that a bucket may be, of its value."""
HIGHEST_US = 86_400_000_000
_TIMES: tuple[Time, ...] = ("latency", "service", "ttfb", "ttft", "itl")
_HALF_MAGNITUDE = 10
"""2 * 10**DIGITS values are told apart one by one, rounded up to a power of two: 2,048, of which a half is 2**10."""
_HALF = 1 << _HALF_MAGNITUDE
_MASK = (_HALF << 1) - 1
_COOKIE = 0x1C849303 | 0x10
_COMPRESSED = 0x1C849304 | 0x10
_HEADER = struct.Struct(">iiiiqqd")


def render(interview: Interview, *, run: str, started_s: float, started_at: str) -> str:
    """Write the log. `started_s`: of the run's zero, in seconds since 1970; `started_at` the same for people."""
    lines = [
        f"#[drillmaster interview {run}: microseconds, {DIGITS} digits, good calls and, as what they had taken, cut ones]",
        "#[Histogram log format version 1.3]",
        f"#[StartTime: {started_s:.3f} (seconds since epoch), {started_at}]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for level in interview.levels:
        for time in _TIMES:
            lines += _line(level, time)
    return "\n".join(lines) + "\n"


def _line(level: Level, time: Time) -> Iterable[str]:
    if level.calls is None:
        return
    samples = [value for _, value in level.calls.samples(time)]
    if not samples:
        return
    begin_s, cut = min(level.calls.due_s), sum(value < 0 for value in samples)
    if cut:
        yield f"#[{level.label}.{time}: {cut} of {len(samples)} were cut, and took at least so long]"
    if level.void:
        yield f"#[{level.label} is VOID: its numbers are the client's]"
    counts = Counter(min(round(abs(value) * 1e6), HIGHEST_US) for value in samples)
    yield (
        f"Tag={level.label}.{time},{begin_s:.3f},{level.seconds or 0.0:.3f},{max(counts) / 1e3:.3f},"
        f"{base64.b64encode(encoded(counts)).decode()}"
    )


def bucket_of(value: int) -> int:
    """Place of a value's count."""
    bucket = (value | _MASK).bit_length() - (_HALF_MAGNITUDE + 1)
    return ((bucket + 1) << _HALF_MAGNITUDE) + (value >> bucket) - _HALF


def value_at(place: int) -> int:
    """The lowest value whose count has that place."""
    bucket = (place >> _HALF_MAGNITUDE) - 1
    within = (place & (_HALF - 1)) + _HALF
    if bucket < 0:
        return within - _HALF
    return within << bucket


def encoded(values: "Counter[int]") -> bytes:
    """A histogram of values with their counts, deflated and with its cookie."""
    places: Counter[int] = Counter()
    for value, count in values.items():
        places[bucket_of(value)] += count
    numbers, empty = [], 0
    for place in range(max(places, default=-1) + 1):
        count = places.get(place, 0)
        if not count:
            empty += 1
            continue
        if empty:
            numbers.append(-empty)
            empty = 0
        numbers.append(count)
    payload = _leb128(numbers)
    whole = _HEADER.pack(_COOKIE, len(payload), 0, DIGITS, 1, HIGHEST_US, 1.0) + payload
    deflated = zlib.compress(whole)
    return struct.pack(">ii", _COMPRESSED, len(deflated)) + deflated


def _leb128(numbers: Sequence[int]) -> bytes:
    """ZigZag and LEB128, the ninth byte whole."""
    found = bytearray()
    for number in numbers:
        left = (number << 1) ^ (number >> 63)
        for _ in range(8):
            if left < 0x80:
                break
            found.append(left & 0x7F | 0x80)
            left >>= 7
        found.append(left)
    return bytes(found)
