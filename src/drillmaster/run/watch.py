"""What a drill has to be stopped for, looked at: each look answers why, or None. Who asks does the stopping.

1. Time is counted by the kernel (`pulse`) beside being read from a clock. Where the two part, or this process was held up
   for so long that a user's time limit could have passed meanwhile, what the drill measured is not the agent.
2. Evidence that cannot be written, was taken away, or was lost by the injector, is a drill without it.
3. An injector that says nothing is killed: it may be holding a fault on.
4. A cap on what may be spent stops the drill before it is passed: as soon as the next look could find it behind us. The proxy
   holds the cap itself, for what comes between two looks.
5. Before anything is injected users have been answered, and well: what fails without a fault fails with it for another reason.
"""

import os
from collections.abc import Mapping
from typing import Any

from drillmaster.child import ChildLost
from drillmaster.clock import Clock
from drillmaster.conduct import State
from drillmaster.errors import Refused
from drillmaster.plan import Outline
from drillmaster.run.folder import Folder
from drillmaster.run.injecting import Injector
from drillmaster.run.pins import Pins
from drillmaster.run.traffic import Tally

__all__ = ["BEAT_S", "SPEND_S", "Watch", "baseline_problem", "requests_spent"]

BEAT_S = 0.1
SPEND_S = 0.25
DEAF_S = 6.0
"""An injector that says nothing for so long is killed and replaced."""
MAX_LATE_S = 10.0
"""How late traffic may be, or how long this process may be held up, where the time limit does not say less."""
MAX_CLOCK_STEP_S = 1.0
_PLAYED = frozenset({State.BASELINE, State.INJECTED, State.RECOVERY})


class Watch:
    """One drill's. `begin` as its time begins, `users_begin` as its traffic does."""

    def __init__(self, plan: Outline, folder: Folder, injector: Injector, pins: Pins, clock: Clock) -> None:
        self._plan = plan
        self._folder = folder
        self._injector = injector
        self._pins = pins
        self._clock = clock
        self._max_late_s = max_late_s(plan.traffic.time_limit_s)
        self._zero_ns = 0
        self._counted_s = 0.0
        self._heard_ns = 0
        self._spent = {"requests": 0, "tokens": 0}

    def begin(self) -> None:
        self._zero_ns = self._clock.mono_ns()

    def users_begin(self) -> None:
        self._heard_ns = self._clock.mono_ns()

    def beat(self, passed: int, state: State) -> str | None:
        """Say why to stop, `passed` beats of the kernel's count later: we were held up, or the clock does not agree with it."""
        now_ns = self._clock.mono_ns()
        self._counted_s += passed * BEAT_S
        step_s = (now_ns - self._zero_ns) / 1e9 - self._counted_s
        if abs(step_s) > MAX_CLOCK_STEP_S:
            self._zero_ns, self._counted_s = now_ns, 0.0
            return f"clock jumped by {step_s:+.1f} s: no time of this drill can be trusted"
        held_s = (passed - 1) * BEAT_S
        if held_s > self._max_late_s and (state in _PLAYED or state is State.DRAINING):
            return (
                f"this process was held up for {held_s:.1f} s (at most {self._max_late_s:g} of the users' "
                f"{self._plan.traffic.time_limit_s:g} s): it was stopped, or the machine slept or has too much to do"
            )
        return None

    async def look(self, state: State, tally: Tally) -> str | None:
        """Once a second: at the users' outcomes, the evidence, the disk and the injector."""
        if state is State.DRAINING:
            return self._pins.complaint() or await self._at_injector()
        if state not in _PLAYED:
            return None
        return self._at_users(tally) or self._pins.complaint() or self._at_folder() or await self._at_injector()

    async def spent(self) -> str | None:
        """Four times a second: at what went to the real endpoint. Silence of the injector is for `look` to judge."""
        spend = self._plan.spend
        if spend is None:
            return None
        try:
            state = await self._injector.state()
        except ChildLost:
            return None
        counts, spent = state.get("counts", {}), state.get("spent") or {}
        if counts.get("spend_refused"):
            return "what may be spent at the real endpoint is spent (spend): the proxy keeps the rest from it"
        before, self._spent = (
            self._spent,
            {
                "requests": requests_spent(state),
                "tokens": int(spent.get("tokens", counts.get("tokens", 0))),
            },
        )
        for what, cap in (("requests", spend.max_requests), ("tokens", spend.max_tokens)):
            now = self._spent[what]
            if cap is not None and 2 * now - before[what] > cap:
                return f"{now} {what} went to the real endpoint: spend.max_{what} {cap} is about to be passed"
        return None

    def _at_users(self, tally: Tally) -> str | None:
        stop, ratio = self._plan.stop, tally.recent_failed_ratio()
        if stop.failed_ratio is not None and ratio is not None and ratio > stop.failed_ratio:
            return f"{ratio:.0%} of the last {stop.over_requests} requests failed (stop.failed_ratio {stop.failed_ratio:g})"
        if tally.late_ns > self._max_late_s * 1e9:
            return f"the traffic was {tally.late_ns / 1e9:.1f} s late: this machine slept, or has too much to do"
        return None

    def _at_folder(self) -> str | None:
        try:
            free = os.statvfs(self._folder.path)
        except OSError as error:
            return f"the run folder cannot be read: {error.strerror}"
        free_mb = free.f_bavail * free.f_frsize // 1_000_000
        if free_mb < self._plan.stop.min_free_mb:
            return f"{free_mb} MB of disk left (stop.min_free_mb {self._plan.stop.min_free_mb})"
        if not os.access(self._folder.timeline, os.W_OK):
            return "the timeline is not writable any more"
        return None

    async def _at_injector(self) -> str | None:
        try:
            state = await self._injector.state()
        except ChildLost as lost:
            if self._clock.mono_ns() - self._heard_ns < DEAF_S * 1e9:
                return None
            self._injector.kill()  # whoever waits for it starts another, passing through
            return f"{self._injector.called} does not answer: {lost.why}"
        self._heard_ns = self._clock.mono_ns()
        counts = state.get("counts", {})
        if counts.get("evidence_lost"):
            return f"{self._injector.called} could not write {counts['evidence_lost']} lines of evidence"
        return None


