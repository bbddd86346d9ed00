"""Chaos flags in a worker: a decorator for its risky tools, and one thread that keeps their state.

    @chaos("toolTimeout", "wrongAmount", capability="refund")
    def issue_refund(order, amount): ...

    chaos.start()   # at start-up: CHAOS_URL, CHAOS_TOKEN

1. A flag that is off costs one look at an attribute. One that is on is asked only while the server's lease lasts: a server
   that died, stopped or cannot be reached holds no flag on for longer than that.
2. A kill stays until the server says otherwise. A worker that starts and cannot reach its server has every capability of
   its own killed, and says so.
3. A name that stands in no registry is refused at start-up, and so is a decorator without a name, at import.
4. What a decorated function is (plain, coroutine, generator, asynchronous generator) it stays. Nothing runs at import, no
   thread and no socket; a process that was forked begins anew with its first call.
5. A call that was under way when its capability was killed goes on to its end, and so does a generator; an asynchronous one
   ends at its next item. The server is told how many there are, until there are none.
   Whether flags meet an asynchronous generator without a capability is looked at when it is called, not with its first item:
   where nothing is on, the caller has the function's own.
6. Without CHAOS_URL and without toggles in the environment nothing is ever on, and nothing can be killed.
"""

import functools
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from drillmaster.adapters.worker._chaos_shapes import Forced, Gate, Gates, shaped

if TYPE_CHECKING:
    from drillmaster.adapters.worker._chaos_client import Client, Live, Plan, State

__all__ = ["Forced", "Killed", "chaos", "held", "mission", "start", "stop"]

P = ParamSpec("P")
R = TypeVar("R")

mission: ContextVar[str] = ContextVar("drillmaster_chaos_mission", default="")
"""What `first` counts by; "": the mission whose transcript is under way, or none."""
SLICE_S = 0.05
"""How often a call that is held looks whether it still is."""


class Killed(RuntimeError):
    """The capability was killed: refuse what was asked for, and do not try again."""

    drill_result = "killed"


class _Module:
    """The one state of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.gates = Gates()
        self.client: Client | None = None


_module = _Module()


def chaos(
    *flags: str,
    capability: str = "",
    limit_s: float | None = None,
    raises: Callable[[Forced], BaseException | None] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Put a tool under flags, by their names in the registry, and under the kill of a capability.

    `limit_s` is the limit of the tool's own client: a forced timeout ends there, or after the flag's `max_s`. A coroutine
    is held until its caller's own limit cancels it. `raises` makes the error that the tool's client would raise; where it
    gives None, and without it, a timeout is TimeoutError, an error what the flag says, a kill `Killed`.
    """
    for name in (*flags, capability) if capability else flags:
        if not isinstance(name, str):
            raise TypeError(f'@chaos found {name!r}, wanted names of flags: @chaos("toolTimeout")')
        if not _is_name(name):
            raise ValueError(f"@chaos found {name[:80]!r}, wanted the name of a flag as flags.yaml has it")
    if not flags and not capability:
        raise TypeError('@chaos found no name, wanted at least one flag or a capability: @chaos("toolTimeout")')
    if limit_s is not None and not 0 < limit_s < 86_400:
        raise ValueError(f"@chaos: limit_s: found {limit_s}, wanted seconds > 0")

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if isinstance(function, staticmethod | classmethod):
            return cast("Callable[P, R]", type(function)(decorate(function.__func__)))
        name = getattr(function, "__qualname__", type(function).__qualname__)
        gate = Gate(flags, capability, limit_s, raises, name)
        with _module.lock:
            _module.gates.add(gate)
            if _module.client is not None:
                _module.client.admit(gate)  # raises for a name that the registry does not know
        return cast("Callable[P, R]", _wrapped(function, gate))

    return decorate


def _is_name(text: str) -> bool:
    """As the registry's law of names has it, for which nothing need be imported."""
    return (
        0 < len(text) <= 64
        and text.isascii()
        and text[0].isalpha()
        and text.replace("-", "").replace("_", "").isalnum()
    )


def _wrapped(function: Callable[..., Any], gate: Gate) -> Callable[..., Any]:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isroutine(inner):
        inner = getattr(inner, "__call__", inner)  # noqa: B004  # an object whose call is a coroutine is one too
    if inspect.isasyncgenfunction(inner):
        return shaped(function, "asynchronous generator", gate, _meet_items)
    if inspect.iscoroutinefunction(inner):
        return shaped(function, "coroutine", gate, _meet_later)
    if inspect.isgeneratorfunction(inner):
        return shaped(function, "generator", gate, _meet_each)
    return shaped(function, "plain", gate, _meet)


# A call that may be met


