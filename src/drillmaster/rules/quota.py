"""The law of a quota: at most so much in any window, and at most so much at once, for several limits decided together.

1. The cap is exact. What was granted counts for one whole window from when it was granted, (t, t + window], wherever that window is
   laid: no window of that length, at any time, holds more than the cap. A counter that starts anew on the hour lets twice as much
   through around the hour.
2. The burst is GCRA (ITU-T I.371): grants are spaced so that `cap` of them fill a window, and `burst` of them may come at once. By
   itself it lets cap + burst - 1 through in one window, which rule 1 does not.
3. A call has a cost, at least 1: requests, or tokens. It is granted whole or not at all, by all of its limits or by none. What is
   refused takes nothing and writes nothing, so that being refused costs no time and a storm of refusals no disk.
4. A refusal says after which time the same call would be granted, if nobody else comes; None: never, since it costs more than a
   burst. Where several limits refuse, the one with the longest wait is told, and what is left is its own.
5. Time that goes backwards, behind the last grant, is taken to stand still.
6. Limits are read anew each time. A cap that was lowered holds at once, for what was granted before too; one that was raised does
   not give back what was spent. A window that was lengthened counts what the shorter one had not yet let go.
7. State is bounded. Where the cap is over 1,000, grants within one thousandth of a window are kept as one, dated at that piece's
   end: what was granted may count for so much longer than a window, and never for less. A limit under which nothing was granted
   for a window, since all that was had left it, is forgotten.
8. Times are whole microseconds and every product stays below 2^53, so that carriers that know only doubles count alike.
"""

import re

import msgspec

from drillmaster.rules import Law, Step

__all__ = ["LAW", "MOST_CAP", "MOST_LIMITS", "MOST_WINDOW_US", "Granted", "Limit", "Spending", "Take", "take"]

MOST_CAP = 90_000_000
"""cost x cap stays below 2^53. Who counts more counts in thousands."""
MOST_WINDOW_US = 31 * 86_400_000_000
MOST_COST = 2**53 - 1
MOST_LIMITS = 16
_PIECES = 1_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """May `cost` be taken under `cap` in any window of `window_us`, `burst` at once. Whole numbers of cost."""

    name: str
    """Of lower-case letters, digits and dashes. What was granted under a name counts under it, whatever its numbers were then."""
    cost: int
    window_us: int
    cap: int
    burst: int

    def __post_init__(self) -> None:
        if any(type(one) is not int for one in (self.cost, self.window_us, self.cap, self.burst)):
            raise ValueError("whole numbers for cost, window, cap and burst")
        if not (0 < self.window_us <= MOST_WINDOW_US and 0 < self.burst <= self.cap <= MOST_CAP):
            raise ValueError("a window of at most 31 days, and 0 < burst <= cap <= 90,000,000")
        if not 0 < self.cost <= MOST_COST:
            raise ValueError("a cost of at least 1, below 2^53")
        if type(self.name) is not str or _NAME.fullmatch(self.name) is None:
            raise ValueError("a name of lower-case letters, digits and dashes")


class Take(msgspec.Struct, frozen=True):
    """What one call would take, under each of its limits."""

    limits: tuple[Limit, ...]

    def __post_init__(self) -> None:
        if type(self.limits) is not tuple or not 1 <= len(self.limits) <= MOST_LIMITS:
            raise ValueError(f"1 to {MOST_LIMITS} limits")
        if len({one.name for one in self.limits}) < len(self.limits):
            raise ValueError("each limit once")


