"""The retry guard inside requests and urllib3.

1. `session.mount("https://api.example.com/", RetryAdapter(retries))`: requests asks the guard, and urllib3's own retries are off.
   Redirects are the session's, and each hop a call of its own.
2. `PinnedRetry(retries, idempotency_key=...)` is a `urllib3.Retry` for who calls urllib3 itself:
   `pool.request("POST", url, retries=PinnedRetry(...))`. urllib3 shows it no request header, so it is told the key, and is made
   anew for each call. It decides by the shared budget; keys in flight are kept by the adapter alone.
3. Without a length that can be sent again (a file, a generator) a body is sent once.
"""

import time
from typing import Any

import requests.adapters
import urllib3

from drillmaster.adapters.worker.retry import (
    MOST_BODY_BYTES,
    Retries,
    carry,
)

__all__ = ["PinnedRetry", "RetryAdapter"]


class RetryAdapter(requests.adapters.HTTPAdapter):
    """An adapter of requests whose calls go through the guard. Takes the options of `HTTPAdapter` but `max_retries`."""

    def __init__(self, retries: Retries, **options: Any) -> None:
        self._retries = retries
        super().__init__(**options, max_retries=0)

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Send a request as often as the guard allows. Raises what the last attempt raised, and Refused."""
        retries = self._retries
        retries.check_nested(request.headers)
        wire = _Wire(lambda: super(RetryAdapter, self).send(request, *args, **options))
        replayable = request.body is None or isinstance(request.body, bytes | str)
        steps = retries.call(request.method or "", retries.key_of(request.headers), replayable=replayable)
        outcome = carry(retries, steps, wire)
        response: requests.Response = wire.response
        if outcome is not None:
            response.drillmaster = outcome  # type: ignore[attr-defined]  # for `outcome_of`
        return response


class _Wire:
    def __init__(self, sends: Any) -> None:
        self._sends = sends
        self.response: Any = None

    def send(self) -> tuple[int, Any]:
        self.response = self._sends()
        return self.response.status_code, self.response.raw.headers.items

    def drop(self) -> None:
        if self.response is not None:
            self.response.close()

    def body(self) -> bytes | None:
        # requests keeps what was read for the caller; a body that does not say its length is not read here.
        length = self.response.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            return None
        whole: bytes = self.response.content
        return whole if len(whole) <= MOST_BODY_BYTES else None


class PinnedRetry(urllib3.Retry):
    """A `urllib3.Retry` that asks the guard about each answer, and lets no other failure be tried again."""

    def __init__(self, retries: Retries, *, idempotency_key: str = "", replayable: bool = True, **options: Any) -> None:
        self._retries, self._key, self._replayable = retries, idempotency_key, replayable
        self._began_ns, self._calls, self._wait_ms = time.monotonic_ns(), 1, 0
        super().__init__(
            **{
                "total": None,
                "connect": False,
                "read": False,
                "other": False,
                "redirect": 5,
                "raise_on_status": False,
                **options,
            }
        )

    def new(self, **options: Any) -> "PinnedRetry":
        made: PinnedRetry = super().new(
            retries=self._retries, idempotency_key=self._key, replayable=self._replayable, **options
        )
        made._began_ns, made._calls, made._wait_ms = self._began_ns, self._calls, self._wait_ms
        return made

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Say that `increment` decides: it is shown the answer."""
        if status_code < 400:
            self._retries.good(first=self._calls == 1)
        return status_code >= 400

    def increment(
        self, method: Any = None, url: Any = None, response: Any = None, error: Any = None, *args: Any, **options: Any
    ) -> Any:
        if response is not None and response.get_redirect_location():
            return super().increment(method, url, response, error, *args, **options)
        facts = self._retries.facts(
            None if response is None else response.status,
            () if response is None else response.headers.items(),
            b"",
            method=method or "",
            key=self._key,
            attempt=self._calls,
            elapsed_ms=(time.monotonic_ns() - self._began_ns) // 1_000_000,
            replayable=self._replayable,
        )
        decision = self._retries.decide(facts)
        if error is not None:  # a call without an answer, which the guard has denied
            raise error
        if not decision.allowed:
            why = urllib3.exceptions.ResponseError(decision.reason)
            raise urllib3.exceptions.MaxRetryError(options["_pool"], url or "", why)
        made = super().increment(method, url, response, error, *args, **options)
        made._calls, made._wait_ms = self._calls + 1, decision.wait_ms
        return made

    def sleep(self, response: Any = None) -> None:
        if not self._retries.sleep(self._wait_ms):
            raise self._retries.stops()
