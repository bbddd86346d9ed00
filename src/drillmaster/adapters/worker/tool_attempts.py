"""Attempts at tools, told to the drill: four lines around a retry loop, or a loop that tells by itself.

1. Without a drill (no DRILL_LOG) and without a mission nothing is written; the loop retries all the same.
2. Which exceptions are retried is the worker's: `retry_on`. What is not in it goes up at once, and the call has failed. A kill is
   never tried again, whatever stands there: somebody wants the capability off.
3. A result that the worker itself takes for wrong is an attempt that failed: raise `WrongResult`.
4. The law by which the lines are counted is in `rules/tool_recovery.py`.
"""

from collections.abc import Iterator
from time import monotonic_ns
from types import TracebackType
from typing import Self

from drillmaster.adapters.worker import transcript
from drillmaster.timeline import mark

__all__ = ["ToolCall", "WrongResult", "tool_call"]


class WrongResult(Exception):
    """A tool answered, and the answer cannot be right."""


class ToolCall:
    """One call of a tool, to be tried up to `attempts` times:

    for attempt in tool_call("refund", attempts=3):
        with attempt:
            result = refund(order)
    """

    def __init__(
        self, tool: str, mission: str, *, attempts: int, retry_on: tuple[type[BaseException], ...], call: str
    ) -> None:
        self._tool = tool
        self._mission = mission
        self._most = attempts
        self._retry_on = retry_on
        self._more = {"call": call} if call else {}
        self._began_ns = monotonic_ns()
        self._over = False
        self.attempt = 0

    def __iter__(self) -> Iterator["_Attempt"]:
        while not self._over and self.attempt < self._most:
            self.attempt += 1
            yield _Attempt(self)

    def tell(self, error: BaseException | None, ms: float) -> bool:
        """Tell how an attempt ended; True where it is to be tried again."""
        result = _result(error)
        again = isinstance(error, self._retry_on) and result != "killed" and self.attempt < self._most
        if self._mission:
            fields = {"mission": self._mission, "tool": self._tool, **self._more}
            mark("tool_attempted", attempt=self.attempt, result=result, ms=ms, **fields)
            if not again:
                took_ms = round((monotonic_ns() - self._began_ns) / 1e6, 3)
                mark("tool_finished", attempts=self.attempt, ok=error is None, ms=took_ms, **fields)
        self._over = not again
        return again


class _Attempt:
    def __init__(self, call: ToolCall) -> None:
        self._call = call
        self._began_ns = 0

    def __enter__(self) -> Self:
        self._began_ns = monotonic_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        return self._call.tell(error, round((monotonic_ns() - self._began_ns) / 1e6, 3))


def tool_call(
    tool: str,
    *,
    attempts: int,
    mission: str | None = None,
    retry_on: tuple[type[BaseException], ...] = (Exception,),
    call: str = "",
) -> ToolCall:
    """Begin a call of a tool, which is tried up to `attempts` times.

    `mission` None: the one whose transcript is under way here. `call` tells two calls of one tool apart that a mission has
    under way at once.
    """
    if attempts < 1:
        raise ValueError(f"attempts from 1: found {attempts}")
    if mission is None:
        mission = transcript.current().id
    return ToolCall(tool, mission, attempts=attempts, retry_on=retry_on, call=call)


def _result(error: BaseException | None) -> str:
    if error is None:
        return "ok"
    if isinstance(error, WrongResult):
        return "wrong"
    said = getattr(error, "drill_result", None)  # what the flags raise says of itself what it is
    if said in ("error", "timeout", "killed", "wrong"):
        return str(said)
    return "timeout" if isinstance(error, TimeoutError) or "timeout" in type(error).__name__.lower() else "error"
