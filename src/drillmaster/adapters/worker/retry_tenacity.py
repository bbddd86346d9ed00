"""The retry guard as tenacity's `retry`, `wait` and `stop`: `@tenacity.retry(**policy(retries))`.

The guard decides once for each failure, where tenacity asks whether to retry; `wait` and `sleep` carry out what it said. It knows
the call's method and key from the request that the exception's answer holds (httpx, requests, SDKs), or as the caller says them.
Exceptions without an answer are never retried. Keys in flight are not kept by a loop; a transport does that.
"""

import time
from typing import Any

import tenacity

from drillmaster.adapters.worker.retry import Retries
from drillmaster.adapters.worker.retry_loops import failed, status_of
from drillmaster.guards import Decision
from drillmaster.guards.retry import FailedCall

__all__ = ["policy", "policy_async"]


def policy(retries: Retries, *, method: str = "", idempotency_key: str = "") -> dict[str, Any]:
    """Give what `tenacity.retry` and `tenacity.Retrying` take for a function without an event loop."""

    def retry(state: tenacity.RetryCallState) -> bool:
        facts = _facts(retries, state, method, idempotency_key)
        if facts is None:
            retries.good(first=state.attempt_number == 1)
            return False
        return _said(state, retries.decide(facts))

    def sleep(seconds: float) -> None:
        if not retries.sleep(round(seconds * 1_000)):
            raise retries.stops()

    return {"retry": retry, "sleep": sleep, **_common(retries)}


def policy_async(retries: Retries, *, method: str = "", idempotency_key: str = "") -> dict[str, Any]:
    """Give what `tenacity.retry` and `tenacity.AsyncRetrying` take for a coroutine function."""

    async def retry(state: tenacity.RetryCallState) -> bool:
        facts = _facts(retries, state, method, idempotency_key)
        if facts is None:
            await retries.good_async(first=state.attempt_number == 1)
            return False
        return _said(state, await retries.decide_async(facts))

    async def sleep(seconds: float) -> None:
        if not await retries.sleep_async(round(seconds * 1_000)):
            raise retries.stops()

    return {"retry": retry, "sleep": sleep, **_common(retries)}


def _common(retries: Retries) -> dict[str, Any]:
    def before(state: tenacity.RetryCallState) -> None:
        late_s = time.monotonic() - state.start_time - retries.guard.deadline_ms / 1_000
        if state.attempt_number > 1 and late_s >= 0:  # the worker was held up
            raise retries.late()

    return {"before": before, "wait": _wait, "stop": tenacity.stop_never, "reraise": True}


def _facts(retries: Retries, state: tenacity.RetryCallState, method: str, key: str) -> FailedCall | None:
    """None: it went well."""
    outcome = state.outcome
    assert outcome is not None  # tenacity asks behind an attempt
    error = outcome.exception()
    found = outcome.result() if error is None else error
    if error is None and (status_of(found) or 0) < 400:
        return None
    elapsed_s = state.seconds_since_start or 0.0
    return failed(retries, found, method=method, key=key, attempt=state.attempt_number, elapsed_s=elapsed_s)


def _said(state: tenacity.RetryCallState, decision: Decision) -> bool:
    state.drillmaster = decision  # type: ignore[attr-defined]  # for `_wait`, which is asked next
    return decision.allowed


def _wait(state: tenacity.RetryCallState) -> float:
    decision: Decision = state.drillmaster  # type: ignore[attr-defined]  # as `_said` left it
    return decision.wait_ms / 1_000
