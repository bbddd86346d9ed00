"""HdrHistogram's log: the same bytes as its own libraries write, and what is in it."""

import base64
import re
import struct
import zlib
from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.interviews import Interview
from drillmaster.reports import form
from drillmaster.reports.hdr import BUCKET_RATIO, HIGHEST_US, bucket_of, encoded, value_at
from tests.gates.test_interview import timed

VALUES = [1, 5, 5, 2048, 4097, 1_000_000, HIGHEST_US]
THEIRS = b"HISTFAAAADF4nJNpmSzMwMAgyAABzFCaEYhFZK8nMNh/gAowsbJ8lmf6y8+0v47pZCsTEwC0yAiy"
"""Of VALUES, as HdrHistogram's own encoder for Python has it (lowest 1, highest a day of microseconds, three digits)."""


def inflated(data: bytes) -> bytes:
    cookie, length = struct.unpack(">ii", data[:8])
    assert (cookie, length) == (0x1C849314, len(data) - 8)
    return zlib.decompress(data[8:])


def counts(data: bytes) -> Counter[int]:
    """Read a histogram's counts back, by place: a decoder of its own."""
    whole = inflated(data)
    payload, found, place, at = whole[40:], Counter[int](), 0, 0
    assert struct.unpack(">i", whole[4:8])[0] == len(payload)
    while at < len(payload):
        number = shift = 0
        for nth in range(9):
            byte = payload[at]
            at += 1
            number |= (byte if nth == 8 else byte & 0x7F) << shift
            shift += 7
            if nth < 8 and byte < 0x80:
                break
        number = (number >> 1) ^ -(number & 1)
        if number < 0:
            place -= number
        else:
            found[place] = number
            place += 1
    return found


def test_a_histogram_is_what_its_own_library_writes() -> None:
    assert inflated(encoded(Counter(VALUES))) == inflated(base64.b64decode(THEIRS))


@given(st.lists(st.integers(0, HIGHEST_US), min_size=1, max_size=60))
@example([0, 2047, 2048, 4095, 4096])
@example([7] * 40)
def test_what_is_written_is_read_again_to_a_thousandth(values: list[int]) -> None:
    found = counts(encoded(Counter(values)))
    assert found.total() == len(values)
    assert found == Counter(map(bucket_of, values))
    for value in values:
        low, above = value_at(bucket_of(value)), value_at(bucket_of(value) + 1)
        assert low <= value < above
        assert above - low == 1 or above - low <= BUCKET_RATIO * value


def test_the_log_has_a_line_a_level_and_time_and_no_failed_call() -> None:
    took = [0.5] * 90 + [-60.0] * 5 + [0.001] * 5
    one = timed("warm_c4", took, kinds=dict.fromkeys(range(95, 100), "reset"), gaps_s=[0.02] * 9, gap_at_s=[1.0] * 9)
    void = timed("warm_c8", [1.0], void=("late",))
    interview = Interview(name="r", url="http://x", declared=(), levels=(one, void))
    text = form("hdr").render(interview, run="r", started_s=1_796_040_000.5, started_at="2026-11-30T12:00:00.5Z")
    lines = text.splitlines()
    assert lines[1] == "#[Histogram log format version 1.3]"
    assert lines[2].startswith("#[StartTime: 1796040000.500 (seconds since epoch)")
    assert "#[warm_c4.latency: 5 of 95 were cut, and took at least so long]" in lines
    assert "#[warm_c8 is VOID: its numbers are the client's]" in lines
    [latency] = [line for line in lines if line.startswith("Tag=warm_c4.latency,")]
    tag, begin, length, most, data = latency.split(",")
    assert (tag, begin, length, most) == ("Tag=warm_c4.latency", "0.000", "154.000", "60000.000")
    assert counts(base64.b64decode(data)) == {bucket_of(500_000): 90, bucket_of(60_000_000): 5}
    assert re.findall(r"^Tag=(\S+?),", text, re.M) == ["warm_c4.latency", "warm_c4.itl", "warm_c8.latency"]
