"""The retry guard as stamina's backoff hook.

stamina shows a hook the exception and nothing else, so that a hook is one call's: `retry_context(**one_call(retries))` around a
block, or `@retry(retries)` around a function, which makes one each time. The hook says no, or the wait in seconds. stamina has no
hook for results, so that a function has to raise (`raise_for_status`). It asks the store without an event loop: for a coroutine
each decision holds the loop for one round trip. stamina sleeps by itself: `stop` does not wake it, but `retry` sends nothing then,
and nothing behind the deadline; around a block of your own look at `retries.stopped`.
"""

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

import stamina

from drillmaster.adapters.worker.retry import Retries
from drillmaster.adapters.worker.retry_loops import failed

__all__ = ["one_call", "retry"]

F = TypeVar("F", bound=Callable[..., Any])


def one_call(retries: Retries, *, method: str = "", idempotency_key: str = "") -> dict[str, Any]:
    """Give what `stamina.retry_context` takes for one call: the hook, and no limits beside the guard's."""
    began_s, calls = time.monotonic(), 0

    def hook(error: Exception) -> bool | float:
        nonlocal calls
        calls += 1
        facts = failed(
            retries, error, method=method, key=idempotency_key, attempt=calls, elapsed_s=time.monotonic() - began_s
        )
        decision = retries.decide(facts)
        return decision.wait_ms / 1_000 if decision.allowed and not retries.stopped else False

    return {"on": hook, "attempts": None, "timeout": None}


def retry(retries: Retries, *, method: str = "", idempotency_key: str = "") -> Callable[[F], F]:
    """Decorate a function, or a coroutine function."""

    def decorate(function: F) -> F:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **options: Any) -> Any:
                began_s = time.monotonic()
                async for attempt in stamina.retry_context(
                    **one_call(retries, method=method, idempotency_key=idempotency_key)
                ):
                    _check(retries, attempt.num, began_s)
                    with attempt:
                        result = await function(*args, **options)
                        await retries.good_async(first=attempt.num == 1)
                        return result
                raise AssertionError("stamina ends with a result or an exception")

            return awaited  # type: ignore[return-value]  # it is called as the function is

        @functools.wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            began_s = time.monotonic()
            for attempt in stamina.retry_context(**one_call(retries, method=method, idempotency_key=idempotency_key)):
                _check(retries, attempt.num, began_s)
                with attempt:
                    result = function(*args, **options)
                    retries.good(first=attempt.num == 1)
                    return result
            raise AssertionError("stamina ends with a result or an exception")

        return called  # type: ignore[return-value]  # it is called as the function is

    return decorate


def _check(retries: Retries, attempt: int, began_s: float) -> None:
    """Raise Refused where what waited is not to be sent any more."""
    if attempt > 1 and retries.stopped:
        raise retries.stops()
    if attempt > 1 and time.monotonic() - began_s >= retries.guard.deadline_ms / 1_000:  # the worker was held up
        raise retries.late()
