"""The header fields of each API's errors, against a table of what is documented of them or was seen: one row an API."""

import re
from collections.abc import Iterator

import msgspec
import pytest

from drillmaster.dialects import Bucket, Condition, Dialect, Reply, load, names

X_LIMITS = frozenset(
    f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")
)
CLAUDE_LIMITS = frozenset(
    f"anthropic-ratelimit-{of}-{what}"
    for of in ("requests", "tokens", "input-tokens", "output-tokens")
    for what in ("limit", "remaining", "reset")
)
GO_DURATION = r"(\d+h)?(\d+m)?(\d+(\.\d+)?(s|ms))?"
WHOLE_SECONDS = r"\d+"


class Documented(msgspec.Struct, frozen=True, kw_only=True):
    """One API's row."""

    always: frozenset[str] = frozenset()
    delay: frozenset[str] = frozenset()
    """What says when to try again, where that is said at all."""
    delay_on: frozenset[int] = frozenset()
    """The statuses that may say it."""
    limits: frozenset[str] = frozenset()
    """What reports the limits, where there are some to report."""
    reset: str = ""
    """How the time until a limit is full again is written."""
    ours: frozenset[str] = frozenset()
    """Not in the table; some id of the request, by which it is found again."""


def fields(*named: str) -> frozenset[str]:
    return frozenset(named)


ROWS = {
    "openai_chat": Documented(
        always=fields("x-request-id", "openai-processing-ms"), delay=fields("retry-after", "retry-after-ms"),
        delay_on=frozenset((429, 503)), limits=X_LIMITS, reset=GO_DURATION,
    ),
    "azure_openai": Documented(
        always=fields("apim-request-id"), delay=fields("retry-after", "retry-after-ms"), delay_on=frozenset((429, 503)),
        limits=X_LIMITS, reset=WHOLE_SECONDS,
    ),
    "anthropic": Documented(
        always=fields("request-id"), delay=fields("retry-after"), delay_on=frozenset((429,)), limits=CLAUDE_LIMITS,
        reset=r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    ),
    "gemini": Documented(),  # the delay is in the body only
    "openrouter": Documented(
        always=fields("x-generation-id"), delay=fields("retry-after"), delay_on=frozenset((402, 429, 503)),
    ),
    "groq": Documented(
        always=X_LIMITS, delay=fields("retry-after"), delay_on=frozenset((429,)), limits=X_LIMITS, reset=GO_DURATION,
        ours=fields("x-request-id"),
    ),
    "mistral": Documented(ours=fields("mistral-correlation-id")),  # nobody verified any
}  # fmt: skip
ROWS["openai_responses"] = ROWS["openai_chat"]
NO_ROW = {"mcp", "ollama", "plain"}
"""No API with limits of its own."""
BESIDE = {("azure_openai", "rate-untold"): fields("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")}
"""Seen with this error, and with it alone."""


def conditions(dialect: Dialect) -> Iterator[Condition]:
    yield from dialect.table
    yield dialect.unlisted(418)


@pytest.mark.parametrize("name", names())
def test_every_api_has_a_row_or_a_reason_to_have_none(name: str) -> None:
    assert (name in ROWS) != (name in NO_ROW)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("retry_after_s", [None, 7.5])
def test_an_error_has_the_fields_that_are_documented_and_no_other(name: str, retry_after_s: float | None) -> None:
    dialect, row = load(name), ROWS[name]
    for one in conditions(dialect):
        given = retry_after_s if one.tells_delay else None
        answer = dialect.word(one, request_id="r", retry_after_s=given)
        wanted = row.always | row.ours | BESIDE.get((name, one.name), frozenset()) | {"content-type"}
        if given is not None:
            wanted |= row.delay
            assert not row.delay or one.status in row.delay_on, one.name
        found = [field for field, _ in answer.headers]
        assert sorted(found) == sorted(wanted), one.name


@pytest.mark.parametrize("name", ROWS)
def test_limits_are_reported_by_the_names_and_in_the_words_that_are_documented(name: str) -> None:
    bucket = Bucket(limit=60, remaining=59, reset_s=61.5)
    found = dict(load(name).rate_headers(requests=bucket, tokens=bucket, now_s=1_800_000_000))
    assert found.keys() == ROWS[name].limits
    for field, value in found.items():
        assert re.fullmatch(ROWS[name].reset if "reset" in field else r"\d+", value), (field, value)


def test_groq_reports_its_limits_on_good_answers_too() -> None:
    dialect, reply = load("groq"), Reply(model="m", pieces=("a", " b"))
    assert dict(dialect.answer(reply).headers).keys() >= X_LIMITS
    assert dict(dialect.stream(reply).headers).keys() >= X_LIMITS


@pytest.mark.parametrize(
    ("condition", "requests", "tokens"),
    [("rate", "0", None), ("daily", "0", None), ("rate-tokens", None, "0"), ("auth", None, None)],
)
def test_the_limit_that_groq_refuses_for_is_used_up_and_no_other(
    condition: str, requests: str | None, tokens: str | None
) -> None:
    answer = load("groq").error(None, condition, request_id="r", retry_after_s=90)
    found = dict(answer.headers)
    for what, used_up in (("requests", requests), ("tokens", tokens)):
        assert (found[f"x-ratelimit-remaining-{what}"] == "0") == (used_up == "0")
        assert (found[f"x-ratelimit-reset-{what}"] == "1m30s") == (used_up == "0")
