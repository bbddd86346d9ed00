"""The quota guard around what a worker sends: a decorator for functions, a transport for httpx and httpx2, async or not.

1. What is not granted is not sent. A denial is `QuotaDenied`, with the decision in it: the reason, how long to wait, which limit,
   what is left. It is raised before a connection is looked for.
2. Nobody waits longer than `max_wait_s` over one call, all its waits together; 0: nobody waits. It waits as long as was told, and
   asks again; a denial without a wait is raised at once.
3. Each send asks: a retry, a redirect and a second page are calls of their own. A request that this transport has sent before, or
   that says so (`x-stainless-retry-count`, of the SDKs), is a retry.
4. Put it inside a transport that retries, so that each attempt is counted:
   `retrying(limiting(httpx.HTTPTransport(), spender), retries)`.
5. What a call costs in tokens its code says before it is sent, from what the code knows. Nothing here reads a body.
6. A partner's 429 in spite of a grant is written down (`partner_limited`): somebody else spends from the same account, or the
   pinned limits are not the partner's.
"""

import asyncio
import functools
import inspect
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from drillmaster.adapters.worker.guarding import Guarding
from drillmaster.clock import Clock, SystemClock
from drillmaster.errors import Problem, Refused
from drillmaster.guards import Decision
from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.timeline import mark

