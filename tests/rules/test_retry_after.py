"""The law of Retry-After against its table of cases, which every other carrier of it is tested against too."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.rules.retry_after import MAX_WAIT_S, Told, Unreadable, http_date, parse_http_date, read, retry_info

TABLE = json.loads(Path(__file__).with_name("retry_after.cases.json").read_text())
CASES = [pytest.param(case, id=case["name"]) for case in TABLE["cases"]]


def expected(want: dict[str, Any] | None) -> Told | Unreadable | None:
    if want is None:
        return None
    return Unreadable(want["unreadable"]) if "unreadable" in want else Told(**want)


@pytest.mark.parametrize("case", CASES)
def test_the_table_of_cases_holds(case: dict[str, Any]) -> None:
    fields = [(name, value) for name, value in case["fields"]]
    found = read(fields, case["body"].encode(), now_s=TABLE["now_s"])
    want = expected(case["want"])
    if isinstance(found, Told) and isinstance(want, Told):
        assert (found.by, found.standard) == (want.by, want.standard)
        assert found.wait_s == pytest.approx(want.wait_s, rel=1e-12)
    else:
        assert found == want


def test_no_two_cases_have_one_name() -> None:
    names = [case["name"] for case in TABLE["cases"]]
    assert len(set(names)) == len(names) >= 60


def test_a_body_that_is_too_large_or_no_text_says_nothing() -> None:
    large = json.dumps({"error": {"message": "try again in 3s", "pad": "x" * 70_000}}).encode()
    for body in (large, b"\xff\xfe", b"[" * 10_000, b""):
        assert read([], body, now_s=0) is None


@given(st.text(max_size=40), st.binary(max_size=60))
@example("9" * 400, b"")
def test_whatever_is_said_is_a_wait_within_bounds_or_none(value: str, body: bytes) -> None:
    for name in ("retry-after", "retry-after-ms"):
        found = read([(name, value)], body, now_s=784111777)
        assert found is not None  # a field that is there is never taken for one that is missing
        assert isinstance(found, Unreadable) or 0 <= found.wait_s <= MAX_WAIT_S


@given(st.integers(0, 253_402_300_799))
@example(0)
@example(951_782_400)  # 29 February 2000
def test_a_date_that_is_written_reads_as_the_same_second(at_s: int) -> None:
    assert parse_http_date(http_date(at_s), now_s=0) == at_s


def test_a_date_is_written_in_english_and_cut_to_the_second() -> None:
    assert http_date(784111777.9) == "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("body", "wait_s"),
    [
        ('{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38.7s"}]}}', 38.7),
        ('[{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}]}}]', 1.0),
        ('{"error":{"message":"Please retry in 38.7s.","details":[]}}', None),
        ('{"error":{"message":"Rate limit: try again in 20 seconds"}}', None),
        ('{"error":"try again in 3s"}', None),
        ('{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"soon"}]}}', None),
        ("no JSON", None),
        ("", None),
    ],
)
def test_what_decides_on_a_retry_reads_retry_info_and_no_prose(body: str, wait_s: float | None) -> None:
    assert retry_info(body.encode()) == (None if wait_s is None else Told(wait_s, "body", False))


@pytest.mark.parametrize(
    ("ms", "seconds", "wait_s"),
    [("0", "1", 1.0), ("0", "2", 2.0), ("100", "2", 2.0), ("1000", "2", 2.0), ("1000", "1", 1.0), ("1001", "2", 1.001)],
)
def test_seconds_that_are_no_rounding_of_the_milliseconds_beside_them_hold(
    ms: str, seconds: str, wait_s: float
) -> None:
    told = read([("retry-after-ms", ms), ("retry-after", seconds)], now_s=0.0)
    assert isinstance(told, Told) and told.wait_s == wait_s


def test_two_digits_of_a_year_mean_the_latest_moment_that_is_at_most_fifty_years_ahead() -> None:
    now_s = datetime(2026, 12, 1, 9, 0, 0, tzinfo=UTC).timestamp()
    ahead, behind = datetime(2076, 12, 1, 9, 0, 0, tzinfo=UTC), datetime(1976, 12, 1, 9, 0, 1, tzinfo=UTC)
    for at in (ahead, behind):
        assert parse_http_date(f"{at:%A, %d-%b-%y %H:%M:%S} GMT", now_s=now_s) == at.timestamp()
    turn_s = datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    for at in (datetime(2100, 1, 1, tzinfo=UTC), datetime(2149, 12, 31, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)):
        assert parse_http_date(f"{at:%A, %d-%b-%y %H:%M:%S} GMT", now_s=turn_s) == at.timestamp()
