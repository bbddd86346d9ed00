"""An agent to stand in for a real one: HTTP `/answer?q=...`, a primary model, a fallback, and the timeline.

The healthy one (`Agent`) does what the playbook asks for: it marks each decision, gives the primary a time limit, takes
anything but an answer as a failure, falls back at once, and after three failures in a row stops asking for a while (one
request in `OPEN_S` seconds goes through to see whether the primary is back).

Each class in `BUGS` is the same agent with one mistake that people really make, one per diagnosis. The switch is the
environment variable `STANDIN_BUG` and not an option: a drill records the command line of the worker that it starts,
and evidence that names the mistake would make a diagnosis out of reading.
"""

import hashlib
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from drillmaster.clock import Clock
from drillmaster.errors import Problem
from drillmaster.standins.provider import FALLBACK_MODEL, PRIMARY_MODEL

__all__ = [
    "BUGS",
    "HANDLERS",
    "OPEN_S",
    "SWITCH",
    "Agent",
    "Ask",
    "Breaker",
    "FallbackFailed",
    "NoAnswer",
    "Settings",
    "Unavailable",
    "agent_class",
]

SWITCH = "STANDIN_BUG"

OPEN_S = 2.0
"""How long an open breaker keeps requests from the primary before it lets one through."""

_FAILURES = 3
HANDLERS = 256
"""Users served at once; the next one gets a 503."""

Mark = Callable[..., None]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the models are and how long to wait. `fallback_url` None: a text from a cache is the fallback."""

    primary_url: str
    fallback_url: str | None
    primary_model: str = PRIMARY_MODEL
    fallback_model: str = FALLBACK_MODEL
    timeout_s: float
    stream: bool = False


class NoAnswer(Exception):
    """The model's API said 200 and there was no answer in it."""


class FallbackFailed(Exception):
    """The fallback gave up on this prompt, and knows it."""


class Ask(Protocol):
    """One call to a model: the prompt in, the text out, or an exception."""

    def __call__(self, url: str, model: str, prompt: str, *, trace: str | None, timeout_s: float | None) -> str: ...


class Breaker:
    """Counts failures in a row; open, it lets one request in `open_s` through. Safe for many threads."""

    def __init__(self, failures: int, open_s: float, clock: Clock) -> None:
        self._limit = failures
        self._open_s = open_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failed = 0
        self._next_try_s = 0.0

    @property
    def open(self) -> bool:
        return self._failed >= self._limit

    def admits(self) -> bool:
        """Whether this request may ask the primary."""
        with self._lock:
            if not self.open:
                return True
            now_s = self._clock.mono_ns() / 1e9
            if now_s < self._next_try_s:
                return False
            self._next_try_s = now_s + self._open_s
            return True

    def succeeded(self) -> None:
        with self._lock:
            self._failed = 0

    def failed(self) -> None:
        with self._lock:
            self._failed += 1
            self._next_try_s = self._clock.mono_ns() / 1e9 + self._open_s


class Agent:
    """The healthy one: a time limit, a fallback at once for every failure, a breaker that closes again."""

    def __init__(self, settings: Settings, ask: Ask, mark: Mark, clock: Clock, unavailable: "Unavailable") -> None:
        self.settings = settings
        self.ask = ask
        self.mark = mark
        self.clock = clock
        self.breaker = self.make_breaker()
        self.caught = self.failures(unavailable)

    # What the buggy ones change, one method each.

    def make_breaker(self) -> Breaker:
        return Breaker(_FAILURES, OPEN_S, self.clock)

    def failures(self, unavailable: "Unavailable") -> tuple[type[Exception], ...]:
        """The exceptions after which the fallback is asked."""
        return (unavailable.any, NoAnswer, json.JSONDecodeError)

    def ask_primary(self, prompt: str, trace: str | None) -> str:
        settings = self.settings
        url, model = settings.primary_url, settings.primary_model
        return self.ask(url, model, prompt, trace=trace, timeout_s=settings.timeout_s)

    def ask_fallback(self, prompt: str, trace: str | None) -> str:
        settings = self.settings
        if settings.fallback_url is None:
            key = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            return f"[{key}] From our notes: we are looking into it and answer within one working day."
        url, model = settings.fallback_url, settings.fallback_model
        return self.ask(url, model, prompt, trace=trace, timeout_s=settings.timeout_s)

    def serve(self, prompt: str, request_id: str, trace: str | None) -> tuple[int, dict[str, Any]]:
        """One user's request from start to end: the status and the JSON that the user gets."""
        return self._bounded(prompt, request_id, trace)

    # What all have in common.

    def answer(self, prompt: str, request_id: str, trace: str | None) -> tuple[str, str]:
        """Text and path; raises what was not caught."""
        if self.breaker.admits():
            try:
                text = self.ask_primary(prompt, trace)
            except self.caught:
                self.breaker.failed()
            else:
                self.breaker.succeeded()
                self.mark("model_ok", id=request_id, path="primary")
                return text, "primary"
        self.mark("fallback_engaged", id=request_id, path="fallback")
        return self.ask_fallback(prompt, trace), "fallback"

    def _bounded(self, prompt: str, request_id: str, trace: str | None) -> tuple[int, dict[str, Any]]:
        started_ns = self.clock.mono_ns()
        self.mark("user_request", id=request_id, phase="start")
        status, reply = 500, {"error": "internal error"}
        try:
            text, path = self.answer(prompt, request_id, trace)
            status, reply = 200, {"text": text, "path": path}
        except FallbackFailed:
            status, reply = 502, {"error": "no model could answer this"}
        except Exception as error:  # noqa: BLE001 # the boundary: the user gets a 500 and the timeline the class
            self.mark("unhandled_exception", id=request_id, kind=type(error).__name__)
        ms = round((self.clock.mono_ns() - started_ns) / 1e6, 3)
        self.mark("user_request", id=request_id, phase="end", status=status, ms=ms)
        return status, reply


