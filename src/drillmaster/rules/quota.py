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
"""

import msgspec

__all__ = ["Granted", "Limits", "Spending", "take"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`cap` in any window of `window_ns`, `burst` at once; whole numbers of cost."""

    window_ns: int
    cap: int
    burst: int

    def __post_init__(self) -> None:
        if any(type(one) is not int for one in (self.window_ns, self.cap, self.burst)):
            raise ValueError("whole numbers for window, cap and burst")
        if not (self.window_ns > 0 and 0 < self.burst <= self.cap):
            raise ValueError("a window, and 0 < burst <= cap")


class Spending(msgspec.Struct, frozen=True):
    """What was granted and still counts, oldest first, as (when, cost); `tat_ns` is when the next one is due by the spacing."""

    granted: tuple[tuple[int, int], ...] = ()
    tat_ns: int = 0
    seen_ns: int = 0
    """The latest time that was asked about."""

    @property
    def spent(self) -> int:
        return sum(cost for _, cost in self.granted)


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a taking. `wait_ns` None: never. `left` is what the window still has."""

    spending: Spending
    allowed: bool
    wait_ns: int | None
    left: int


def take(spending: Spending, cost: int, limits: Limits, now_ns: int) -> Granted:
    """Take a cost out of a quota, or say when it can be. Raises ValueError for a cost or a time that is none."""
    if type(cost) is not int or cost < 1 or type(now_ns) is not int:
        raise ValueError("a whole cost of at least 1, and a time in nanoseconds")
    now_ns = max(now_ns, spending.seen_ns)
    live = tuple(one for one in spending.granted if one[0] > now_ns - limits.window_ns)
    spent = sum(one for _, one in live)
    # Rounded up: spacing that is a hair too wide costs a nanosecond, one too narrow is a grant too many in the long run.
    space_ns = -(-limits.window_ns // limits.cap)
    due_ns = max(spending.tat_ns, now_ns) + cost * space_ns
    early_ns = due_ns - limits.burst * space_ns - now_ns
    kept = Spending(live, spending.tat_ns, now_ns)
    if cost > limits.burst or cost > limits.cap:
        return Granted(spending=kept, allowed=False, wait_ns=None, left=max(0, limits.cap - spent))
    over = spent + cost - limits.cap
    if over <= 0 and early_ns <= 0:
        after = Spending((*live, (now_ns, cost)), due_ns, now_ns)
        return Granted(spending=after, allowed=True, wait_ns=0, left=limits.cap - spent - cost)
    frees_ns = 0
    for at, one in live:
        if over <= 0:
            break
        over -= one
        frees_ns = at + limits.window_ns - now_ns
    return Granted(spending=kept, allowed=False, wait_ns=max(frees_ns, early_ns), left=max(0, limits.cap - spent))
