"""An agent to stand in for one that acts: it takes an incident, asks its model, pays refunds by a tool, and says what it did.

The healthy one (`Concierge`) does what is asked of an agent that is drilled on Fridays: the tool has a time limit and is tried
again, an amount that comes back wrong is no answer, a capability that was killed is not tried at all but handed to a person, each
mission leaves a transcript, and when tools fail somebody is told.

Each class in `CONCIERGE_BUGS` is the same agent with one mistake that people really make. The switch is `STANDIN_BUG` in the
environment, as for the other stand-in agent.
"""

import asyncio
import itertools
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from drillmaster.adapters.worker.chaos import Forced, Killed, chaos
from drillmaster.adapters.worker.tool_attempts import WrongResult, tool_call
from drillmaster.adapters.worker.transcript import Mission
from drillmaster.clock import Clock
from drillmaster.errors import Problem
from drillmaster.standins.agent import SWITCH

__all__ = ["CONCIERGE_BUGS", "FLAGS", "RULE", "Alarm", "Concierge", "Pace", "Reply", "concierge_class"]

FLAGS = ("toolTimeout", "toolError", "wrongAmount")
CAPABILITY = "refund"
RULE = "ToolFailures"
REFUND_LIMIT = 500
_AMOUNT = re.compile(r"\$(\d{1,7})")
_ORDER = re.compile(r"#(\d{1,12})")

Refund = Callable[[str, int], Awaitable[dict[str, Any]]]
Reply = tuple[int, dict[str, Any]]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take."""

    first_model_s: float = 0.9
    second_model_s: float = 0.4
    tool_s: float = 0.06
    tool_limit_s: float = 0.3
    attempts: int = 3


class Alarm:
    """Says when tools fail: over the last `span_s`, so many attempts at least, so large a share of them failed."""

    def __init__(
        self, clock: Clock, *, severity: str, span_s: float = 5.0, least: int = 20, share: float = 0.1
    ) -> None:
        self.severity = severity
        self.firing = False
        self.since_ns = 0
        """Of the latest change, on the wall clock."""
        self._clock = clock
        self._span_ns = round(span_s * 1e9)
        self._least = least
        self._share = share
        self._seen: deque[tuple[int, bool]] = deque(maxlen=100_000)

    def count(self, *, well: bool) -> None:
        self._seen.append((self._clock.mono_ns(), well))

    def look(self) -> bool | None:
        """Whether the alert has begun (True) or ended (False) since the last look; None: neither."""
        oldest_ns = self._clock.mono_ns() - self._span_ns
        while self._seen and self._seen[0][0] < oldest_ns:
            self._seen.popleft()
        bad = sum(not well for _, well in self._seen)
        over = len(self._seen) >= self._least and bad > self._share * len(self._seen)
        if over is self.firing:
            return None
        self.firing, self.since_ns = over, self._clock.wall_ns()
        return over


class Concierge:
    """The healthy one."""

    attempts_most: int | None = None
    severity: str | None = "sev2"
    """None: nobody is told."""
    unrecorded_every: int | None = None
    """Every so many missions leave no transcript."""
    deaf_worker: int | None = None
    """The worker that does not hear of kills."""

    def __init__(self, pace: Pace, clock: Clock, *, worker: int = 0) -> None:
        self._pace = pace
        self._number = itertools.count(1)
        self.alarm = Alarm(clock, severity=self.severity or "none")
        capability = "" if worker == self.deaf_worker else CAPABILITY
        self._refund: Refund = chaos(*FLAGS, capability=capability, limit_s=pace.tool_limit_s, raises=_own_error)(
            self._pay
        )

    def records(self) -> bool:
        """Whether the mission that comes now leaves a transcript."""
        every = self.unrecorded_every
        return every is None or next(self._number) % every != 0

    async def _pay(self, order: str, amount: int) -> dict[str, Any]:
        """The tool: somebody else's service, for whom the time goes by."""
        await asyncio.sleep(self._pace.tool_s)
        if amount > REFUND_LIMIT:
            return {"order": order, "amount": amount, "state": "over the limit"}
        return {"order": order, "amount": amount, "state": "paid"}

    async def serve(self, asked: Mapping[str, Any], said: Mission, mission: str) -> Reply:
        """One message of a user, from start to end."""
        wish = _wish(asked)
        if wish is None:
            return 400, {"error": "user_id, and a history whose last entry has content"}
        order, amount, forced = wish
        await self._ask_model(said, "decide", {"tool": CAPABILITY, "order": order}, self._pace.first_model_s)
        state = await self._use_tool(order, REFUND_LIMIT + amount if forced else amount, said, mission)
        await self._ask_model(said, "word", {"text": _WORDS[state].format(order=order)}, self._pace.second_model_s)
        return 200, {"status": state, "answer": _WORDS[state].format(order=order), "order": order}

    async def _ask_model(self, said: Mission, what: str, answer: dict[str, Any], seconds: float) -> None:
        call = said.model_request({"model": "standin-large", "what": what})
        await asyncio.sleep(seconds)
        said.model_response(call, answer, status=200)

    async def _use_tool(self, order: str, amount: int, said: Mission, mission: str) -> str:
        attempts = self.attempts_most or self._pace.attempts
        try:
            for attempt in tool_call(CAPABILITY, attempts=attempts, mission=mission, retry_on=_FAILED):
                with attempt:
                    return await self._try_tool(order, amount, said)
        except Killed:
            return "paused"
        except _FAILED:
            return "handed over"
        return "handed over"

    async def _try_tool(self, order: str, amount: int, said: Mission) -> str:
        call = said.tool_call(CAPABILITY, {"order": order, "amount": amount})
        try:
            async with asyncio.timeout(self._pace.tool_limit_s):
                result = await self._refund(order, amount)
            if result.get("amount") != amount or result.get("order") != order:
                raise WrongAmount("another amount, or another order, than was asked for")
        except Killed:
            said.tool_result(call, ok=False, error="killed")
            raise
        except Exception as error:
            said.tool_result(call, ok=False, error=error)
            self.alarm.count(well=False)
            raise
        said.tool_result(call, result)
        self.alarm.count(well=True)
        return "needs approval" if result["state"] == "over the limit" else "refunded"


