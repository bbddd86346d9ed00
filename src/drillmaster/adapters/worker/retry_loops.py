"""What tenacity's and stamina's loops know of a failure: an exception that holds an answer, or the answer itself."""

from typing import Any

from drillmaster.adapters.worker.retry import Retries
from drillmaster.guards.retry import FailedCall

__all__ = ["failed", "status_of"]


def failed(
    retries: Retries, found: Any, *, method: str, key: str, attempt: int, elapsed_s: float, replayable: bool = True
) -> FailedCall:
    """Make the facts of a failure that a loop was shown.

    `method` and `key` are the caller's word; "" takes them from the request that the answer holds. Where none does, the method is
    not known, and the guard says no.
    """
    answer = _answer(found)
    request = _request(found, answer)
    return retries.facts(
        status_of(found),
        _fields(getattr(answer, "headers", None)),
        b"",
        method=method or str(getattr(request, "method", None) or ""),
        key=key or retries.key_of(getattr(request, "headers", None) or {}),
        attempt=attempt,
        elapsed_ms=int(elapsed_s * 1_000),
        replayable=replayable,
    )


def status_of(found: Any) -> int | None:
    """Find the status of an answer, or of an exception that holds one; None: there is none."""
    answer = _answer(found)
    for name in ("status_code", "status"):
        status = getattr(answer, name, None)
        if type(status) is int:
            return status
    return None


def _answer(found: Any) -> Any:
    """httpx, requests and the SDKs keep it as `response`; aiohttp's errors hold status and headers themselves."""
    response = getattr(found, "response", None)
    return found if response is None else response


def _request(found: Any, answer: Any) -> Any:
    for one in (answer, found):
        for name in ("request", "request_info"):
            try:
                request = getattr(one, name, None)
            except RuntimeError:  # httpx, where an answer was made without one
                continue
            if request is not None:
                return request
    return None


def _fields(headers: Any) -> list[tuple[str, str]]:
    if headers is None:
        return []
    items = headers.multi_items() if hasattr(headers, "multi_items") else headers.items()
    return [(str(name), str(value)) for name, value in items]
