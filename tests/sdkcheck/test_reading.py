"""What a cell's words and wire are read into."""

from typing import Any

import pytest

from drillmaster.sdkcheck import Cell, Defaults, Result
from drillmaster.sdkcheck.reading import Said, read, wire_of

DEFAULTS = Defaults(connect_s=5.0, read_s=600.0, retries=2)
PLAIN = Said(how="returned", kind="stream", text="all of it.", finish="stop")


def cell(fault: str = "hang", **params: Any) -> Cell:
    return Cell(client="c", fault=fault, label=fault, params=params, stream=True)


def rows(attempts: int, *, met: int = 1, status: int | None = None, **fields: Any) -> list[dict[str, Any]]:
    return [{"event": "fault_met"}] * met + [{"event": "attempt", "status": status, **fields}] * attempts


def result(said: Said, wire: list[dict[str, Any]], one: Cell | None = None, **more: Any) -> Result:
    scope = more.pop("scope", "exchange")
    defaults = more.pop("defaults", DEFAULTS)
    return read(one or cell(), said, wire_of(wire, scope), PLAIN, defaults, limit_s=1.5, log="c/x")


def test_a_fault_that_met_nothing_is_no_result_whatever_was_returned() -> None:
    found = result(PLAIN, rows(1, met=0))
    assert (found.outcome, found.fallback) == ("not-met", None)


@pytest.mark.parametrize(
    ("text", "finish", "what"),
    [
        ("", None, "no text, finish None"),
        (None, "stop", "no text, finish stop"),
        ("all", None, "3 of 10 characters, finish None"),
        ("all of it.", None, "the whole text, finish None"),  # a clean end: nothing says that it is whole
        ("all of it.", "length", "the whole text, finish length"),
        ("all all of it.", "stop", "other text 'all all of it.', finish stop"),
    ],
)
def test_what_is_not_the_plain_answer_looked_like_success(text: str | None, finish: str | None, what: str) -> None:
    found = result(Said(how="returned", kind="stream", text=text, finish=finish), rows(1))
    assert (found.outcome, found.what, found.fallback) == ("fooled", what, False)


def test_the_plain_answer_is_an_answer_after_any_number_of_attempts() -> None:
    found = result(PLAIN, rows(3))
    assert (found.outcome, found.attempts, found.fallback) == ("answered", 3, None)


@pytest.mark.parametrize("caught", [True, False])
def test_a_fallback_engages_on_what_the_own_class_catches(caught: bool) -> None:
    found = result(Said(how="raised", class_="x.E", caught=caught, seconds=0.1), rows(1))
    assert (found.outcome, found.caught, found.fallback, found.worst_s) == ("raised", caught, caught, 0.1)


def test_a_time_limit_is_replaced_by_the_clients_own_for_each_attempt() -> None:
    said = Said(how="raised", class_="x.APITimeoutError", caught=True, seconds=6.0)
    assert result(said, rows(3)).worst_s == 1801.5


def test_a_black_hole_shows_no_attempts_and_costs_connect_limits() -> None:
    said = Said(how="raised", class_="x.APITimeoutError", caught=True, seconds=6.0)
    found = result(said, rows(0), cell("syn-black-hole"), scope="port")
    assert (found.attempts, found.worst_s) == (None, 16.5)


def test_a_limit_of_the_whole_call_holds_where_it_is_shorter() -> None:
    own = Defaults(connect_s=30.0, read_s=None, total_s=300.0, retries=0)
    said = Said(how="raised", class_="TimeoutError", caught=True, seconds=1.5)
    assert result(said, rows(1), defaults=own).worst_s == 300.0


def test_a_client_without_a_limit_never_ends() -> None:
    own = Defaults(connect_s=None, read_s=None, retries=0)
    said = Said(how="raised", class_="x.ReadTimeout", caught=True, seconds=1.6)
    assert result(said, rows(1), defaults=own).worst_s is None


@pytest.mark.parametrize(
    ("class_", "status"),
    [
        ("x.BadRequestError", None),  # slow, and not by a limit
        ("x.GatewayTimeoutError", 504),  # named for what it was told
    ],
)
def test_a_slow_error_is_no_time_limit(class_: str, status: int | None) -> None:
    said = Said(how="raised", class_=class_, caught=True, seconds=7.0)
    assert result(said, rows(3, status=status)).worst_s == 7.0


@pytest.mark.parametrize(
    ("attempts", "worst_s"),
    [
        (1, 7200.0),  # two retries are left
        (2, 3600.0),
        (3, None),  # no retry is left to wait for: whatever it waits for, nothing says how long
    ],
)
def test_a_wait_that_was_asked_for_counts_for_each_retry_that_is_left(attempts: int, worst_s: float | None) -> None:
    found = result(Said(how="waiting", seconds=9.0), rows(attempts, status=429, asked_s=3600.0), cell("rate-limit"))
    assert (found.outcome, found.fallback, found.worst_s) == ("waiting", False, worst_s)


@pytest.mark.parametrize(
    ("fault", "attempts", "worst_s"),
    [
        ("hang", 2, 1800.0),  # its limit ended the first: it ends each of the three
        ("hang", 1, None),  # its limit, if it has one, did not hold here
        ("stall", 2, 1800.0),
        ("ping-stall", 2, None),  # something always comes
        ("reset", 2, None),  # no limit ended that one, and nothing says what it waits for
    ],
)
def test_a_client_that_is_still_at_its_retries_has_its_own_limit_for_each(
    fault: str, attempts: int, worst_s: float | None
) -> None:
    assert result(Said(how="waiting", seconds=6.5), rows(attempts), cell(fault)).worst_s == worst_s


def test_any_other_wait_has_no_end() -> None:
    assert result(Said(how="waiting", seconds=9.0), rows(1)).worst_s is None
    assert result(Said(how="waiting", seconds=9.0), rows(1, status=429)).worst_s is None


@pytest.mark.parametrize(
    ("fault", "worst_s"),
    [
        ("stall", 300.0),
        ("hang-after-headers", 300.0),
        ("ping-stall", None),  # something always comes: no limit on silence ends it
        ("throttle", None),
        ("slow-tokens", None),
    ],
)
def test_silence_in_a_body_lasts_as_long_as_the_transport_lets_it(fault: str, worst_s: float | None) -> None:
    own = Defaults(connect_s=10.0, read_s=300.0, body_s=300.0, retries=2)
    waiting = Said(how="waiting", seconds=9.0)
    assert result(waiting, rows(1, status=200, end="stall"), cell(fault), defaults=own).worst_s == worst_s
    # The answer was whole: no limit on silence is running any more.
    assert result(waiting, rows(1, status=200, end="clean"), cell(fault), defaults=own).worst_s is None


def test_a_crash_says_nothing_about_the_fault() -> None:
    found = result(Said(how="crashed", message="boom"), rows(1))
    assert (found.outcome, found.what, found.fallback) == ("crashed", "boom", None)


def test_the_calls_before_the_measured_one_are_not_its_attempts() -> None:
    one = Cell(client="c", fault="stale-keep-alive", label="s", params={}, stream=False, calls=2)
    assert result(PLAIN, rows(3), one).attempts == 2


def test_connections_count_where_no_request_was_read() -> None:
    assert wire_of(rows(0, met=3), "connection").attempts == 3