class WrongAmount(WrongResult):
    """The tool answered with what nobody asked for."""


class ToolDown(Exception):
    """The tool's own error."""


_FAILED = (TimeoutError, ToolDown, WrongAmount)


def _own_error(forced: Forced) -> BaseException | None:
    """What the tool's client would raise."""
    return ToolDown(forced.message) if forced.kind == "error" else None


_WORDS: Mapping[str, str] = {
    "refunded": "Order {order} is refunded; the money is with you in two days.",
    "needs approval": "The refund of order {order} needs a colleague's approval, and has been asked for.",
    "handed over": "The refund of order {order} could not be made now; a colleague has it and writes to you today.",
    "paused": "Refunds are paused at the moment; order {order} is in the queue, and a colleague looks at it.",
}


def _wish(asked: Mapping[str, Any]) -> tuple[str, int, bool] | None:
    """Order, amount and whether the limit is forced; None for what is no mission."""
    history, metadata = asked.get("history"), asked.get("metadata", {})
    last = history[-1] if isinstance(history, list) and history else None
    content = last.get("content") if isinstance(last, dict) else None
    if not isinstance(asked.get("user_id"), str) or not isinstance(content, str) or not isinstance(metadata, dict):
        return None
    order, amount = _ORDER.search(content), _AMOUNT.search(content)
    return (
        order[1] if order else "unknown",
        int(amount[1]) if amount else 40,
        metadata.get("force_refund_limit") is True,
    )


class _NoRetry(Concierge):
    """A tool call is tried once: the first timeout is handed to a person."""

    attempts_most = 1


class _Silent(Concierge):
    """Nobody is told when tools fail: the alert's webhook was never configured."""

    severity = None


class _Low(Concierge):
    """The alert is of severity sev3, which wakes nobody."""

    severity = "sev3"


class _Forgetful(Concierge):
    """One mission in fifty leaves no transcript."""

    unrecorded_every = 50


class _Deaf(Concierge):
    """One of the two workers does not ask whether refunds were killed."""

    deaf_worker = 1


CONCIERGE_BUGS: Mapping[str, type[Concierge]] = {
    "no-retry": _NoRetry,
    "no-alert": _Silent,
    "low-severity": _Low,
    "lost-transcripts": _Forgetful,
    "deaf-worker": _Deaf,
}
"""The switch and the agent it selects; the docstring of the class says what is wrong with it."""


def concierge_class(name: str | None) -> type[Concierge]:
    """The agent that `STANDIN_BUG` asks for; None or nothing is the healthy one. Raises Problem for an unknown name."""
    if not name:
        return Concierge
    if name not in CONCIERGE_BUGS:
        raise Problem(
            SWITCH,
            found=repr(name[:40]),
            wanted=f"one of {', '.join(CONCIERGE_BUGS)}",
            remedy="see: drillmaster standin concierge --list-bugs",
        )
    return CONCIERGE_BUGS[name]