def _meet(gate: Gate, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    plan = _plan(gate)
    for flag in plan.holds:
        _hold(gate, flag)
    if plan.failing is not None:
        raise _error(gate, plan.failing)
    wrong = plan.wrong
    if wrong is None:
        return function(*args, **kwargs)
    if wrong.replaces:
        wrong.count()
        return wrong.value
    return wrong.of(function(*args, **kwargs))


async def _meet_later(gate: Gate, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    plan = _plan(gate)
    await _hold_later(gate, plan)
    wrong = plan.wrong
    if wrong is None:
        return await function(*args, **kwargs)
    if wrong.replaces:
        wrong.count()
        return wrong.value
    return wrong.of(await function(*args, **kwargs))


def _meet_each(gate: Gate, function: Callable[..., Any], args: Any, kwargs: Any) -> Generator[Any, Any, Any]:
    plan = _plan(gate)
    for flag in plan.holds:
        _hold(gate, flag)
    if plan.failing is not None:
        raise _error(gate, plan.failing)
    wrong = plan.wrong
    if wrong is None:
        return (yield from function(*args, **kwargs))
    if wrong.replaces:
        wrong.count()
        yield wrong.value
        return None
    source = function(*args, **kwargs)
    try:
        item = next(source)
        while True:
            try:
                sent = yield wrong.of(item)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  # what is thrown in is the function's to handle
                item = source.throw(error)
            else:
                item = source.send(sent)
    except StopIteration as ended:
        return ended.value
    finally:
        source.close()


async def _meet_items(gate: Gate, function: Callable[..., Any], args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:
    kills = bool(gate.capability)
    next(gate.begun)
    source = wrong = None
    try:
        if not gate.off:
            plan = _plan(gate)
            await _hold_later(gate, plan)
            wrong = plan.wrong
            if wrong is not None and wrong.replaces:
                wrong.count()
                yield wrong.value
                return
        source = function(*args, **kwargs)
        item = await source.__anext__()
        while True:
            if kills and not gate.off:
                _still_allowed(gate)
            try:
                sent = yield (item if wrong is None else wrong.of(item))
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  # what is thrown in is the function's to handle
                item = await source.athrow(error)
            else:
                item = await (source.__anext__() if sent is None else source.asend(sent))
    except StopAsyncIteration:
        source = None  # it has ended by itself
    finally:
        next(gate.ended)
        if source is not None:
            await source.aclose()


def _plan(gate: Gate) -> "Plan":
    client = _module.client or start()
    return client.plan(gate, _mission())


def _mission() -> str:
    own = mission.get()
    if own:
        return own
    import sys

    # Who records transcripts has imported this; who does not need not.
    recorder = sys.modules.get("drillmaster.adapters.worker.transcript")
    return "" if recorder is None else str(recorder.current().id or "")


def _hold(gate: Gate, flag: "Live") -> None:
    """Wait as a flag of kind latency or timeout wants, for as long as it is on."""
    until_ns = monotonic_ns() + round(flag.hold_s(gate.limit_s) * 1e9)
    while (left_ns := until_ns - monotonic_ns()) > 0 and flag.is_on():
        sleep(min(SLICE_S, left_ns / 1e9))


async def _hold_later(gate: Gate, plan: "Plan") -> None:
    holds = list(plan.holds)
    failing = plan.failing
    if failing is not None and failing.kind == "timeout":
        holds.append(failing)
    if holds:
        import asyncio  # whoever awaits this has it

        for flag in holds:
            until_ns = monotonic_ns() + round(flag.hold_s(gate.limit_s) * 1e9)
            while (left_ns := until_ns - monotonic_ns()) > 0 and flag.is_on():  # noqa: ASYNC110  # a thread tells of the lift
                await asyncio.sleep(min(SLICE_S, left_ns / 1e9))
    if failing is not None:
        raise _error(gate, failing, held=True)


def _error(gate: Gate, flag: "Live", *, held: bool = False) -> BaseException:
    if flag.kind == "timeout" and not held:
        _hold(gate, flag)
    forced = Forced(flag.name, flag.kind, flag.message, flag.status)
    error = None if gate.raises is None else gate.raises(forced)
    if error is None:
        if flag.kind == "kill":
            error = Killed(f"{flag.name} is killed")
        elif flag.kind == "timeout":
            error = TimeoutError(f"forced timeout {flag.name}")
        else:
            error = flag.error(flag.message)
    for name, value in (
        ("drill_result", "killed" if flag.kind == "kill" else flag.kind),
        ("drill_flag", flag.name),
        ("status", flag.status),
    ):
        if value is not None and not hasattr(error, name):
            try:
                setattr(error, name, value)
            except AttributeError:  # an error with slots says less
                break
    return error


def _still_allowed(gate: Gate) -> None:
    """Raise where a generator's capability was killed since it began."""
    client = _module.client
    killed = None if client is None else client.killed(gate)
    if killed is not None:
        raise _error(gate, killed)


# The process


def start(
    url: str | None = None, *, token: str | None = None, worker: str | None = None, wait_s: float = 1.0
) -> "Client":
    """Begin to keep the state; what was begun already goes on. Raises Problem for what start-up must not survive.

    `url` None: CHAOS_URL; `token` None: CHAOS_TOKEN. Waits at most `wait_s` for the server's first answer.
    """
    with _module.lock:
        if _module.client is None:
            from drillmaster.adapters.worker._chaos_client import Client

            client = Client(
                url or os.environ.get("CHAOS_URL") or "", token or os.environ.get("CHAOS_TOKEN") or "", worker
            )
            client.begin(_module.gates, wait_s)
            _module.client = client
        return _module.client


def stop() -> None:
    """Tell the server what was met, and end. Every flag of this process is off then, until it is started again."""
    with _module.lock:
        client, _module.client = _module.client, None
    if client is not None:
        client.end()
        for gate in _module.gates:
            gate.off = False


def held() -> "State | None":
    """What this process goes by; None where it has not begun."""
    client = _module.client
    return None if client is None else client.state


def _forked() -> None:
    """In a child: its thread is another process's. The first call begins anew."""
    _module.lock = threading.RLock()
    client, _module.client = _module.client, None
    if client is not None:
        client.abandon()
    for gate in _module.gates:
        gate.off = False
        gate.base += gate.running()


os.register_at_fork(after_in_child=_forked)
