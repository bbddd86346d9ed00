"""The retry guard inside requests and urllib3.

1. `session.mount("https://api.example.com/", RetryAdapter(retries))`: requests asks the guard, and urllib3's own retries are off.
   Redirects are the session's, and each hop a call of its own.
2. `PinnedRetry(retries, idempotency_key=...)` is a `urllib3.Retry` for who calls urllib3 itself:
   `pool.request("POST", url, retries=PinnedRetry(...))`. urllib3 shows it no request header, so it is told the key, and is made
   anew for each call. It decides by the shared budget; keys in flight are kept by the adapter alone. Nor is it shown the body: who
   sends one says with `replayable=True` that it is bytes or text, or else POST, PUT and PATCH are sent once: of a generator urllib3
   would send what is left, which is nothing.
3. Without a length that can be sent again (a file, a generator) a body is sent once.
4. What the adapter sends again waits for its answer no longer than what is left of the deadline, nor for each piece of its body.
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
from drillmaster.guards.retry import FailedCall

__all__ = ["PinnedRetry", "RetryAdapter"]

_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "DELETE"})


class RetryAdapter(requests.adapters.HTTPAdapter):
    """An adapter of requests whose calls go through the guard. Takes the options of `HTTPAdapter` but `max_retries`."""

    def __init__(self, retries: Retries, **options: Any) -> None:
        self._retries = retries
        super().__init__(**options, max_retries=0)

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Send a request as often as the guard allows. Raises what the last attempt raised, and Refused."""
        retries = self._retries
        retries.check_nested(request.headers)
        sends = super().send
        wire = _Wire(lambda left_ms: sends(request, stream, _within(timeout, left_ms), verify, cert, proxies))
        replayable = request.body is None or isinstance(request.body, bytes | str)
        key = retries.key_of(request.headers)
        outcome = carry(retries, wire, request.method or "", key, replayable=replayable)
        response: requests.Response = wire.response
        if outcome is not None:
            response.drillmaster = outcome  # type: ignore[attr-defined]  # for `outcome_of`
        return response


class _Wire:
    def __init__(self, sends: Any) -> None:
        self._sends = sends
        self.response: Any = None

    def send(self, left_ms: int | None) -> tuple[int, Any]:
        self.response = self._sends(left_ms)
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


def _within(timeout: Any, left_ms: int | None) -> Any:
    """Cut a caller's time limits down to what is left."""
    if left_ms is None:
        return timeout
    left_s = left_ms / 1_000
    if isinstance(timeout, urllib3.Timeout):
        cut = timeout.clone()
        cut.total = min(cut.total, left_s) if isinstance(cut.total, int | float) else left_s
        return cut
    connect_s, read_s = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    return urllib3.Timeout(total=left_s, connect=connect_s, read=read_s)


class PinnedRetry(urllib3.Retry):
    """A `urllib3.Retry` that asks the guard about each answer, and lets no other failure be tried again."""

    def __init__(
        self, retries: Retries, *, idempotency_key: str = "", replayable: bool | None = None, **options: Any
    ) -> None:
        """`replayable`: whether the body can be sent once more; None: nobody says, and only what has none is sent again."""
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
        facts = self._facts(method or "", response)
        decision = self._retries.decide(facts)
        if error is not None:  # a call without an answer, which the guard has denied
            raise error
        if not decision.allowed:
            why = urllib3.exceptions.ResponseError(decision.reason)
            raise urllib3.exceptions.MaxRetryError(options["_pool"], url or "", why)
        made = super().increment(method, url, response, error, *args, **options)
        made._calls, made._wait_ms = self._calls + 1, decision.wait_ms
        return made

    def sleep_for_retry(self, response: Any) -> bool:
        """Wait before a redirect is followed, where it asks for that (RFC 9110, 10.2.3): no longer than the cap, and never less."""
        facts = self._facts("GET", response)
        asked_ms = facts.asked_wait_ms or 0
        if facts.asked_unreadable:
            raise self._retries.refused("retry-after-unreadable")
        if asked_ms > self._retries.guard.cap_ms:
            raise self._retries.refused("retry-after-over-cap", wait_ms=asked_ms)
        if asked_ms and not self._retries.sleep(asked_ms):
            raise self._retries.stops()
        return asked_ms > 0

    def _facts(self, method: str, response: Any) -> FailedCall:
        return self._retries.facts(
            None if response is None else response.status,
            () if response is None else response.headers.items(),
            b"",
            method=method,
            key=self._key,
            attempt=self._calls,
            elapsed_ms=(time.monotonic_ns() - self._began_ns) // 1_000_000,
            replayable=method in _BODILESS if self._replayable is None else self._replayable,
        )

    def sleep(self, response: Any = None) -> None:
        if not self._retries.sleep(self._wait_ms):
            raise self._retries.stops()
        if time.monotonic_ns() - self._began_ns >= self._retries.guard.deadline_ms * 1_000_000:  # it was held up
            raise self._retries.late()