def baseline_problem(tally: Tally | None, max_failed_ratio: float, *, by_hand: bool) -> Refused | None:
    """Say why users are not well enough for an injection, before the first one; `by_hand`: it is a Lead's, who can wait."""
    if tally is None or tally.done == 0:
        return Refused(
            "baseline",
            found="no request that has ended",
            wanted="a healthy baseline before anything is injected",
            remedy="wait for the first answers" if by_hand else "lengthen phases.baseline_s",
        )
    if tally.failed / tally.done <= max_failed_ratio:
        return None
    words = ", ".join(f"{n} {word}" for word, n in tally.by_outcome.most_common(4))
    return Refused(
        "baseline",
        found=f"{tally.failed} of {tally.done} failed with nothing injected ({words})",
        wanted=f"a share of at most {max_failed_ratio:g}",
        remedy="mend the agent or its real endpoint, see that it answers, and run again",
    )


def requests_spent(state: Mapping[str, Any]) -> int:
    """How many requests went to the real endpoint, by what the proxy says of itself (`state`).

    The purse's own count, where there is one: a proxy that was replaced counts the rest anew, and what met a fault may have
    gone up all the same.
    """
    spent, counts = state.get("spent"), state.get("counts", {})
    if spent is not None:
        return int(spent["requests"])
    return int(counts.get("requests", 0)) - int(counts.get("met", 0))


def max_late_s(time_limit_s: float) -> float:
    """How long this process may be held up before its users' outcomes are not the agent's any more.

    Half the time limit, so that an answer in the other half is still seen in time; of a short limit up to three quarters,
    at most a second, since a busy machine does hold a process up for some tenths.
    """
    return min(MAX_LATE_S, max(time_limit_s / 2, min(1.0, 0.75 * time_limit_s)))