class Unavailable(msgspec.Struct, frozen=True):
    """The exception classes of the SDK: any error of it, and an answer with an error status."""

    any: type[Exception]
    status: type[Exception]


class _WrongClass(Agent):
    """The fallback waits for Python's own connection errors, which the SDK never raises: dead code."""

    def failures(self, unavailable: Unavailable) -> tuple[type[Exception], ...]:
        return (ConnectionError, TimeoutError)


class _Choosy(Agent):
    """The fallback knows answers to questions only, and fails on every other prompt."""

    def ask_fallback(self, prompt: str, trace: str | None) -> str:
        if "?" not in prompt:
            raise FallbackFailed
        return super().ask_fallback(prompt, trace)


class _Cold(Agent):
    """The fallback is cold: it loads something for over half a second on every call."""

    def ask_fallback(self, prompt: str, trace: str | None) -> str:
        time.sleep(0.6)
        return super().ask_fallback(prompt, trace)


class _OneLoop(Agent):
    """All requests go through one background loop that nobody restarts; the first exception ends it."""

    def __init__(self, settings: Settings, ask: Ask, mark: Mark, clock: Clock, unavailable: Unavailable) -> None:
        super().__init__(settings, ask, mark, clock, unavailable)
        self._jobs: queue.Queue[tuple[str, str, str | None, queue.Queue[str]]] = queue.Queue(HANDLERS)
        threading.Thread(target=self._work, name="loop", daemon=True).start()

    def failures(self, unavailable: Unavailable) -> tuple[type[Exception], ...]:
        return ()

    def _work(self) -> None:
        while True:
            prompt, request_id, trace, reply = self._jobs.get()
            self.mark("user_request", id=request_id, phase="start")
            try:
                text, _ = self.answer(prompt, request_id, trace)
            except Exception as error:  # noqa: BLE001 # as people write it: noted, and then the thread is gone
                self.mark("unhandled_exception", id=request_id, kind=type(error).__name__)
                return
            self.mark("user_request", id=request_id, phase="end", status=200)
            reply.put(text)

    def serve(self, prompt: str, request_id: str, trace: str | None) -> tuple[int, dict[str, Any]]:
        reply: queue.Queue[str] = queue.Queue(1)
        self._jobs.put((prompt, request_id, trace, reply))
        return 200, {"text": reply.get(), "path": "primary"}


class _Eager(Agent):
    """Ten tries at the primary for each user, with next to no pause, before the fallback is asked."""

    def make_breaker(self) -> Breaker:
        return Breaker(sys.maxsize, OPEN_S, self.clock)

    def ask_primary(self, prompt: str, trace: str | None) -> str:
        settings = self.settings
        each_s = settings.timeout_s / 4
        for _ in range(9):
            try:
                return self.ask(settings.primary_url, settings.primary_model, prompt, trace=trace, timeout_s=each_s)
            except self.caught:
                time.sleep(0.01)
        return self.ask(settings.primary_url, settings.primary_model, prompt, trace=trace, timeout_s=each_s)


class _OneWay(Agent):
    """The breaker has no way back: once open, the primary is never asked again."""

    def make_breaker(self) -> Breaker:
        return Breaker(_FAILURES, float("inf"), self.clock)


class _EmptyHanded(Agent):
    """The fallback is noted in the timeline and returns nothing: the user gets a 200 with no text."""

    def ask_fallback(self, prompt: str, trace: str | None) -> str:
        return ""


class _Patient(Agent):
    """The fallback starts only after 60 failures in a row; until then users get errors."""

    def make_breaker(self) -> Breaker:
        return Breaker(60, OPEN_S, self.clock)

    def answer(self, prompt: str, request_id: str, trace: str | None) -> tuple[str, str]:
        if self.breaker.open:
            return super().answer(prompt, request_id, trace)
        try:
            text = self.ask_primary(prompt, trace)
        except self.caught:
            self.breaker.failed()
            raise FallbackFailed from None
        self.breaker.succeeded()
        self.mark("model_ok", id=request_id, path="primary")
        return text, "primary"


class _StatusOnly(Agent):
    """Only error statuses lead to the fallback; a broken connection is nobody's business."""

    def failures(self, unavailable: Unavailable) -> tuple[type[Exception], ...]:
        return (unavailable.status,)


class _NoLimit(Agent):
    """No time limit on the call: fine on errors, and on a hang it waits as long as the provider does."""

    def ask_primary(self, prompt: str, trace: str | None) -> str:
        settings = self.settings
        return self.ask(settings.primary_url, settings.primary_model, prompt, trace=trace, timeout_s=None)


BUGS: Mapping[str, type[Agent]] = {
    "wrong-except": _WrongClass,
    "choosy-fallback": _Choosy,
    "cold-start": _Cold,
    "one-loop": _OneLoop,
    "eager-retries": _Eager,
    "one-way-switch": _OneWay,
    "empty-hands": _EmptyHanded,
    "slow-counter": _Patient,
    "status-only": _StatusOnly,
    "no-client-timeout": _NoLimit,
}
"""The switch and the agent it selects; the docstring of the class says what is wrong with it."""


def agent_class(name: str | None) -> type[Agent]:
    """The agent that `STANDIN_BUG` asks for; None or nothing is the healthy one. Raises Problem for an unknown name."""
    if not name:
        return Agent
    if name not in BUGS:
        raise Problem(
            SWITCH,
            found=repr(name[:40]),
            wanted=f"one of {', '.join(BUGS)}",
            remedy="see: drillmaster standin agent --list-bugs",
        )
    return BUGS[name]
