"""What the real SDKs of OpenAI and Anthropic do under these faults: exception, attempts on the wire, who sleeps.

The figures are those of the releases that are installed; where an upgrade moves one, the page that quotes it moves too.
Clients are given short time limits, and one that would sleep for hours is left sleeping in a thread of its own.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.wirelab import Origin, ProxyProcess, plain_answer, proxy

pytest.importorskip("openai")
pytest.importorskip("anthropic")

import anthropic
import openai

pytestmark = pytest.mark.e2e

SLEEPS = "sleeps"
OK = "ok"
WAIT_S = 15.0
MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]


@dataclass
class Call:
    """One call of an SDK in a thread: `outcome` is None until it returned or raised."""

    outcome: str | None = None
    seconds: float = 0.0


def start(work: Callable[[], object]) -> Call:
    call = Call()

    def run() -> None:
        begun = time.monotonic()
        try:
            work()
            word = OK
        except Exception as error:
            word = type(error).__name__
        call.seconds = time.monotonic() - begun
        call.outcome = word

    threading.Thread(target=run, daemon=True).start()
    return call


def ask_openai(url: str, *, timeout_s: float, calls: int = 1) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-test-0123456789", timeout=timeout_s) as client:
        for _ in range(calls):
            client.chat.completions.create(model="m", messages=MESSAGES)


def ask_anthropic(url: str, *, timeout_s: float, calls: int = 1) -> None:
    with anthropic.Anthropic(base_url=url, api_key="sk-test-0123456789", timeout=timeout_s) as client:
        for _ in range(calls):
            client.messages.create(model="m", max_tokens=5, messages=MESSAGES)


SDKS: dict[str, Callable[..., None]] = {"openai_chat": ask_openai, "anthropic": ask_anthropic}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    origin = Origin(plain_answer)
    with proxy(tmp_path_factory.mktemp("sdks"), upstream=origin.url) as one:
        yield one
    origin.close()


_windows = iter(range(1_000_000))


def measure(
    ours: ProxyProcess,
    tag: str,
    params: dict[str, Any],
    *,
    sleeper_s: float = 1.0,
    timeout_s: float = 5.0,
    calls: int = 1,
) -> dict[str, tuple[str, int, float]]:
    """Both SDKs at once: outcome, attempts that the proxy saw, seconds. One that is silent `sleeper_s` after its first
    attempt sleeps."""
    window = f"w{next(_windows)}"
    ours.inject(tag, window, **params)
    before = len(ours.rows("attempt"))
    running = {
        name: start(lambda ask=ask: ask(ours.url, timeout_s=timeout_s, calls=calls))  # type: ignore[misc]  # bound by its default
        for name, ask in SDKS.items()
    }
    give_up = time.monotonic() + WAIT_S
    told: dict[str, float] = {}
    while any(call.outcome is None for call in running.values()) and time.monotonic() < give_up:
        time.sleep(0.05)
        rows = ours.rows("attempt")[before:]
        for name in running:
            mine = [row for row in rows if row["dialect"] == name]
            if len(mine) == 1:
                told.setdefault(name, time.monotonic())
            else:
                told.pop(name, None)
        quiet = all(
            call.outcome is not None or (name in told and time.monotonic() - told[name] > sleeper_s)
            for name, call in running.items()
        )
        if quiet:
            break
    ours.until(lambda state: state["counts"]["in_flight"] == 0)  # a line follows its answer
    rows = ours.rows("attempt")[before:]
    ours.lift(window)
    return {
        name: (call.outcome or SLEEPS, sum(row["dialect"] == name for row in rows), call.seconds)
        for name, call in running.items()
    }


# params of rate-limit -> outcome and attempts of openai, then of anthropic
WAITS: list[tuple[dict[str, Any], tuple[str, int], tuple[str, int]]] = [
    ({"retry_after_s": 1, "form": "seconds"}, ("RateLimitError", 3), ("RateLimitError", 3)),
    ({"retry_after_s": 60, "form": "seconds"}, (SLEEPS, 1), (SLEEPS, 1)),
    ({"retry_after_s": 120, "form": "seconds"}, (SLEEPS, 1), (SLEEPS, 1)),
    ({"retry_after_s": 121, "form": "seconds"}, ("RateLimitError", 1), (SLEEPS, 1)),
    ({"retry_after_s": 3600, "form": "seconds"}, ("RateLimitError", 1), (SLEEPS, 1)),
    ({"retry_after_s": 277_403, "form": "seconds"}, ("RateLimitError", 1), (SLEEPS, 1)),
    ({"retry_after_s": 1, "form": "date"}, ("RateLimitError", 3), ("RateLimitError", 3)),
    ({"retry_after_s": 3600, "form": "date"}, ("RateLimitError", 1), (SLEEPS, 1)),
    ({"retry_after_s": 0.05, "form": "ms"}, ("RateLimitError", 3), ("RateLimitError", 3)),
    ({"retry_after_s": 3600, "form": "ms"}, ("RateLimitError", 1), (SLEEPS, 1)),
    # Said in the body alone, or nowhere: both come back by a backoff of their own.
    ({"retry_after_s": 3600, "form": "body"}, ("RateLimitError", 3), ("RateLimitError", 3)),
    ({"form": "none"}, ("RateLimitError", 3), ("RateLimitError", 3)),
]


@pytest.mark.parametrize("params, by_openai, by_anthropic", WAITS, ids=lambda value: str(value)[:60])
def test_what_each_sdk_makes_of_a_wait(
    ours: ProxyProcess, params: dict[str, Any], by_openai: tuple[str, int], by_anthropic: tuple[str, int]
) -> None:
    # A sleeper is told from a client between two attempts by a silence longer than its backoff, or than the wait of 1 s,
    # which as a date may be up to 2 s.
    found = measure(ours, "rate-limit", params, sleeper_s=2.5 if params.get("retry_after_s") == 1 else 1.2)
    assert found["openai_chat"][:2] == by_openai
    assert found["anthropic"][:2] == by_anthropic


def test_a_wait_in_milliseconds_is_kept(ours: ProxyProcess) -> None:
    found = measure(ours, "rate-limit", {"retry_after_s": 0.05, "form": "ms"})
    for _, _, seconds in found.values():
        assert 0.1 <= seconds < 0.9  # two waits of 50 ms, where a backoff would be 0.4 s at least


# fault, params, timeout_s -> outcome and attempts of openai, then of anthropic
FAULTS: list[tuple[str, dict[str, Any], float, tuple[str, int], tuple[str, int]]] = [
    ("refused", {}, 5, ("APIConnectionError", 0), ("APIConnectionError", 0)),
    ("syn-black-hole", {}, 0.3, ("APITimeoutError", 0), ("APITimeoutError", 0)),
    ("rst-on-accept", {}, 5, ("APIConnectionError", 0), ("APIConnectionError", 0)),
    ("fin-before-headers", {}, 5, ("APIConnectionError", 3), ("APIConnectionError", 3)),
    ("cut-body", {"after_bytes": 20}, 5, ("APIConnectionError", 3), ("APIConnectionError", 3)),
    ("cut-body", {"after_bytes": 20, "how": "fin"}, 5, ("APIConnectionError", 3), ("APIConnectionError", 3)),
    ("hang-after-headers", {}, 0.3, ("APITimeoutError", 3), ("APITimeoutError", 3)),
    ("first-byte-delay", {"delay_ms": 900}, 0.3, ("APITimeoutError", 3), ("APITimeoutError", 3)),
    # A read timeout begins anew with each byte: three times the limit, and a success.
    ("body-drip", {"bytes_per_s": 200}, 0.3, (OK, 1), (OK, 1)),
    ("header-drip", {"bytes_per_s": 60}, 0.3, (OK, 1), (OK, 1)),
    ("throttle", {"bytes_per_s": 200}, 0.3, (OK, 1), (OK, 1)),
    ("slow-close", {"delay_ms": 100}, 5, (OK, 1), (OK, 1)),
    ("overloaded", {}, 5, ("InternalServerError", 3), ("OverloadedError", 3)),
    ("status", {"status": 502, "html": True}, 5, ("InternalServerError", 3), ("InternalServerError", 3)),
    ("status", {"status": 408}, 5, ("APIStatusError", 3), ("RequestTimeoutError", 3)),
    ("status", {"status": 409}, 5, ("ConflictError", 3), ("ConflictError", 3)),
    ("status", {"status": 422}, 5, ("UnprocessableEntityError", 1), ("UnprocessableEntityError", 1)),
    ("status", {"status": 400, "condition": "context"}, 5, ("BadRequestError", 1), ("BadRequestError", 1)),
    ("status", {"status": 400, "should_retry": True}, 5, ("BadRequestError", 3), ("BadRequestError", 3)),
    ("status", {"status": 429, "should_retry": False}, 5, ("RateLimitError", 1), ("RateLimitError", 1)),
    # Money: retried in vain where the API says it with a 429.
    ("quota-spent", {"status": 429}, 5, ("RateLimitError", 3), ("EnforcedSpendLimitReachedError", 3)),
    ("quota-spent", {}, 5, ("RateLimitError", 3), ("PaymentRequiredError", 1)),
    ("key-expired", {}, 5, ("AuthenticationError", 1), ("AuthenticationError", 1)),
]


@pytest.mark.parametrize("tag, params, timeout_s, by_openai, by_anthropic", FAULTS, ids=lambda value: str(value)[:40])
def test_what_each_sdk_makes_of_a_fault(
    ours: ProxyProcess,
    tag: str,
    params: dict[str, Any],
    timeout_s: float,
    by_openai: tuple[str, int],
    by_anthropic: tuple[str, int],
) -> None:
    found = measure(ours, tag, params, sleeper_s=8, timeout_s=timeout_s)
    assert {name: one[:2] for name, one in found.items()} == {"openai_chat": by_openai, "anthropic": by_anthropic}


def test_a_stale_connection_is_retried_by_both_and_the_user_sees_nothing(ours: ProxyProcess) -> None:
    found = measure(ours, "stale-keep-alive", {}, calls=2, sleeper_s=8)
    for outcome, attempts, _ in found.values():
        assert (outcome, attempts) == (OK, 3)  # one good, one on the stale connection, its retry


def test_a_new_key_heals_what_a_retry_does_not(ours: ProxyProcess) -> None:
    ours.inject("key-expired", "rotation")

    def ask(key: str) -> str:
        with openai.OpenAI(base_url=f"{ours.url}/v1", api_key=key, timeout=5) as client:
            try:
                client.chat.completions.create(model="m", messages=MESSAGES)
            except openai.AuthenticationError:
                return "AuthenticationError"
        return OK

    assert [ask(key) for key in ("sk-test-0123456789", "sk-rotated-0123456789", "sk-test-0123456789")] == [
        "AuthenticationError",
        OK,
        "AuthenticationError",
    ]
    ours.lift("rotation")


def test_a_client_that_keeps_to_a_bucket_is_served_by_its_own_retries(ours: ProxyProcess) -> None:
    # 60 a minute, one at once: the second call meets a 429 with its wait, sleeps it, and is served.
    ours.inject("requests-per-minute", "bucket", requests=60, burst=1)
    begun = time.monotonic()
    with openai.OpenAI(base_url=f"{ours.url}/v1", api_key="sk-bucket-0123456789", timeout=5) as client:
        for _ in range(2):
            client.chat.completions.create(model="m", messages=MESSAGES)
    taken_s = time.monotonic() - begun
    ours.lift("bucket")
    assert 0.8 <= taken_s < 3
