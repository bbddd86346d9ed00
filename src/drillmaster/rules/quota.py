"""The law of a quota: at most so much in any window, and at most so much at once, decided together.

1. The cap is exact. What was granted counts for one whole window from when it was granted, (t, t + window], wherever that window is
   laid: no window of that length, at any time, holds more than the cap. A counter that starts anew on the hour lets twice as much
   through around the hour.
2. The burst is GCRA (ITU-T I.371): grants are spaced so that `cap` of them fill a window, and `burst` of them may come at once. By
   itself it lets cap + burst - 1 through in one window, which rule 1 does not.
3. A call has a cost, at least 1: requests, or tokens. It is granted whole or not at all. What is refused takes nothing, so that
   being refused costs no time.
4. A refusal says after which time the same call would be granted, if nobody else comes; None: never, since it costs more than cap
   or burst.
5. Time that goes backwards is taken to stand still.
6. Limits are read anew each time. A cap that was lowered holds at once, for what was granted before too; one that was raised does
   not give back what was spent.
7. State is bounded. Where the cap is over 10,000, grants within one ten-thousandth of a window are kept as one, dated at that
   piece's end: what was granted may count for so much longer than a window, and never for less.
8. Times are whole microseconds and every product stays below 2^53, so that carriers that know only doubles count alike.
"""

import msgspec

from drillmaster.rules import Law, Step

__all__ = ["LAW", "MOST_CAP", "MOST_WINDOW_US", "Granted", "Spending", "Take", "take"]

MOST_CAP = 90_000_000
"""cost x cap stays below 2^53. Who counts more counts in thousands."""
MOST_WINDOW_US = 31 * 86_400_000_000
_PIECES = 10_000


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """May so much be taken: `cost`, under `cap` in any window of `window_us`, `burst` at once. Whole numbers of cost."""

    cost: int
    window_us: int
    cap: int
    burst: int

    def __post_init__(self) -> None:
        if any(type(one) is not int for one in (self.cost, self.window_us, self.cap, self.burst)):
            raise ValueError("whole numbers for cost, window, cap and burst")
        if not (0 < self.window_us <= MOST_WINDOW_US and 0 < self.burst <= self.cap <= MOST_CAP and self.cost > 0):
            raise ValueError("a cost of at least 1, a window of at most 31 days, and 0 < burst <= cap <= 90,000,000")


class Spending(msgspec.Struct, frozen=True):
    """What was granted and still counts, oldest first, as (when, cost); `tat_us` is when the next one is due by the spacing."""

    granted: tuple[tuple[int, int], ...] = ()
    tat_us: int = 0
    tat_part: int = 0
    """And so many parts of a microsecond, of which `tat_of` make one: spacing is exact, under a cap that stays the same."""
    tat_of: int = 1
    seen_us: int = 0
    """The latest time that was asked about."""


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a taking. `wait_us` None: never. `left` is what the window still has."""

    allowed: bool
    wait_us: int | None
    left: int


def take(spending: Spending | None, asked: Take, now_us: int) -> Step[Spending, Granted]:
    """Take a cost out of a quota, or say when it can be. Raises ValueError for a time that is none."""
    if type(now_us) is not int:
        raise ValueError("a time in whole microseconds")
    was = spending or Spending()
    now_us = max(now_us, was.seen_us)
    live = tuple(one for one in was.granted if one[0] > now_us - asked.window_us)
    spent = sum(cost for _, cost in live)
    tat_us, tat_part = was.tat_us, was.tat_part
    if was.tat_of != asked.cap:  # parts of another cap: rounded up, so that nobody comes early
        tat_us, tat_part = tat_us + (tat_part > 0), 0
    if tat_us < now_us:
        tat_us, tat_part = now_us, 0
    burst_us, burst_part = _spaced(asked.burst, 0, asked)
    due_us, due_part = _spaced(min(asked.cost, asked.burst), tat_part, asked)
    due_us += tat_us
    early_us = due_us - burst_us - now_us + (due_part > burst_part)
    kept = Spending(live, tat_us, tat_part, asked.cap, now_us)
    left = max(0, asked.cap - spent)
    if asked.cost > asked.burst:
        return _step(kept, Granted(allowed=False, wait_us=None, left=left), asked)
    over = spent + asked.cost - asked.cap
    if over <= 0 and early_us <= 0:
        after = Spending(_with(live, now_us, asked), due_us, due_part, asked.cap, now_us)
        return _step(after, Granted(allowed=True, wait_us=0, left=left - asked.cost), asked)
    frees_us = 0
    for at, cost in live:
        if over <= 0:
            break
        over -= cost
        frees_us = at + asked.window_us - now_us
    return _step(kept, Granted(allowed=False, wait_us=max(frees_us, early_us), left=left), asked)


def _spaced(cost: int, part: int, asked: Take) -> tuple[int, int]:
    """How long a cost takes at the steady rate, as whole microseconds and parts, of which the cap make one; on top of `part`."""
    whole, rest = divmod(asked.window_us, asked.cap)
    more, part = divmod(part + cost * rest, asked.cap)
    return cost * whole + more, part


def _with(live: tuple[tuple[int, int], ...], now_us: int, asked: Take) -> tuple[tuple[int, int], ...]:
    at = now_us
    if asked.cap > _PIECES:
        piece_us = max(1, asked.window_us // _PIECES)
        at = -(-now_us // piece_us) * piece_us
    if live and live[-1][0] >= at:
        return (*live[:-1], (live[-1][0], live[-1][1] + asked.cost))
    return (*live, (at, asked.cost))


def _step(spending: Spending, granted: Granted, asked: Take) -> Step[Spending, Granted]:
    last_us = spending.granted[-1][0] + asked.window_us if spending.granted else 0
    # Whoever forgets it a window later forgets nothing, whatever limits are asked about next within that window.
    return Step(spending, granted, max(last_us, spending.tat_us, spending.seen_us) - spending.seen_us + asked.window_us)


LAW = Law(name="quota", state=Spending, asked=Take, told=Granted, step=take)