__all__ = ["AsyncQuotaTransport", "QuotaDenied", "QuotaTransport", "Spender", "limited", "limiting"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_LONGEST_WAIT_S = 3_600.0
_SENT = "drillmaster_sent"
_TOO_MANY = 429


class QuotaDenied(Refused):
    """The call was not sent. `decision` says why, and after how long it may be asked again."""

    def __init__(self, name: str, decision: Decision) -> None:
        wait = f"ask again after {decision.wait_ms} ms" if decision.wait_ms else "waiting does not help"
        super().__init__(
            f"quota {name}",
            found=decision.reason + ("" if decision.limit is None else f" of {decision.limit}"),
            wanted="a call within the quota",
            remedy=f"{wait}: drillmaster guard quota --explain",
        )
        self.decision = decision
        self.retry_after_s = decision.wait_ms / 1_000
        self.left = decision.left


class Spender:
    """One caller of one partner: it takes from a quota of a guards file before each call."""

    def __init__(
        self,
        guarding: Guarding,
        name: str = "quota",
        *,
        caller: str = "",
        max_wait_s: float = 0.0,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
        sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`name` is what the guards file calls the quota, `caller` which part of us calls. Raises Problem where there is none."""
        if not 0 <= max_wait_s <= _LONGEST_WAIT_S:
            raise ValueError(f"max_wait_s from 0 to {_LONGEST_WAIT_S:g}: found {max_wait_s}")
        if not isinstance(guarding.guards.entries.get(name), Quota):
            raise Problem(
                guarding.guards.place,
                found=f"no quota called {name}",
                wanted="an entry `guard: quota` of that name",
                remedy="name the entry as the guards file does",
            )
        self._guarding, self._name, self._caller = guarding, name, caller
        self._max_wait_s = max_wait_s
        self._clock = clock or SystemClock()
        self._sleep, self._sleep_async = sleep, sleep_async

    def take(self, *, route: str = "", requests: int = 1, tokens: int | None = None, retry: bool = False) -> Decision:
        """Take what one call costs, waiting within the bound. Raises QuotaDenied."""
        facts = self._facts(route, requests, tokens, retry)
        ends_ns = self._ends_ns()
        while True:
            decision = self._guarding.decide(self._name, facts, route=route)
            if decision.allowed:
                return decision
            self._sleep(self._waits_s(decision, ends_ns))

    async def take_async(
        self, *, route: str = "", requests: int = 1, tokens: int | None = None, retry: bool = False
    ) -> Decision:
        """Do as `take` does, in an event loop."""
        facts = self._facts(route, requests, tokens, retry)
        ends_ns = self._ends_ns()
        while True:
            decision = await self._guarding.decide_async(self._name, facts, route=route)
            if decision.allowed:
                return decision
            await self._sleep_async(self._waits_s(decision, ends_ns))

    def answered(self, status: int) -> None:
        """Write down that the partner denied what was granted here."""
        if status == _TOO_MANY:
            mark("partner_limited", partner=self._quota().partner, status=status, entry=self._name)

    def _quota(self) -> Quota:
        # Read anew each time: the file may have been loaded again, with other limits.
        return cast(Quota, self._guarding.guards.entries[self._name])

    def _facts(self, route: str, requests: int, tokens: int | None, retry: bool) -> OutboundCall:
        quota = self._guarding.guards.entries.get(self._name)
        if not isinstance(quota, Quota):
            raise QuotaDenied(self._name, Decision(allowed=False, reason="unlisted-guard"))
        return OutboundCall(
            partner=quota.partner,
            identity=quota.identity,
            caller=self._caller,
            route=route,
            requests=requests,
            tokens=tokens,
            retry=retry,
        )

    def _ends_ns(self) -> int:
        return self._clock.mono_ns() + round(self._max_wait_s * 1e9)

    def _waits_s(self, decision: Decision, ends_ns: int) -> float:
        """Say how long to wait. Raises QuotaDenied where that is no use, or longer than is left."""
        if decision.wait_ms <= 0 or self._clock.mono_ns() + decision.wait_ms * 1_000_000 > ends_ns:
            raise QuotaDenied(self._name, decision)
        return decision.wait_ms / 1_000


def limited(spender: Spender, *, route: str = "", tokens: Callable[..., int] | int | None = None) -> Callable[[F], F]:
    """Take from a quota before each call of a function, plain or async. `tokens` may be a function of the same arguments."""

    def decorate(function: F) -> F:
        def cost(args: tuple[Any, ...], named: dict[str, Any]) -> int | None:
            return tokens(*args, **named) if callable(tokens) else tokens

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def in_a_loop(*args: Any, **named: Any) -> Any:
                await spender.take_async(route=route, tokens=cost(args, named))
                return await function(*args, **named)

            return cast(F, in_a_loop)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator begins when it is read: take from the quota where it is made")

        @functools.wraps(function)
        def plain(*args: Any, **named: Any) -> Any:
            spender.take(route=route, tokens=cost(args, named))
            return function(*args, **named)

        return cast(F, plain)

    return decorate


def limiting(
    transport: T,
    spender: Spender,
    *,
    route: Callable[[Any], str] | str = "",
    tokens: Callable[[Any], int] | int | None = None,
) -> T:
    """Put the guard around a transport of httpx or httpx2: `httpx.Client(transport=limiting(httpx.HTTPTransport(), spender))`.

    `route` and `tokens` may be functions of the request; they are to look at its URL and its headers, and at what the worker
    put into `request.extensions`.
    """
    kind = AsyncQuotaTransport if hasattr(transport, "handle_async_request") else QuotaTransport
    return cast(T, kind(transport, spender, route=route, tokens=tokens))


class _Asking:
    def __init__(self, inner: Any, spender: Spender, *, route: Any, tokens: Any) -> None:
        self._inner, self._spender = inner, spender
        self._route, self._tokens = route, tokens

    def _cost(self, request: Any) -> dict[str, Any]:
        # A redirect is another request, which a client gives the extensions of the one before it.
        sent = request.extensions.get(_SENT)
        retry = (sent is not None and sent() is request) or request.headers.get(
            "x-stainless-retry-count", "0"
        ).strip() != "0"
        return {
            "route": self._route(request) if callable(self._route) else self._route,
            "tokens": self._tokens(request) if callable(self._tokens) else self._tokens,
            "retry": retry,
        }


class QuotaTransport(_Asking):
    def handle_request(self, request: Any) -> Any:
        """Send a request that is granted. Raises QuotaDenied, and what the transport inside raises."""
        self._spender.take(**self._cost(request))
        request.extensions[_SENT] = weakref.ref(request)
        response = self._inner.handle_request(request)
        self._spender.answered(response.status_code)
        return response

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> "QuotaTransport":
        self._inner.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self._inner.__exit__(*args)


class AsyncQuotaTransport(_Asking):
    async def handle_async_request(self, request: Any) -> Any:
        """Send a request that is granted. Raises QuotaDenied, and what the transport inside raises."""
        await self._spender.take_async(**self._cost(request))
        request.extensions[_SENT] = weakref.ref(request)
        response = await self._inner.handle_async_request(request)
        self._spender.answered(response.status_code)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> "AsyncQuotaTransport":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *args: Any) -> None:
        await self._inner.__aexit__(*args)