class Spending(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What was granted under one limit and still counts, oldest first, as (when, cost)."""

    granted: tuple[tuple[int, int], ...] = ()
    tat_us: int = 0
    """When the next one is due by the spacing,"""
    tat_part: int = 0
    """and so many parts of a microsecond, of which `tat_of` make one: spacing is exact, under a cap that stays the same."""
    tat_of: int = 1
    seen_us: int = 0
    """When it was granted last."""
    until_us: int = 0
    """From then on it says no more than none would."""


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a taking."""

    allowed: bool
    wait_us: int | None
    """None: never."""
    left: int
    """What the window still has: of the limit that refused, else of the first one."""
    limit: int
    """Which limit that is, from 0."""


class _Tried(msgspec.Struct, frozen=True):
    wait_us: int | None
    left: int
    after: Spending


def take(spendings: dict[str, Spending] | None, asked: Take, now_us: int) -> Step[dict[str, Spending], Granted]:
    """Take a cost out of a quota, or say when it can be. Raises ValueError for a time that is none."""
    if type(now_us) is not int:
        raise ValueError("a time in whole microseconds")
    was = spendings or {}
    held = [was.get(limit.name, _NONE) for limit in asked.limits]
    now_us = max(now_us, *(one.seen_us for one in held))
    held = [one if one.until_us > now_us else _NONE for one in held]
    tried = [_try(spending, limit, now_us) for spending, limit in zip(held, asked.limits, strict=True)]
    worst = 0
    for n, one in enumerate(tried):
        longest_us = tried[worst].wait_us
        if longest_us is not None and (one.wait_us is None or one.wait_us > longest_us):
            worst = n
    wait_us = tried[worst].wait_us
    if wait_us != 0:
        keep_us = max((one.until_us for one in was.values()), default=now_us) - now_us
        told = Granted(allowed=False, wait_us=wait_us, left=tried[worst].left, limit=worst)
        return Step(spendings, told, max(0, keep_us))
    after = {name: spending for name, spending in was.items() if spending.until_us > now_us}
    for one, limit in zip(tried, asked.limits, strict=True):
        after[limit.name] = one.after
    keep_us = max(one.until_us for one in after.values()) - now_us
    return Step(after, Granted(allowed=True, wait_us=0, left=tried[0].left, limit=0), keep_us)


def _try(was: Spending, asked: Limit, now_us: int) -> _Tried:
    live = tuple(one for one in was.granted if one[0] > now_us - asked.window_us)
    spent = sum(cost for _, cost in live)
    left = max(0, asked.cap - spent)
    if asked.cost > asked.burst:
        return _Tried(None, left, was)
    tat_us, tat_part = was.tat_us, was.tat_part
    if was.tat_of != asked.cap:  # parts of another cap: rounded up, so that nobody comes early
        tat_us, tat_part = tat_us + (tat_part > 0), 0
    if tat_us < now_us:
        tat_us, tat_part = now_us, 0
    burst_us, burst_part = _spaced(asked.burst, 0, asked)
    due_us, due_part = _spaced(asked.cost, tat_part, asked)
    due_us += tat_us
    early_us = due_us - burst_us - now_us + (due_part > burst_part)
    over = spent + asked.cost - asked.cap
    if over <= 0 and early_us <= 0:
        granted = _with(live, now_us, asked)
        # Whoever forgets it a window later forgets nothing, whatever is asked about next within that window.
        until_us = max(granted[-1][0] + asked.window_us, due_us, now_us) + asked.window_us
        return _Tried(0, left - asked.cost, Spending(granted, due_us, due_part, asked.cap, now_us, until_us))
    frees_us = 0
    for at, cost in live:
        if over <= 0:
            break
        over -= cost
        frees_us = at + asked.window_us - now_us
    return _Tried(max(frees_us, early_us), left, was)


def _spaced(cost: int, part: int, asked: Limit) -> tuple[int, int]:
    """How long a cost takes at the steady rate, as whole microseconds and parts, of which the cap make one; on top of `part`."""
    whole, rest = divmod(asked.window_us, asked.cap)
    more, part = divmod(part + cost * rest, asked.cap)
    return cost * whole + more, part


def _with(live: tuple[tuple[int, int], ...], now_us: int, asked: Limit) -> tuple[tuple[int, int], ...]:
    at = now_us
    if asked.cap > _PIECES:
        piece_us = max(1, asked.window_us // _PIECES)
        at = -(-now_us // piece_us) * piece_us
    if live and live[-1][0] >= at:
        return (*live[:-1], (live[-1][0], live[-1][1] + asked.cost))
    return (*live, (at, asked.cost))


def _parts(asked: Take) -> tuple[str, ...]:
    return tuple(limit.name for limit in asked.limits)


_NONE = Spending()
LAW: Law[dict[str, Spending], Take, Granted] = Law(
    name="quota", state=dict[str, Spending], asked=Take, told=Granted, step=take, parts=_parts
)
